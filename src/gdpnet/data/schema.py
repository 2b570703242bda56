"""What a model reads of a graph.

Feature columns are the graph's own, one-hot node numbers, or structural features; edge features are found by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from gdpnet._core.words import counted
from gdpnet.config import Config
from gdpnet.data.edge_features import column_of_feature, is_binary, without_edge_features
from gdpnet.data.features import Features, SparseRows, stored_values, to_numpy
from gdpnet.data.graph import Graph, with_features
from gdpnet.data.structural_features import WIDTH, StructuralRows, structural_rows
from gdpnet.data.tables.decoding import decoded
from gdpnet.data.tables.encoding import DEFAULTS, Encoding, middle_and_spread, squashed
from gdpnet.data.tables.node_table import NodeTable, array_columns, places
from gdpnet.data.validation import id_text
from gdpnet.errors import GraphError, nearest

_BOUND_BEFORE = 3.0
"""The bound of numbers of edges in model files that do not name it."""

OWN, ONE_HOT, STRUCTURAL = "own", "one-hot", "structural"
"""Kinds of feature columns."""


def as_read(graph: Graph, config: Config) -> Graph:
    """Return the graph, with structural features if it has none and the settings ask for them."""
    if not _is_structural(graph, config):
        return graph
    return replace(graph, features=structural_rows(graph), feature_names=None)


def size_as_read(graph: Graph, config: Config) -> tuple[int, int]:
    """Return how many feature values a model reads of a graph, without the zeros of sparse rows, and columns."""
    if _is_structural(graph, config):
        return graph.num_nodes * WIDTH, WIDTH
    return stored_values(graph.features).numel(), graph.num_features


def _is_structural(graph: Graph, config: Config) -> bool:
    return config.features.missing == STRUCTURAL and not graph.has_features


def made_rows(graph: Graph, config: Config, columns: EdgeColumns | None) -> dict[str, MadeRows]:
    """Return, by name, the arrays that a model reads in place of a graph's own; rows are made when asked for."""
    made: dict[str, MadeRows] = {}
    if _is_structural(graph, config):
        made["features"] = StructuralRows(graph)
    if columns is not None and (scaled := columns.scaled(graph)) is not None:
        made["edge_features"] = scaled
    return made


def encoded_as(graph: Graph, encoding: Encoding | None) -> Graph:
    """Return a graph with the features that an encoding makes of its table; columns are found by name.

    Features that came as an array are its columns, if every column of the encoding becomes one feature. Features
    that another encoding made, and whose columns are not at hand, are turned back first, and so are those that were
    scaled if a model reads them as they are.
    """
    table = graph.table
    plain = encoding is None and table is not None and table.encoding.scaled
    if table is not None and (table.columns is None or plain) and table.encoding != encoding:
        return _encoded_again(graph, table.encoding, encoding)
    if encoding is not None and encoding.scaled and table is None and encoding.is_one_to_one:
        return _array_encoded(graph, encoding)
    if encoding is None or table is None or table.columns is None or table.encoding == encoding:
        return graph
    return graph.with_table(NodeTable(encoding, table.columns, table.kinds))


def _encoded_again(graph: Graph, own: Encoding, encoding: Encoding | None) -> Graph:
    """Return a graph, whose features ``own`` made, with those of another encoding, or with its numbers if None."""
    if own.feature_names != graph.feature_names or (encoding is None and not own.scaled):
        return graph
    columns = decoded(own, to_numpy(graph.features))
    encoding = Encoding.unchanged(columns.column_names) if encoding is None else encoding
    return graph.with_table(NodeTable(encoding, columns))


def _array_encoded(graph: Graph, encoding: Encoding) -> Graph:
    """Return a graph whose array of features is encoded; one that is sparse or not as wide is left to `Columns`."""
    given = [column.name for column in encoding.columns]
    by_place = given == places(len(given)) or graph.feature_names is None
    names = given if by_place else graph.feature_names or given
    if isinstance(graph.features, SparseRows) or len(names) != graph.num_features:
        return graph
    if not set(given) <= set(names):
        return graph
    return graph.with_table(NodeTable(encoding, array_columns(graph.features.numpy(), names)))


