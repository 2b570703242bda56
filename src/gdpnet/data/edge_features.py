"""Edge features and edge types: brought into the order of a graph's edges, and read by a model by name.

A type is a column of zeros and ones, called ``column=value``; every other column holds numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float, Int, Shaped

from gdpnet.data.graph import Graph
from gdpnet.data.tables.encoding import middle_and_spread, squashed
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
    given = source.size
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        rows = np.concatenate([rows, rows])
    key, place = np.unique(target.astype(np.int64) * graph.num_nodes + source, return_inverse=True)
    merged = _merge(rows, place.reshape(-1), key.size)
    graph = graph if given * (1 if directed else 2) == key.size else graph.with_notes(MERGED_NOTE)
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
    return np.where(_is_binary(rows), mean > 0, mean).astype(np.float32)


def _is_binary(rows: Float[np.ndarray, "edges columns"]) -> Bool[np.ndarray, "columns"]:
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


@dataclass(frozen=True)
class EdgeColumns:
    """The edge features that a model reads, found by name, and how numbers are scaled.

    A number x becomes z = (x - centre) / scale and then z / sqrt(1 + (z / 3)^2); types stay zero or one.
    """

    names: tuple[str, ...] | None
    """None if the features of the training graph have no names: they are then found by their place."""
    binary: tuple[bool, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, graph: Graph) -> EdgeColumns | None:
        """Return the edge features of a training graph, with statistics over all its edges; None without any."""
        if graph.edge_features is None or graph.num_edges == 0:
            return None
        rows = graph.edge_features.numpy()
        binary = tuple(bool(one) for one in _is_binary(rows))
        found = [
            (0.0, 1.0) if one else middle_and_spread(column.astype(np.float64))
            for one, column in zip(binary, rows.T, strict=True)
        ]
        centre, scale = zip(*found, strict=True)
        return cls(graph.edge_feature_names, binary, centre, scale)

    @property
    def width(self) -> int:
        """Return the number of edge features."""
        return len(self.binary)

    def shown_names(self) -> tuple[str, ...]:
        """Return a name per edge feature, its place if it has none."""
        return self.names or tuple(f"edge feature {place}" for place in range(self.width))

    def check(self, graph: Graph) -> None:
        """Refuse a graph that lacks an edge feature of the model; further ones are ignored."""
        if graph.edge_features is None:
            raise GraphError(
                "the model was trained with edge features and needs a graph that has them, found none; train with "
                "--no-edge-features for a model that does not"
            )
        found = graph.edge_feature_names
        if self.names is None or found is None:
            if graph.edge_features.shape[1] != self.width:
                raise GraphError(
                    f"the model was trained with {self.width} edge features, this graph has "
                    f"{graph.edge_features.shape[1]}"
                )
            return
        columns = {column_of_feature(name) for name in found}
        for name, binary in zip(self.names, self.binary, strict=True):
            # a type, or a mark of missing values, may be one that no edge of this graph has
            column = column_of_feature(name) if binary else name
            if column not in (columns if binary else found):
                raise GraphError(
                    f"the model was trained with the edge column '{column}', which this graph lacks"
                    f"{nearest(column, sorted(columns))}"
                )

    def read(self, graph: Graph) -> Graph:
        """Return the graph with these edge features, scaled; a type that it does not have is zero everywhere."""
        self.check(graph)
        assert graph.edge_features is not None
        if all(self.binary) and graph.edge_feature_names == self.names:
            return graph
        rows = graph.edge_features.numpy()
        scaled = np.empty((rows.shape[0], self.width), dtype=np.float32)
        for place, picked in enumerate(self._places(graph.edge_feature_names)):
            column = rows[:, picked].max(axis=1, initial=0.0) if self.binary[place] else rows[:, picked[0]]
            if not self.binary[place]:
                column = squashed((column.astype(np.float64) - self.centre[place]) / self.scale[place])
            scaled[:, place] = column
        return replace(graph, edge_features=torch.from_numpy(scaled), edge_feature_names=self.names)

    def _places(self, found: tuple[str, ...] | None) -> list[list[int]]:
        """Return, for each feature of the model, the columns of a graph that it is read from.

        ``column=other`` of the model also stands for all types of that column that the model does not know.
        """
        if self.names is None or found is None:
            return [[place] for place in range(self.width)]
        known, places = set(self.names), []
        for name in self.names:
            column, _, value = name.partition("=")
            places.append(
                [
                    place
                    for place, other in enumerate(found)
                    if other == name
                    or (value == "other" and other.startswith(f"{column}=") and other not in known)
                ]
            )
        return places

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | None) -> EdgeColumns | None:
        """Read what `to_dict` returned, or nothing."""
        if values is None:
            return None
        names = values["names"]
        return cls(
            None if names is None else tuple(str(name) for name in names),
            tuple(bool(one) for one in values["binary"]),
            tuple(float(one) for one in values["centre"]),
            tuple(float(one) for one in values["scale"]),
        )


def read_edges(graph: Graph, columns: EdgeColumns | None) -> Graph:
    """Return the graph with the edge features that a model reads; without any if it reads none."""
    return without_edge_features(graph) if columns is None else columns.read(graph)
