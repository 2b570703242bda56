"""Graphs by name: citation datasets, and generated ones."""
