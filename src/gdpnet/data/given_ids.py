"""Node ids as users give them to a graph: one per node, unique, and exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set, Sized
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor

from gdpnet._core.words import counted
from gdpnet.data.array_checks import array_of, tensor_of
from gdpnet.data.validation import id_text, whole_or_text_ids
from gdpnet.errors import GraphError

_EXACT = 1 << 53
"""Whole numbers beyond this are not all floating-point numbers."""


def checked_ids(node_ids: Any, nodes: int) -> np.ndarray:
    """Return unique node ids, the node numbers if none are given."""
    if node_ids is None:
        return np.arange(nodes)
    ids = _array_of_ids(node_ids, nodes)
    _check_count(ids.shape, nodes)
    check_unique(ids)
    return ids


def check_unique(ids: np.ndarray) -> None:
    """Refuse ids that two nodes have."""
    values, counts = np.unique(id_text(ids), return_counts=True)
    if values.size != ids.size:
        first = int((counts > 1).argmax())
        others = int((counts > 1).sum()) - 1
        more = f" and {counted(others, 'other id')} more than once" if others else ""
        raise GraphError(
            f"node ids must be unique, found '{values[first]}' {counts[first]} times{more}: keep one row per node"
        )


def exact_array(values: Sequence[Any], what: str) -> np.ndarray:
    """Return whole numbers and others as an array; as objects where floating-point numbers would not be exact."""
    array = array_of(values, what)
    is_large = array.dtype.kind == "f" and bool((np.abs(array) >= _EXACT).any())
    return _objects(values) if is_large and any(isinstance(value, int) for value in values) else array


def _check_count(shape: tuple[int, ...], nodes: int) -> None:
    if shape != (nodes,):
        raise GraphError(f"there must be one id per node ({nodes}), found an array of shape {shape}")


def _array_of_ids(node_ids: Any, nodes: int) -> np.ndarray:
    """Return ids as an array; texts stay objects until it is known how much memory they take."""
    if isinstance(node_ids, Tensor):
        node_ids = tensor_of(node_ids, "node ids").numpy()
    elif not isinstance(node_ids, np.ndarray):
        values = _listed(node_ids, nodes)
        _check_none_missing(values)
        if any(isinstance(value, str) for value in values):
            return whole_or_text_ids(_objects(values))
        node_ids = exact_array(values, "node ids")
    elif node_ids.dtype.kind == "O":
        _check_none_missing(node_ids.ravel().tolist())
    if node_ids.dtype.kind not in "biufSUO":
        raise GraphError(f"node ids must be text or numbers, found {node_ids.dtype}")
    if node_ids.dtype.kind == "f":
        _check_none_missing(node_ids.ravel().tolist())
    return node_ids.astype(node_ids.dtype.newbyteorder("="), copy=False)


def _listed(node_ids: Any, nodes: int) -> list[Any]:
    """Return ids as a list, without reading more of them than there are nodes."""
    if isinstance(node_ids, str | bytes | Mapping | Set):
        raise GraphError(
            f"node ids must be a list, in the order of the nodes, found {type(node_ids).__name__}"
        )
    if isinstance(node_ids, Sized):
        _check_count((len(node_ids),), nodes)
    values = list(islice(iter(node_ids), nodes + 1))
    if len(values) > nodes:
        raise GraphError(f"there must be one id per node ({nodes}), found more")
    return values


def _check_none_missing(values: Sequence[Any]) -> None:
    """Refuse what stands for no id: None, NaN and pandas' NA, which equal nothing."""
    for place, value in enumerate(values):
        if value is None or type(value).__name__ in ("NAType", "NaTType") or _is_nan(value):
            raise GraphError(f"every node must have an id, found {value} for node number {place}")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
