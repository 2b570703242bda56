"""Apply a trained model to a graph."""
