"""Engines that play episodes: reference, numba, Triton."""
