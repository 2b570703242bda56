"""The paper's evaluation: its tables, its figures and its claims, each beside what the paper reports."""
