"""Passes over blocks of targets, whose tables of nodes and edges are files."""
