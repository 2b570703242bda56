"""Engines that play episodes: the reference, and kernels in numba and Triton that agree with it."""
