"""Graph: neighbours, features, labels and splits; the one door through which every graph is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, offsets_of, owners_of, ranges
from gdpnet.data.features import Features, SparseRows, take_rows
from gdpnet.errors import GraphError

UNKNOWN = -1
"""The label of a node whose class is not known."""

_MOST_NODES = 3_037_000_499
"""The square of a larger number does not fit 64 bits, and a pair of nodes is put in order by one number."""

SPLITS = ("none", "train", "validation", "test")
"""Names of the split codes 0 to 3; a node of no split is context: seen, never a target of training."""


@dataclass(frozen=True)
class Truth:
    """What is known to be noise, where a graph was made or corrupted on purpose."""

    spurious: Bool[Tensor, "edges"]
    corrupted: Bool[Tensor, "nodes"]
    clean_labels: Int[Tensor, "nodes"]


@dataclass(frozen=True)
class Graph:
    """A graph that was checked. Make one with :meth:`build` or a reader of `gdpnet.data`.

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
    """The user's names of the feature columns, in order, where they have any."""

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Return the number of directed edges; an undirected link counts twice."""
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
    def degree(self) -> Int[Tensor, "nodes"]:
        """Return the number of neighbours of each node."""
        return self.row_ptr.diff()

    @property
    def reverse(self) -> Int[Tensor, "edges"]:
        """Return for each edge the one that runs the other way, -1 where there is none."""
        return find_in_rows(self.row_ptr, self.neighbour, self.neighbour, self.target)

    def nodes_in(self, split: str) -> Int[Tensor, "targets"]:
        """Return the nodes of a split, ascending."""
        return (self.split == SPLITS.index(split)).nonzero().flatten()

    def induced(self, nodes: Int[Tensor, "kept"]) -> Graph:
        """Return the subgraph of some nodes (ascending) and the edges among them."""
        place = torch.full((self.num_nodes,), -1, dtype=torch.long)
        place[nodes] = torch.arange(nodes.numel())
        owner, edge = ranges(self.row_ptr[nodes], self.degree[nodes])
        inside = place[self.neighbour[edge]] >= 0
        owner, edge = owner[inside], edge[inside]
        truth = self.truth and Truth(
            self.truth.spurious[edge], self.truth.corrupted[nodes], self.truth.clean_labels[nodes]
        )
        return replace(
            self,
            row_ptr=offsets_of(torch.bincount(owner, minlength=nodes.numel())),
            neighbour=place[self.neighbour[edge]],
            features=take_rows(self.features, nodes),
            labels=self.labels[nodes],
            split=self.split[nodes],
            node_ids=self.node_ids[nodes.numpy()],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edge],
            truth=truth,
            notes=(),
        )

    def keep_edges(self, kept: Bool[Tensor, "edges"], weight: Float[Tensor, "edges"] | None = None) -> Graph:
        """Return the graph with only some of its edges, and with weights on them if given."""
        truth = self.truth and replace(self.truth, spurious=self.truth.spurious[kept])
        weights = weight if weight is not None else self.edge_weight
        return replace(
            self,
            row_ptr=offsets_of(torch.bincount(self.target[kept], minlength=self.num_nodes)),
            neighbour=self.neighbour[kept],
            edge_weight=None if weights is None else weights[kept],
            truth=truth,
        )

    def with_feature_names(self, names: Sequence[str]) -> Graph:
        """Return the graph with a name for each of its feature columns."""
        if len(names) != self.num_features:
            raise GraphError(
                f"there must be a name for each of {self.num_features} feature columns, found {len(names)}"
            )
        return replace(self, feature_names=tuple(str(name) for name in names))

    def with_notes(self, *notes: str) -> Graph:
        """Return the graph with more notes of what happened to it on entry."""
        return replace(self, notes=(*self.notes, *notes))

    @property
    def has_features(self) -> bool:
        """Say whether nodes have features of their own; without, each has its number, one-hot."""
        return not (isinstance(self.features, SparseRows) and self.features.is_one_hot)

    def node_number(self, node_id: str) -> int:
        """Return the number of the node that the user calls ``node_id``."""
        return int(self.numbers_of([node_id])[0])

    def numbers_of(self, node_ids: Sequence[Any]) -> Int[Tensor, "asked"]:
        """Return the numbers of the nodes that the user calls so, in that order."""
        known, asked = id_text(self.node_ids), [str(node_id) for node_id in node_ids]
        order = np.argsort(known)
        place = np.searchsorted(known, asked, sorter=order) if asked else np.zeros(0, dtype=np.int64)
        number = order[place.clip(max=order.size - 1)]
        missing = np.flatnonzero(known[number] != np.array(asked, dtype=str))
        if missing.size:
            raise GraphError(f"the graph has no node '{asked[missing[0]]}'")
        return torch.from_numpy(number)

    @classmethod
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
    ) -> Graph:
        """Check everything about a graph and lay it out.

        Args:
            edge_index: two rows of node numbers, source above target.
            features: one row a node; a 2-D array, a scipy sparse matrix or :class:`SparseRows`.
            labels: one class number a node, -1 where unknown; nothing if no label is known.
            split: one code a node (0 none, 1 train, 2 validation, 3 test); nothing if there is no split.
            node_ids: the user's names of the nodes, in order; their numbers by default.
            class_names: the user's names of the classes, in order; their numbers by default.
            directed: keep the direction of edges; otherwise every edge counts both ways.
            spurious: for each given edge whether it is known to be noise.
            corrupted: for each node whether its features are known to be noise.
            clean_labels: the true class of each node, where ``labels`` hold known mistakes.
        """
        checked = _checked_features(features)
        nodes = checked.shape[0]
        ids = _checked_ids(node_ids, nodes)
        _check_finite(checked, ids)
        label = _checked_labels(labels, nodes)
        names = _checked_class_names(class_names, label)
        source, target, noise, notes = _checked_edges(edge_index, nodes, directed, spurious)
        truth = None
        if spurious is not None or corrupted is not None or clean_labels is not None:
            truth = Truth(
                noise,
                _checked_flags(corrupted, nodes, "corrupted", "node"),
                label if clean_labels is None else _checked_labels(clean_labels, nodes),
            )
        return cls(
            row_ptr=offsets_of(torch.bincount(target, minlength=nodes)),
            neighbour=source,
            features=checked,
            labels=label,
            split=_checked_split(split, nodes),
            node_ids=ids,
            class_names=names,
            truth=truth,
            notes=notes,
        )


def id_text(node_ids: np.ndarray) -> np.ndarray:
    """Return ids as text; those of NetworkX may be any object."""
    if node_ids.dtype.kind != "O":
        return node_ids.astype(str)
    return np.array([str(node_id) for node_id in node_ids.tolist()], dtype=str)


def _tensor_of(values: Any, what: str) -> Tensor:
    """Take over numbers from a tensor, an array or a list."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise GraphError(f"{what} must be an array, found rows of different lengths") from error
    if array.dtype.kind not in "biuf":
        found = "text" if array.dtype.kind in "SU" else "other values"
        raise GraphError(f"{what} must be numbers, found {found}")
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _checked_features(features: Any) -> Features:
    if hasattr(features, "tocsr"):
        features = SparseRows.from_scipy(features)
    if not isinstance(features, SparseRows):
        features = _tensor_of(features, "features").to(torch.float32)
        if features.dim() != 2:
            raise GraphError(
                f"features must have one row a node, found an array of {features.dim()} dimensions"
            )
    elif (
        features.column.numel()
        and not 0 <= int(features.column.min()) <= int(features.column.max()) < features.width
    ):
        raise GraphError(f"sparse features must lie in columns 0 to {features.width - 1}, found one outside")
    if features.shape[0] == 0:
        raise GraphError("the graph is empty: it has no node")
    if features.shape[1] == 0:
        raise GraphError("a node must have at least one feature, found none")
    return features


