"""Corrupt a graph on purpose, with a record of what changed."""
