"""Evaluation, trials, records and figures."""
