"""Loops that numba compiles; imported only where numba can be."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache

_DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    pickle.PickleError,
)
"""What numba raises for a cache that a power cut or a full disk has cut short."""


class _Cache(FunctionCache):
    """A cache of compiled functions that may be damaged, or lie on a full disk: then functions are compiled anew."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a compiled function, None if there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except _DAMAGED:
            with suppress(*_DAMAGED):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function, if that is possible."""
        with suppress(OSError, EOFError, pickle.PickleError):
            super().save_overload(sig, data)


def cached(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function at its first call; it is kept beside its file or in the user's cache folder."""
    found = numba.njit(**options)(function)
    with suppress(RuntimeError):  # numba found no folder that it may write to
        found._cache = _Cache(function)
    return found


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, with the rounding of its text, without the interpreter lock."""
    return cached(function, nogil=True, error_model="numpy")