def _check_finite(features: Features, ids: np.ndarray) -> None:
    value = features.value if isinstance(features, SparseRows) else features
    bad = (~torch.isfinite(value)).nonzero()
    if bad.numel():
        row = int(features.row[bad[0, 0]] if isinstance(features, SparseRows) else bad[0, 0])
        raise GraphError(f"features must be finite, found NaN or infinity in the row of node '{ids[row]}'")


def _checked_labels(labels: Any, nodes: int) -> Tensor:
    if labels is None:
        return torch.full((nodes,), UNKNOWN, dtype=torch.long)
    label = _tensor_of(labels, "labels")
    if label.dim() != 1 or label.numel() != nodes:
        raise GraphError(
            f"there must be one label a node ({nodes}), found an array of shape {tuple(label.shape)}"
        )
    if label.is_floating_point() or label.dtype == torch.bool:
        raise GraphError("labels must be class numbers, with -1 for unknown")
    label = label.long()
    if int(label.min()) < UNKNOWN:
        raise GraphError(
            f"labels must be class numbers from 0, with -1 for unknown, found {int(label.min())}"
        )
    return label


def _checked_flags(flags: Any, count: int, what: str, unit: str) -> Tensor:
    if flags is None:
        return torch.zeros(count, dtype=torch.bool)
    flag = _tensor_of(flags, what)
    if flag.shape != (count,):
        raise GraphError(f"{what} must hold one flag a given {unit} ({count}), found {flag.numel()}")
    return flag.bool()


