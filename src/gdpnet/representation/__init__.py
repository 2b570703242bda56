"""Phase two: represent each node from its selected neighbours."""
