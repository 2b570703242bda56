"""The feature columns that a model reads: the graph's own, one-hot node numbers, or structural features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.structural_features import WIDTH, structural_rows
from gdpnet.data.validation import id_text
from gdpnet.errors import GraphError

OWN, ONE_HOT, STRUCTURAL = "own", "one-hot", "structural"
"""Kinds of feature columns."""


def as_read(graph: Graph, config: Config) -> Graph:
    """Return the graph, with structural features if it has none and the settings ask for them."""
    structural = config.features.missing == STRUCTURAL and not graph.has_features
    return replace(graph, features=structural_rows(graph), feature_names=None) if structural else graph


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

    def check(self, graph: Graph) -> None:
        """Refuse a graph that does not have these columns."""
        same_width = graph.num_features == self.width
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
        elif not same_width:
            raise GraphError(
                f"the model was trained on {self.width} features, this graph has {graph.num_features}"
            )
        else:
            self._check_names(graph.feature_names)

    def _check_names(self, names: tuple[str, ...] | None) -> None:
        if self.names is None or names is None or self.names == names:
            return
        pairs = enumerate(zip(self.names, names, strict=True))
        place = next(place for place, (own, other) in pairs if own != other)
        raise GraphError(
            f"feature columns must be those of training in the same order, found '{names[place]}' in place "
            f"{place + 1} rather than '{self.names[place]}'; --column features=... names them in order"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Columns:
        """Read what `to_dict` returned."""
        names = None if values["names"] is None else tuple(str(name) for name in values["names"])
        return cls(str(values["kind"]), int(values["width"]), names, values["nodes"])


def _checksum_of_ids(graph: Graph) -> str:
    digest = hashlib.sha256()
    for node_id in id_text(graph.node_ids).tolist():
        digest.update(f"{len(node_id)} {node_id}".encode())
    return digest.hexdigest()[:16]
