"""Read and write graphs."""
