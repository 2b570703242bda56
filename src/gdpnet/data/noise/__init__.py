"""Corrupt a graph on purpose, and know what changed."""
