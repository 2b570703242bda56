"""What a model reads of a node: features of its own, its number (one-hot), or what the links around it say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gdpnet.config import Config
from gdpnet.data.graph import Graph, id_text
from gdpnet.data.structural_features import WIDTH, with_structure
from gdpnet.errors import GraphError

OWN, ONE_HOT, STRUCTURAL = "own", "one-hot", "structural"


def as_read(graph: Graph, config: Config) -> Graph:
    """Return the graph as it is, or with what its links say in place of features that it does not have."""
    structural = config.features.missing == STRUCTURAL and not graph.has_features
    return with_structure(graph) if structural else graph


@dataclass(frozen=True)
class Columns:
    """The feature columns that a model was trained on."""

    kind: str
    width: int
    names: tuple[str, ...] | None = None
    """The user's names of the columns, in order, where there were any."""
    nodes: str | None = None
    """A sum of the node ids, in order, where a column stands for a node."""

    @classmethod
    def of(cls, graph: Graph, config: Config) -> Columns:
        """Say what a model of this configuration reads of a graph that it is trained on."""
        if graph.has_features:
            names = graph.feature_names
            fits = names is not None and len(names) == graph.num_features
            return cls(OWN, graph.num_features, names if fits else None)
        if config.features.missing == STRUCTURAL:
            return cls(STRUCTURAL, WIDTH)
        return cls(ONE_HOT, graph.num_features, nodes=_sum_of_ids(graph))

    def check(self, graph: Graph) -> None:
        """Refuse a graph whose nodes cannot be read so."""
        if self.kind == STRUCTURAL:
            if graph.has_features:
                raise GraphError(
                    "the model reads the links of graphs without features (--features structural), this graph has "
                    f"{graph.num_features} features"
                )
        elif self.kind == ONE_HOT:
            if graph.has_features or graph.num_features != self.width or _sum_of_ids(graph) != self.nodes:
                raise GraphError(
                    "the model was trained on one-hot features, a column for each node of its own graph, and this "
                    "graph has features, other nodes or another order of them; train with --features structural "
                    "for a model that reads new nodes and other graphs"
                )
        elif graph.num_features != self.width:
            raise GraphError(
                f"the model was trained on {self.width} features, this graph has {graph.num_features}"
            )
        else:
            self._check_names(graph.feature_names)

    def _check_names(self, names: tuple[str, ...] | None) -> None:
        if self.names is None or names is None or self.names == names:
            return
        place = next(
            place for place, (own, other) in enumerate(zip(self.names, names, strict=True)) if own != other
        )
        raise GraphError(
            f"feature columns must be those of training in the same order, found '{names[place]}' in place "
            f"{place + 1} rather than '{self.names[place]}'; --column features=... names them in order"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Columns:
        """Read what `to_dict` returned."""
        names = values["names"]
        return cls(
            str(values["kind"]),
            int(values["width"]),
            None if names is None else tuple(str(name) for name in names),
            values["nodes"],
        )


def _sum_of_ids(graph: Graph) -> str:
    digest = hashlib.sha256()
    for node_id in id_text(graph.node_ids).tolist():
        digest.update(f"{len(node_id)} {node_id}".encode())
    return digest.hexdigest()[:16]
