"""Baselines: one method per file."""
