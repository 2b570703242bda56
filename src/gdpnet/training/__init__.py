"""Train both phases in turn."""
