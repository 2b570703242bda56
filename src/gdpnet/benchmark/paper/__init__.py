"""The paper's evaluation: its tables, figures and claims, with the paper's own figures for comparison."""
