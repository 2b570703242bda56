"""The feature columns that a model reads: the graph's own, one-hot node numbers, or structural features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from gdpnet.config import Config
from gdpnet.data.features import Features, SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.structural_features import WIDTH, structural_rows
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import id_text
from gdpnet.errors import GraphError, nearest

OWN, ONE_HOT, STRUCTURAL = "own", "one-hot", "structural"
"""Kinds of feature columns."""


def as_read(graph: Graph, config: Config) -> Graph:
    """Return the graph, with structural features if it has none and the settings ask for them."""
    structural = config.features.missing == STRUCTURAL and not graph.has_features
    return replace(graph, features=structural_rows(graph), feature_names=None) if structural else graph


def encoded_as(graph: Graph, encoding: Encoding | None) -> Graph:
    """Return a graph with the features that an encoding makes of its table; columns are found by name."""
    table = graph.table
    if encoding is None or table is None or table.columns is None or table.encoding == encoding:
        return graph
    return graph.with_table(NodeTable(encoding, table.columns, table.kinds))


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
                f"the model was trained on {self.width} features, this graph has {graph.num_features}"
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
    return replace(graph.with_features(features), feature_names=wanted)


def _checksum_of_ids(graph: Graph) -> str:
    digest = hashlib.sha256()
    for node_id in id_text(graph.node_ids).tolist():
        digest.update(f"{len(node_id)} {node_id}".encode())
    return digest.hexdigest()[:16]
