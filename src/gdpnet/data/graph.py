"""The graph: neighbours, features, labels and splits, checked when it is built."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, find_in_rows, offsets_of, owners_of, ranges
from gdpnet._core.files import Place
from gdpnet.config import FeaturesSettings
from gdpnet.data import validation
from gdpnet.data.array_checks import check_switches
from gdpnet.data.features import Features, SparseRows, take_rows
from gdpnet.data.given_ids import checked_ids
from gdpnet.data.summary import summary_of
from gdpnet.data.tables.encoding import DEFAULTS
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import SPLITS, UNKNOWN, id_text
from gdpnet.errors import GraphError, refusing

_DECIMALS = re.compile(r"(-?\d+)\.0+")
"""Whole numbers as files and frames with missing values write them."""

_MOST_DECIMALS = 100
"""Characters that an id may be longer than the id that it stands for: 3.000 is 3."""

_FEW = 16
"""Of a graph with so many times the nodes, the nodes of a subgraph are found by search."""

_EDGES = 1 << 20
"""Edges that are searched at a time, which bounds the memory."""


@dataclass(frozen=True)
class Truth:
    """Known noise of a graph that was generated or corrupted on purpose."""

    spurious: Bool[Tensor, "edges"]
    corrupted: Bool[Tensor, "nodes"]
    clean_labels: Int[Tensor, "nodes"]


@dataclass(frozen=True)
class Stored:
    """The arrays of a graph that are mapped from the files of a store, and its folder."""

    folder: Place
    arrays: tuple[Any, ...]


@dataclass(frozen=True)
class Graph:
    """A checked graph; make one with :meth:`build` or a reader of `gdpnet.data.io`.

    The neighbours of node v, ascending, are ``neighbour[row_ptr[v] : row_ptr[v + 1]]``; an edge is a position
    in ``neighbour``, directed from the neighbour to its target v.
    """

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    features: Features
    labels: Int[Tensor, "nodes"]
    split: Int[Tensor, "nodes"]
    node_ids: np.ndarray
    class_names: tuple[str, ...]
    edge_weight: Float[Tensor, "edges"] | None = None
    truth: Truth | None = None
    notes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None
    """The user's names of the feature columns, in order, if they have any."""
    table: NodeTable | None = None
    """The columns that the features were made from, if they came from a table."""
    targets: Float[Tensor, "nodes"] | None = None
    """The number to predict of each node, NaN if unknown, in place of classes."""
    edge_features: Float[Tensor, "edges columns"] | None = None
    """One row per edge: numbers, and types as columns of zeros and ones; see `gdpnet.data.edge_features`."""
    edge_feature_names: tuple[str, ...] | None = None
    encoding_settings: FeaturesSettings = DEFAULTS
    """How columns are encoded when they are fitted to training nodes; a model that is trained sets its own."""
    transductive: bool = False
    """Whether validation and test nodes, without their labels, are part of the training graph."""
    stored: Stored | None = field(default=None, compare=False)
    """The store that the graph was opened from; other arrays may have replaced those of the store since."""

    @property
    def labelled(self) -> Bool[Tensor, "nodes"]:
        """Return which nodes have a known class, or a known number in place of classes."""
        return self.labels != UNKNOWN if self.targets is None else ~self.targets.isnan()

    __repr__ = summary_of

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Return the number of directed edges; an undirected edge counts twice."""
        return self.neighbour.numel()

    @property
    def num_features(self) -> int:
        """Return the width of a feature row."""
        return self.features.shape[1]

    @property
    def num_classes(self) -> int:
        """Return the number of classes."""
        return len(self.class_names)

    @property
    def target(self) -> Int[Tensor, "edges"]:
        """Return the target node of each edge."""
        return owners_of(self.row_ptr.diff())

    @property
    def edge_index(self) -> Int[Tensor, "2 edges"]:
        """Return sources and targets of all edges, as torch_geometric does."""
        return torch.stack([self.neighbour.long(), self.target])

    @property
    def degree(self) -> Int[Tensor, "nodes"]:
        """Return the number of neighbours of each node."""
        return self.row_ptr.diff()

    @property
    def reverse(self) -> Int[Tensor, "edges"]:
        """Return the reverse edge of each edge, -1 if there is none."""
        return find_in_rows(self.row_ptr, self.neighbour, self.neighbour, self.target)

    @property
    def is_directed(self) -> bool:
        """Return whether some edge has no reverse edge."""
        for first, last in cut_rows(self.row_ptr, _EDGES):
            bounds = self.row_ptr[first : last + 1]
            target = owners_of(bounds.diff()) + first
            source = self.neighbour[int(bounds[0]) : int(bounds[-1])].long()
            if bool((find_in_rows(self.row_ptr, self.neighbour, source, target) < 0).any()):
                return True
        return False

    def nodes_in(self, split: str) -> Int[Tensor, "targets"]:
        """Return the nodes of a split, ascending."""
        if not isinstance(split, str) or split not in SPLITS:
            raise GraphError(f"a split must be one of {', '.join(SPLITS)}, found {split!r}")
        return (self.split == SPLITS.index(split)).nonzero().flatten()

    def induced(self, nodes: Int[Tensor, "kept"]) -> Graph:
        """Return the induced subgraph of some nodes, which must ascend."""
        start = self.row_ptr[nodes]
        owner, edge = ranges(start, self.row_ptr[nodes + 1] - start)
        place = places_among(nodes, self.neighbour[edge], self.num_nodes)
        inside = place >= 0
        owner, edge = owner[inside], edge[inside]
        truth = self.truth and Truth(
            self.truth.spurious[edge], self.truth.corrupted[nodes], self.truth.clean_labels[nodes]
        )
        return replace(
            self,
            row_ptr=offsets_of(torch.bincount(owner, minlength=nodes.numel())),
            neighbour=place[inside],
            features=take_rows(self.features, nodes),
            labels=self.labels[nodes],
            targets=None if self.targets is None else self.targets[nodes],
            split=self.split[nodes],
            node_ids=self.node_ids[nodes.numpy()],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edge],
            edge_features=None if self.edge_features is None else self.edge_features[edge],
            truth=truth,
            notes=(),
            table=self.table and self.table.take(nodes.numpy()),
        )

    def keep_edges(self, kept: Bool[Tensor, "edges"], weight: Float[Tensor, "edges"] | None = None) -> Graph:
        """Return the graph with only some of its edges, with new weights if given (one per edge before)."""
        truth = self.truth and replace(self.truth, spurious=self.truth.spurious[kept])
        weights = weight if weight is not None else self.edge_weight
        return replace(
            self,
            row_ptr=offsets_of(torch.bincount(self.target[kept], minlength=self.num_nodes)),
            neighbour=self.neighbour[kept],
            edge_weight=None if weights is None else weights[kept],
            edge_features=None if self.edge_features is None else self.edge_features[kept],
            truth=truth,
        )

    @refusing("the names of feature columns")
    def with_feature_names(self, names: Sequence[str]) -> Graph:
        """Return the graph with names of its feature columns."""
        if isinstance(names, str | bytes):  # its letters would be names
            raise GraphError(f"names of feature columns must be a list, found {type(names).__name__}")
        if len(names) != self.num_features:
            raise GraphError(
                f"there must be a name for each of {self.num_features} feature columns, found {len(names)}"
            )
        return replace(self, feature_names=tuple(str(name) for name in names))

    def with_table(self, table: NodeTable) -> Graph:
        """Return the graph with the features that a table's encoding makes of its columns."""
        found = table.encoding.transform(table.columns)
        features = SparseRows.from_scipy(found) if sp.issparse(found) else torch.from_numpy(found)
        return replace(self, features=features, feature_names=table.encoding.feature_names, table=table)

    def with_notes(self, *notes: str) -> Graph:
        """Return the graph with more notes on how it was read."""
        return replace(self, notes=(*self.notes, *notes))

    @property
    def has_features(self) -> bool:
        """Return whether nodes have features of their own, not only their number, one-hot."""
        return not (isinstance(self.features, SparseRows) and self.features.is_one_hot)

    def node_number(self, node_id: str) -> int:
        """Return the number of a node by its id."""
        return int(self.numbers_of([node_id])[0])

    @refusing("the node ids")
    def numbers_of(self, node_ids: Sequence[Any]) -> Int[Tensor, "wanted"]:
        """Return the numbers of nodes by their ids, in the order given; 3.0 is 3 if no node is called 3.0."""
        if isinstance(node_ids, str | bytes):  # its letters would be ids
            raise GraphError(f"node ids must be a list, found {type(node_ids).__name__}")
        known, wanted = id_text(self.node_ids), [str(node_id) for node_id in node_ids]
        longest = known.dtype.itemsize // 4 + _MOST_DECIMALS
        for name in wanted:
            if len(name) > longest:  # no node has it, and an array of all would be as wide
                raise GraphError(f"the graph has no node '{name}'")
        if any(_DECIMALS.fullmatch(name) for name in wanted):
            names = set(known.tolist())
            wanted = [name if name in names else _DECIMALS.sub(r"\1", name) for name in wanted]
        order = np.argsort(known)
        place = np.searchsorted(known, wanted, sorter=order) if wanted else np.zeros(0, dtype=np.int64)
        number = order[place.clip(max=order.size - 1)]
        missing = np.flatnonzero(known[number] != np.array(wanted, dtype=str))
        if missing.size:
            raise GraphError(f"the graph has no node '{wanted[missing[0]]}'")
        return torch.from_numpy(number)

    @classmethod
    @refusing("the graph")
    def build(
        cls,
        edge_index: Any,
        features: Any,
        labels: Any = None,
        *,
        split: Any = None,
        node_ids: Any = None,
        class_names: Sequence[str] | None = None,
        directed: bool = False,
        spurious: Any = None,
        corrupted: Any = None,
        clean_labels: Any = None,
        targets: Any = None,
        transductive: bool = False,
    ) -> Graph:
        """Check the parts of a graph and build it.

        Args:
            edge_index: two rows of node numbers, sources and targets.
            features: one row per node; a 2-D array, a scipy sparse matrix or :class:`SparseRows`.
            labels: one class number per node, -1 if unknown; None if no label is known.
            split: one code per node (0 none, 1 train, 2 validation, 3 test); None if there is no split.
            node_ids: the user's names of the nodes, in order; their numbers by default.
            class_names: the user's names of the classes, in order; their numbers by default.
            directed: keep the direction of edges; otherwise every edge is added in both directions.
            spurious: whether each given edge is known to be noise.
            corrupted: whether the features of each node are known to be noise.
            clean_labels: the true class of each node if ``labels`` hold known mistakes.
            targets: one number per node to predict by regression, NaN if unknown, in place of ``labels``.
            transductive: whether validation and test nodes, without their labels, are part of the training graph.
        """
        check_switches(directed=directed, transductive=transductive)
        rows = validation.checked_features(features)
        nodes = rows.shape[0]
        ids = checked_ids(node_ids, nodes)
        validation.check_finite(rows, ids)
        label = validation.checked_labels(labels, nodes)
        numbers = validation.checked_targets(targets, label)
        names = validation.checked_class_names(class_names, label)
        row_ptr, neighbour, noise, notes = validation.checked_edges(edge_index, nodes, directed, spurious)
        truth = None
        if any(known is not None for known in (spurious, corrupted, clean_labels)):
            clean = label if clean_labels is None else validation.checked_labels(clean_labels, nodes)
            truth = Truth(noise, validation.checked_flags(corrupted, nodes, "corrupted", "node"), clean)
        codes = validation.checked_split(split, nodes)
        graph = cls(row_ptr, neighbour, rows, label, codes, ids, names, truth=truth, targets=numbers)
        return replace(graph, notes=notes, transductive=bool(transductive))


