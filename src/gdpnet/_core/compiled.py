"""Loops that numba compiles; imported only where numba can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, with the rounding of its text, without the interpreter lock.

    It is cached, beside its file or in the user's cache folder, for later processes.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**options)(function)
