"""The checks of all values of a store, piece by piece on all cores; the first wrong value is named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gdpnet._core.threads import in_order
from gdpnet.data.edge_weight import checked_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import Arrays
from gdpnet.data.validation import SPLIT_RULE, SPLITS, UNKNOWN, check_width, checked_class_names
from gdpnet.errors import GraphError

Checked = TypeVar("Checked")

PIECE = 1 << 20
"""Values that are checked at a time; every thread holds a few times as many."""


def check_edges(arrays: Arrays, row_ptr: np.ndarray) -> None:
    """Refuse neighbours that do not exist, self-loops, rows that do not ascend, and unusable weights."""
    _check_ascending(arrays["neighbour"], row_ptr, row_ptr.size - 1, "neighbour", loops=False)
    if "edge_weight" in arrays:
        weight = arrays["edge_weight"]
        _on_pieces(
            weight, lambda start, stop: checked_weights(_read(weight, start, stop), stop - start, start)
        )


def _on_pieces(array: np.ndarray, check: Callable[[int, int], Checked]) -> list[Checked]:
    """Call a check with the bounds of each piece of an array, in several threads; the first error in order counts."""
    return list(
        in_order(lambda start: check(start, min(start + PIECE, array.size)), range(0, array.size, PIECE))
    )


def _read(array: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return some values; those of a mapped file are read from it, so that a check does not leave them in memory."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return array.reshape(-1)[start:stop]
    with Path(array.filename).open("rb") as file:
        file.seek(array.offset + start * array.itemsize)
        return np.fromfile(file, array.dtype, stop - start)


def _check_ascending(
    values: np.ndarray, row_ptr: np.ndarray, most: int, what: str, *, loops: bool = True
) -> None:
    """Refuse rows whose values lie outside, or do not ascend, or are the number of the row unless it may be."""

    def check(start: int, stop: int) -> None:
        start = max(start - 1, 0)  # the last value of the piece before
        piece, owner = _read(values, start, stop), _owners(row_ptr, start, stop)
        _check_range(piece, most, what)
        wrong = np.zeros(piece.size, dtype=bool) if loops else owner == piece
        wrong[1:] |= (np.diff(piece) <= 0) & (np.diff(owner) == 0)
        if wrong.any():
            itself = "" if loops else " and without the node itself"
            raise GraphError(
                f"the values of a node in array '{what}' must ascend, without repeats{itself}; those of node "
                f"{owner[wrong.argmax()]} do not"
            )

    _on_pieces(values, check)


def _owners(row_ptr: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the target of each edge from ``start`` up to ``stop``."""
    first = int(np.searchsorted(row_ptr, start, side="right")) - 1
    last = int(np.searchsorted(row_ptr, stop, side="left"))
    return np.repeat(np.arange(first, last), np.diff(row_ptr[first : last + 1].clip(start, stop)))


def check_nodes(arrays: Arrays, graph: Graph) -> None:
    """Refuse features that are not finite or lie outside the columns, and labels and splits that do not exist."""
    if graph.num_features == 0:
        raise GraphError("a node must have at least one feature, found none")
    names, rows = graph.edge_feature_names, graph.edge_features
    if names is not None and (rows is None or len(names) != rows.shape[1]):
        raise GraphError(f"there must be a name for each edge feature, found {len(names)} names")
    for name in {"features", "feature_value", "edge_features"} & arrays.keys():
        values = arrays[name]
        if not all(_on_pieces(values, partial(_is_finite, values))):
            raise GraphError(f"array '{name}' must hold finite numbers, found NaN or infinity")
    if "feature_column" in arrays:
        _check_ascending(
            arrays["feature_column"], arrays["feature_row_ptr"], graph.num_features, "feature_column"
        )
    check_width(graph.features)
    if "node_ids" in arrays:
        _check_unique(graph.node_ids)
    if graph.targets is not None and bool(graph.targets.isinf().any()):
        raise GraphError("targets must be finite numbers, or NaN for unknown, found infinity")
    _check_classes(graph)
    checked_class_names(graph.class_names, graph.labels)
    if int(graph.split.min()) < 0 or int(graph.split.max()) >= len(SPLITS):
        raise GraphError(SPLIT_RULE)


def _is_finite(values: np.ndarray, start: int, stop: int) -> bool:
    return bool(np.isfinite(_read(values, start, stop)).all())


def _check_classes(graph: Graph) -> None:
    """Refuse labels that are neither unknown nor one of the classes."""
    for labels in (graph.labels, *([graph.truth.clean_labels] if graph.truth else [])):
        low, high = int(labels.min()), int(labels.max())
        if low < UNKNOWN or high >= graph.num_classes:
            raise GraphError(f"labels must be {UNKNOWN} or below {graph.num_classes}, found {low} to {high}")
    if graph.targets is not None and int(graph.labels.max()) != UNKNOWN:
        raise GraphError("a graph must have class labels or numbers to predict (targets), found both")


def _check_unique(ids: np.ndarray) -> None:
    if pc.count_distinct(pa.array(np.asarray(ids))).as_py() < ids.size:
        raise GraphError("node ids must be unique, found one of several nodes")


def _check_range(piece: np.ndarray, count: int, name: str) -> None:
    low, high = int(piece.min()), int(piece.max())
    if low < 0 or high >= count:
        raise GraphError(f"array '{name}' must hold numbers from 0 to {count - 1}, found {low} to {high}")
