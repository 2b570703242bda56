"""Phase two: learn from the selected neighbours."""
