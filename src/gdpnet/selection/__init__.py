"""Phase one: choose the signal neighbours."""