def _checked_class_names(names: Sequence[str] | None, label: Tensor) -> tuple[str, ...]:
    needed = int(label.max()) + 1
    if names is None:
        return tuple(str(number) for number in range(needed))
    if len(names) < needed:
        raise GraphError(f"there must be a name for each of {needed} classes, found {len(names)}")
    return tuple(str(name) for name in names)


def _checked_split(split: Any, nodes: int) -> Tensor:
    if split is None:
        return torch.zeros(nodes, dtype=torch.int8)
    code = _tensor_of(split, "the split")
    if code.is_floating_point() or code.shape != (nodes,) or bool(((code < 0) | (code >= len(SPLITS))).any()):
        raise GraphError("the split must hold one code a node: 0 none, 1 train, 2 validation, 3 test")
    return code.to(torch.int8)


def _checked_ids(node_ids: Any, nodes: int) -> np.ndarray:
    if node_ids is None:
        return np.arange(nodes)
    ids = np.asarray(node_ids)
    if ids.shape != (nodes,):
        raise GraphError(f"there must be one id a node ({nodes}), found an array of shape {ids.shape}")
    values, counts = np.unique(id_text(ids), return_counts=True)
    if values.size != nodes:
        first = int((counts > 1).argmax())
        raise GraphError(f"node ids must be unique, found '{values[first]}' {counts[first]} times")
    return ids


def _checked_edges(
    edge_index: Any, nodes: int, directed: bool, spurious: Any
) -> tuple[Tensor, Tensor, Tensor, tuple[str, ...]]:
    """Sort edges by target and neighbour, without loops and duplicates; say what was removed."""
    edges = _tensor_of(edge_index, "edges")
    if edges.numel() == 0:
        edges = torch.zeros(2, 0, dtype=torch.long)
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise GraphError(
            f"edges must be two rows of node numbers, found an array of shape {tuple(edges.shape)}"
        )
    edges = edges.long()
    if nodes > _MOST_NODES:
        raise GraphError(
            f"a graph that is built in memory can have {_MOST_NODES:,} nodes, found {nodes:,}: write it as a store"
        )
    outside = ((edges < 0) | (edges >= nodes)).any(dim=0).nonzero()
    if outside.numel():
        source, target = edges[:, outside[0, 0]].tolist()
        raise GraphError(
            f"edge {source} to {target} names a node that does not exist: there are {nodes} nodes"
        )
    noise = _checked_flags(spurious, edges.shape[1], "spurious", "edge")
    loops = edges[0] == edges[1]
    edges, noise = edges[:, ~loops], noise[~loops]
    given = edges.shape[1]
    if directed:
        key = torch.unique(edges[1] * nodes + edges[0])
        merged = given - key.numel()
    else:
        low, high = edges.min(dim=0).values, edges.max(dim=0).values
        merged = given - torch.unique(high * nodes + low).numel()
        edges, noise = torch.cat([edges, edges.flip(0)], dim=1), torch.cat([noise, noise])
        key = torch.unique(edges[1] * nodes + edges[0])
    genuine = torch.zeros(key.numel(), dtype=torch.bool)
    genuine[torch.searchsorted(key, edges[1] * nodes + edges[0])[~noise]] = True
    source, target = key % nodes, key // nodes
    isolated = nodes - torch.unique(target).numel()
    return source, target, ~genuine, _entry_notes(int(loops.sum()), merged, isolated)


def _entry_notes(loops: int, merged: int, isolated: int) -> tuple[str, ...]:
    notes = []
    if loops:
        notes.append(f"{loops:,} self-loops were removed: a node always counts itself")
    if merged:
        notes.append(f"{merged:,} duplicate or reciprocal edges were merged")
    if isolated:
        notes.append(f"{isolated:,} nodes have no neighbour and stand for themselves")
    return tuple(notes)