@dataclass(frozen=True)
class Part:
    """The surroundings of some nodes, with the numbers that nodes and edges have in the whole graph.

    Random draws are keyed by these numbers. Nodes ascend by them.
    """

    graph: Graph
    node: Int[Tensor, "nodes"]
    edge: Int[Tensor, "edges"]
    deciding: Int[Tensor, "deciding"]
    """The nodes of the part, by their number in it, that decide; only their edges get pair features."""


def places_among(nodes: Int[Tensor, "kept"], wanted: Int[Tensor, "n"], total: int) -> Int[Tensor, "n"]:
    """Return the place of each wanted node among ascending nodes, -1 if it is not there."""
    if nodes.numel() == 0:
        return torch.full_like(wanted, -1, dtype=torch.long)
    if _FEW * nodes.numel() < total:  # without a table of all nodes
        place = torch.searchsorted(nodes, wanted.long()).clamp(max=nodes.numel() - 1)
        return torch.where(nodes[place] == wanted, place, -1)
    table = torch.full((total,), -1, dtype=torch.long)
    table[nodes] = torch.arange(nodes.numel())
    return table[wanted]


def check_graph(graph: Any) -> None:
    """Refuse what is no graph."""
    if not isinstance(graph, Graph):
        raise GraphError(
            f"the graph must be a gdpnet Graph, found {type(graph).__name__}: read_graph, from_pandas, from_pyg and "
            "from_networkx make one"
        )


def with_features(graph: Graph, features: Features) -> Graph:
    """Return a graph with other features in the same columns, encoded as before, without the columns of its table."""
    return replace(graph, features=features, table=graph.table and replace(graph.table, columns=None))