@dataclass(frozen=True)
class Columns:
    """The feature columns that a model was trained on."""

    kind: str
    width: int
    names: tuple[str, ...] | None = None
    """The user's names of the columns, in order, if there are any."""
    nodes: str | None = None
    """A checksum of the node ids, in order, for one-hot features."""

    @classmethod
    def of(cls, graph: Graph, config: Config) -> Columns:
        """Return the columns that a model reads of the graph it is trained on."""
        if graph.has_features:
            names = graph.feature_names
            fits = names is not None and len(names) == graph.num_features
            return cls(OWN, graph.num_features, names if fits else None)
        if config.features.missing == STRUCTURAL:
            return cls(STRUCTURAL, WIDTH)
        return cls(ONE_HOT, graph.num_features, nodes=_checksum_of_ids(graph))

    def matched(self, graph: Graph) -> Graph:
        """Return a graph with these columns in this order, found by name if they have names, or refuse it."""
        same_width, names = graph.num_features == self.width, graph.feature_names
        if self.kind == STRUCTURAL:
            if graph.has_features:
                raise GraphError(
                    "the model was trained on structural features (--features structural) and needs a graph without "
                    f"features, found {graph.num_features}"
                )
        elif self.kind == ONE_HOT:
            if graph.has_features or not same_width or _checksum_of_ids(graph) != self.nodes:
                raise GraphError(
                    "the model was trained on one-hot features and needs the same nodes in the same order, without "
                    "features; train with --features structural for a model that reads new nodes and other graphs"
                )
        elif self.names is not None and names is not None and self.names != names:
            return _in_order(graph, names, self.names)
        elif not same_width:
            raise GraphError(
                f"the model was trained on {counted(self.width, 'feature')}, this graph has {graph.num_features}"
            )
        return graph

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Columns:
        """Read what `to_dict` returned."""
        names = None if values["names"] is None else tuple(str(name) for name in values["names"])
        return cls(str(values["kind"]), int(values["width"]), names, values["nodes"])


def _in_order(graph: Graph, names: tuple[str, ...], wanted: tuple[str, ...]) -> Graph:
    """Return a graph with the columns that are wanted, in that order; its other columns are not used."""
    place = {name: number for number, name in enumerate(names)}
    for name in wanted:
        if name not in place:
            raise GraphError(f"the graph must have the feature '{name}' of training{nearest(name, names)}")
    order = np.array([place[name] for name in wanted])
    if isinstance(graph.features, SparseRows):
        features: Features = SparseRows.from_scipy(graph.features.to_scipy()[:, order])
    else:
        features = graph.features[:, torch.from_numpy(order)]
    return replace(with_features(graph, features), feature_names=wanted)


def _checksum_of_ids(graph: Graph) -> str:
    digest = hashlib.sha256()
    for node_id in id_text(graph.node_ids).tolist():
        digest.update(f"{len(node_id)} {node_id}".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class EdgeColumns:
    """The edge features that a model reads, found by name, and how numbers are scaled.

    A number x becomes z = (x - centre) / scale and then z / sqrt(1 + (z / bound)^2); types stay zero or one.
    """

    names: tuple[str, ...] | None
    """None if the features of the training graph have no names: they are then found by their place."""
    binary: tuple[bool, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    bound: float = DEFAULTS.edge_bound

    @classmethod
    def of(cls, graph: Graph) -> EdgeColumns | None:
        """Return the edge features of a training graph, with statistics over all its edges; None without any."""
        if graph.edge_features is None or graph.num_edges == 0:
            return None
        rows = graph.edge_features.numpy()
        binary = tuple(bool(one) for one in is_binary(rows))
        found = [
            (0.0, 1.0) if one else middle_and_spread(column.astype(np.float64))
            for one, column in zip(binary, rows.T, strict=True)
        ]
        centre, scale = zip(*found, strict=True)
        return cls(graph.edge_feature_names, binary, centre, scale, graph.encoding_settings.edge_bound)

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
                    f"the model was trained with {counted(self.width, 'edge feature')}, this graph has "
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
        scaled = self.scaled(graph)
        if scaled is None:
            return graph
        return replace(graph, edge_features=torch.from_numpy(scaled[:]), edge_feature_names=self.names)

    def scaled(self, graph: Graph) -> ScaledRows | None:
        """Return the edge features of `read`, whose rows are made when asked for; None if they are the graph's."""
        self.check(graph)
        assert graph.edge_features is not None
        if all(self.binary) and graph.edge_feature_names == self.names:
            return None
        return ScaledRows(self, graph.edge_features.numpy(), self._places(graph.edge_feature_names))

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
            float(values.get("bound", _BOUND_BEFORE)),
        )


class ScaledRows:
    """The edge features that a model reads, whose rows are made when they are asked for."""

    dtype = np.dtype(np.float32)

    def __init__(self, columns: EdgeColumns, rows: np.ndarray, places: list[list[int]]) -> None:
        self.columns, self.rows, self.places = columns, rows, places

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of edges and of features."""
        return self.rows.shape[0], self.columns.width

    def __getitem__(self, edges: slice) -> Float[np.ndarray, "edges columns"]:
        """Return the rows of some edges."""
        columns, rows = self.columns, self.rows[edges]
        scaled = np.empty((rows.shape[0], columns.width), dtype=np.float32)
        for place, picked in enumerate(self.places):
            if columns.binary[place]:
                scaled[:, place] = rows[:, picked].max(axis=1, initial=0.0)
            else:
                number = rows[:, picked[0]].astype(np.float64) - columns.centre[place]
                scaled[:, place] = squashed(number / columns.scale[place], columns.bound)
        return scaled


MadeRows = StructuralRows | ScaledRows


def read_edges(graph: Graph, columns: EdgeColumns | None) -> Graph:
    """Return the graph with the edge features that a model reads; without any if it reads none."""
    return without_edge_features(graph) if columns is None else columns.read(graph)
