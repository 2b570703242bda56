"""Experiments: baselines, comparisons on perturbed graphs, records, figures and the paper's evaluation."""
