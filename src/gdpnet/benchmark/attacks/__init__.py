"""Adaptive attacks: edges that mislead one fitted model, found by an attacker who knows it or who may query it."""
