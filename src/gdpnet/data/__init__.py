"""A graph comes in, and is checked once."""
