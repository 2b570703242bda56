"""Graph Denoising Policy Network: learn which neighbours of a noisy graph to trust."""

__version__ = "0.1.0"
