"""Building blocks that know nothing of graphs."""
