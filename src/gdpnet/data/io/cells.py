"""Cells of columns of Python objects, looked at before Arrow is: it ends the process on a list that holds itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from gdpnet.errors import GraphError

_PLAIN = (str, bytes, bytearray, memoryview)
"""Collections that are values."""


def check_cells(values: Iterable[Any], where: str, row: str = "in row") -> None:
    """Refuse a column in which a list, set or dictionary holds another one."""
    kinds: dict[type, bool] = {}
    for place, value in enumerate(values):
        kind = type(value)
        if kind not in kinds:
            kinds[kind] = _holds_values(kind)
        if kinds[kind] and _is_nested(value):
            raise GraphError(
                f"{where} must hold plain values or flat lists of numbers, found a {kind.__name__} that holds others "
                f"{row} {place + 1}: leave it out, or write its values as columns"
            )


def _holds_values(kind: type) -> bool:
    return issubclass(kind, Collection) and not issubclass(kind, _PLAIN)


def _is_nested(value: Any) -> bool:
    """Return whether a collection holds another one."""
    if isinstance(value, np.ndarray) and (value.ndim == 0 or value.dtype != object):
        return value.ndim > 1
    inner = value.values() if isinstance(value, Mapping) else value
    return any(_holds_values(kind) for kind in set(map(type, inner)))
