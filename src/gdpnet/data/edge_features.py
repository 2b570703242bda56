"""Edge features and edge types, checked and brought into the order in which a graph keeps its edges.

A type is a column of zeros and ones, called ``column=value``; every other column holds numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float, Int, Shaped

from gdpnet.data.graph import Graph
from gdpnet.errors import GraphError, nearest

MISSING = " is missing"
"""What the name of a column ends in that marks missing numbers."""

MERGED_NOTE = "parallel edges became one edge, with all their types and the mean of their numbers"


def with_edge_features(
    graph: Graph,
    edge_index: Int[np.ndarray, "2 given"],
    values: Shaped[np.ndarray, "*any"] | None,
    names: Sequence[str] | None = None,
    *,
    directed: bool,
) -> Graph:
    """Return the graph with the features of the edges that it was built from, unchanged if there are none.

    In an undirected graph, both directions of an edge have the same row. Duplicate edges become one, with the mean
    of each column, or the maximum if the column holds only zeros and ones.
    """
    if values is None or (values.ndim == 2 and values.shape[1] == 0):
        return graph
    rows = checked_rows(values, edge_index.shape[1])
    if names is not None and len(names) != rows.shape[1]:
        raise GraphError(
            f"there must be a name for each of {rows.shape[1]} edge features, found {len(names)}"
        )
    proper = edge_index[0] != edge_index[1]
    (source, target), rows = edge_index[:, proper], rows[proper]
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        rows = np.concatenate([rows, rows])
    key, place = np.unique(target.astype(np.int64) * graph.num_nodes + source, return_inverse=True)
    merged = _merge(rows, place.reshape(-1), key.size)
    if not np.array_equal(merged[place.reshape(-1)], rows):
        graph = graph.with_notes(MERGED_NOTE)
    return replace(
        graph,
        edge_features=torch.from_numpy(merged),
        edge_feature_names=None if names is None else tuple(str(name) for name in names),
    )


def checked_rows(values: Shaped[np.ndarray, "*any"], edges: int) -> Float[np.ndarray, "edges columns"]:
    """Return edge features in single precision; refuse another shape and values that are not finite."""
    if values.ndim != 2 or values.shape[0] != edges or values.dtype.kind not in "biuf":
        raise GraphError(
            f"edge features must be one row of numbers per edge ({edges}), found an array of shape {values.shape}"
        )
    with np.errstate(over="ignore"):
        rows = values.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise GraphError(
            f"edge features must be finite, found NaN or infinity on edge number {int(bad[0]) + 1}"
        )
    return rows


def _merge(
    rows: Float[np.ndarray, "given columns"], place: Int[np.ndarray, "given"], count: int
) -> Float[np.ndarray, "edges columns"]:
    """Return one row per edge: the mean of its rows, or their maximum where a column is zeros and ones."""
    gather = sp.csr_matrix((np.ones(place.size), (place, np.arange(place.size))), shape=(count, place.size))
    mean = (gather @ rows.astype(np.float64)) / np.bincount(place, minlength=count).clip(min=1)[:, None]
    return np.where(is_binary(rows), mean > 0, mean).astype(np.float32)


def is_binary(rows: Float[np.ndarray, "edges columns"]) -> Bool[np.ndarray, "columns"]:
    """Return which columns hold only zeros and ones."""
    return ((rows == 0) | (rows == 1)).all(axis=0)


def column_of_feature(name: str) -> str:
    """Return the column of a table that an edge feature comes from."""
    return name.partition("=")[0].removesuffix(MISSING)


def without_columns(graph: Graph, dropped: Sequence[str]) -> Graph:
    """Return the graph without the edge features of some columns; each must be among them."""
    names = graph.edge_feature_names or ()
    columns = {column_of_feature(name) for name in names} | set(names)
    for name in dropped:
        if name not in columns:
            raise GraphError(f"there is no edge column '{name}' to leave out{nearest(name, sorted(columns))}")
    kept = [
        place
        for place, name in enumerate(names)
        if name not in dropped and column_of_feature(name) not in dropped
    ]
    if not dropped or graph.edge_features is None:
        return graph
    if not kept:
        return without_edge_features(graph)
    chosen = tuple(names[place] for place in kept)
    return replace(graph, edge_features=graph.edge_features[:, kept], edge_feature_names=chosen)


def without_edge_features(graph: Graph) -> Graph:
    """Return the graph without edge features."""
    if graph.edge_features is None:
        return graph
    return replace(graph, edge_features=None, edge_feature_names=None)
