"""A graph with a few more nodes and edges, of which only the surroundings of some nodes are made.

Nothing here takes time or memory in the size of the graph: rows of a mapped graph are read where they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, offsets_of, place_in, ranges
from gdpnet.data.features import Features, SparseRows, stack_rows, take_rows
from gdpnet.data.graph import Graph, Part, Truth
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import UNKNOWN, id_text
from gdpnet.errors import GraphError


class TooManyEdgesError(GraphError):
    """The surroundings of a node are larger than allowed."""


class Rows(NamedTuple):
    """The edges of some nodes, row by row."""

    owner: Int[Tensor, "edges"]
    """The place of the target among the nodes."""
    neighbour: Int[Tensor, "edges"]
    place: Int[Tensor, "edges"]
    """Where the values of the edge are: in the graph or, beyond its edges, in the addition."""
    number: Int[Tensor, "edges"]
    """The number of the edge in the whole graph."""


@dataclass(frozen=True)
class Addition:
    """Nodes and edges that are added to a graph; edges ascend by target, then by neighbour."""

    ids: np.ndarray
    features: Features
    target: Int[Tensor, "added"]
    neighbour: Int[Tensor, "added"]
    weight: Float[Tensor, "added"] | None = None
    edge_features: Float[Tensor, "added columns"] | None = None

    @classmethod
    def of(
        cls,
        graph: Graph,
        ids: np.ndarray,
        features: Features,
        ends: Int[Tensor, "2 given"],
        weight: Float[Tensor, "given"] | None = None,
        edge_features: Float[Tensor, "given columns"] | None = None,
        *,
        directed: bool = False,
    ) -> Addition:
        """Sort edges that are given as sources and targets; both directions are added unless they are directed.

        As when a graph is built, self-loops are left out, and edges that are given twice or that the graph has count
        once.
        """
        source, target = ends
        place = torch.arange(source.numel())
        if not directed:
            source, target, place = torch.cat([source, target]), torch.cat([target, source]), place.repeat(2)
        key = torch.stack([target, source], dim=1)[source != target].numpy()
        place = place[source != target]
        unique, first = np.unique(key, axis=0, return_index=True)
        target, neighbour = torch.from_numpy(np.ascontiguousarray(unique.reshape(-1, 2).T)).unbind()
        place, stored = (
            place[torch.from_numpy(first)],
            (target < graph.num_nodes) & (neighbour < graph.num_nodes),
        )
        known = find_in_rows(graph.row_ptr, graph.neighbour, target[stored], neighbour[stored]) >= 0
        if bool(known.any()):
            new = ~stored.masked_scatter(stored, known)
            target, neighbour, place = target[new], neighbour[new], place[new]
        by_edge = (None if one is None else one[place] for one in (weight, edge_features))
        return cls(ids, features, target.contiguous(), neighbour.contiguous(), *by_edge)

    def as_graph(self, graph: Graph) -> Graph:
        """Return the added nodes and the edges between them as a graph, with the columns of another graph."""
        nodes, first = len(self.ids), graph.num_nodes
        own_edges = ((self.target >= first) & (self.neighbour >= first)).nonzero().flatten()
        own = SparseRows.identity(nodes) if not graph.has_features else self.features
        return replace(
            graph,
            row_ptr=offsets_of(torch.bincount(self.target[own_edges] - first, minlength=nodes)),
            neighbour=self.neighbour[own_edges] - first,
            features=own,
            labels=torch.full((nodes,), UNKNOWN),
            split=torch.zeros(nodes, dtype=graph.split.dtype),
            node_ids=self.ids,
            edge_weight=None if self.weight is None else self.weight[own_edges],
            truth=None,
            notes=(),
            table=graph.table and replace(graph.table, columns=None),
            targets=None if graph.targets is None else torch.full((nodes,), float("nan")),
            edge_features=None if self.edge_features is None else self.edge_features[own_edges],
        )


class ExtendedGraph:
    """A graph, and perhaps some nodes and edges more, which come after its own nodes."""

    def __init__(self, graph: Graph, addition: Addition | None = None) -> None:
        self.graph, self.addition = graph, addition
        self.first_new = graph.num_nodes
        self.num_nodes = graph.num_nodes + (0 if addition is None else len(addition.ids))

    @property
    def touched(self) -> Int[Tensor, "touched"]:
        """Return the nodes that are added, and those that added edges end at; they ascend."""
        if self.addition is None:
            return torch.zeros(0, dtype=torch.long)
        new = torch.arange(self.first_new, self.num_nodes)
        return torch.unique(torch.cat([new, self.addition.target, self.addition.neighbour]))

    def rows_of(self, nodes: Int[Tensor, "some"], most: int | None = None) -> Rows:
        """Return the edges of some nodes, row by row, neighbours ascending; refuse more than ``most``."""
        graph, known = self.graph, nodes.clamp(max=self.first_new - 1)
        start = graph.row_ptr[known]
        length = torch.where(nodes < self.first_new, graph.row_ptr[known + 1] - start, 0)
        if most is not None and int(length.sum()) > most:
            raise TooManyEdgesError("the surroundings of a target have more edges than are allowed")
        owner, edge = ranges(start, length)
        neighbour = graph.neighbour[edge].long()
        if self.addition is None:
            return Rows(owner, neighbour, edge, edge)
        first = torch.searchsorted(self.addition.target, nodes)
        more = torch.searchsorted(self.addition.target, nodes, right=True) - first
        owner_added, added = ranges(first, more)
        owner, neighbour = (
            torch.cat([owner, owner_added]),
            torch.cat([neighbour, self.addition.neighbour[added]]),
        )
        edge = torch.cat([edge, added + graph.num_edges])
        order = torch.argsort(owner * self.num_nodes + neighbour)
        owner, neighbour, edge = owner[order], neighbour[order], edge[order]
        begin = torch.where(nodes < self.first_new, start, graph.num_edges) + first
        rank = torch.arange(owner.numel()) - offsets_of(length + more)[:-1][owner]
        return Rows(owner, neighbour, edge, begin[owner] + rank)

    def degree_of(self, nodes: Int[Tensor, "some"]) -> Int[Tensor, "some"]:
        """Return the number of edges of some nodes."""
        known = nodes.clamp(max=self.first_new - 1)
        stored = torch.where(
            nodes < self.first_new, self.graph.row_ptr[known + 1] - self.graph.row_ptr[known], 0
        )
        if self.addition is None:
            return stored
        ends = (torch.searchsorted(self.addition.target, nodes, right=right) for right in (True, False))
        return stored + next(ends) - next(ends)

    def places_of(self, target: Int[Tensor, "some"], neighbour: Int[Tensor, "some"]) -> Int[Tensor, "some"]:
        """Return the places of some edges as in `Rows`, -1 for those that are not there."""
        stored = (target < self.first_new) & (neighbour < self.first_new)
        place = torch.full_like(target, -1)
        links = self.graph.row_ptr, self.graph.neighbour
        place[stored] = find_in_rows(*links, target[stored], neighbour[stored])
        if self.addition is None:
            return place
        nodes, count = torch.unique_consecutive(self.addition.target, return_counts=True)
        row = place_in(nodes, target)
        more = (place < 0) & (row >= 0)
        found = find_in_rows(offsets_of(count), self.addition.neighbour, row[more], neighbour[more])
        place[more] = torch.where(found >= 0, found + self.graph.num_edges, -1)
        return place

    def around(
        self, targets: Int[Tensor, "targets"], hops: int, deciding: int, most: int | None = None
    ) -> Part:
        """Return the part of the graph within some hops of the targets.

        All nodes that are nearer than ``hops`` have all their edges; those at that distance have none. Nodes within
        ``deciding`` hops decide. A part of more than ``most`` edges is refused.
        """
        nodes = torch.unique(targets)
        found, rows, near, frontier = nodes, [], nodes, nodes
        left = most
        for hop in range(hops):
            rows.append((frontier, self.rows_of(frontier, left)))
            left = None if left is None else left - rows[-1][1].owner.numel()
            reached = np.setdiff1d(rows[-1][1].neighbour.numpy(), found.numpy())
            frontier = torch.from_numpy(reached)
            found = torch.from_numpy(np.union1d(found.numpy(), reached))
            near = found if hop < deciding else near
        return self._part(found, rows, near)

    def _part(
        self, nodes: Int[Tensor, "nodes"], rows: list[tuple[Tensor, Rows]], near: Int[Tensor, "near"]
    ) -> Part:
        """Return the part of some nodes, given the edges of all that have some."""
        target = torch.searchsorted(nodes, torch.cat([some[row.owner] for some, row in rows]))
        order = torch.argsort(target, stable=True)
        neighbour, edge, number = (torch.cat([row[place] for _, row in rows])[order] for place in (1, 2, 3))
        graph = self.graph
        part = Graph(
            row_ptr=offsets_of(torch.bincount(target, minlength=nodes.numel())),
            neighbour=torch.searchsorted(nodes, neighbour),
            features=self._features_of(nodes),
            labels=self._of_nodes(graph.labels, nodes, UNKNOWN),
            split=self._of_nodes(graph.split, nodes, 0),
            node_ids=self.ids_of(nodes),
            class_names=graph.class_names,
            edge_weight=self.of_edges("edge_weight", edge),
            feature_names=graph.feature_names,
            truth=self._truth_of(nodes, edge),
            table=self._table_of(nodes),
            targets=None if graph.targets is None else self._of_nodes(graph.targets, nodes, float("nan")),
            edge_features=self.of_edges("edge_features", edge),
            edge_feature_names=graph.edge_feature_names,
            encoding_settings=graph.encoding_settings,
        )
        return Part(part, nodes, number, torch.searchsorted(nodes, near))

    def _truth_of(self, nodes: Int[Tensor, "some"], edge: Int[Tensor, "edges"]) -> Truth | None:
        """Return what is known of the noise of some nodes and edges; nothing is, if some were added."""
        truth = self.graph.truth
        if truth is None or self.addition is not None:
            return None
        return Truth(truth.spurious[edge], truth.corrupted[nodes], truth.clean_labels[nodes])

    def _table_of(self, nodes: Int[Tensor, "some"]) -> NodeTable | None:
        """Return the columns of some nodes, which a model encodes to the last bit; without them if nodes are new."""
        table = self.graph.table
        if table is None or bool((nodes >= self.first_new).any()):
            return table and replace(table, columns=None)
        return table.take(nodes.numpy())

    def _features_of(self, nodes: Int[Tensor, "some"]) -> Features:
        """Return the features of some nodes, which ascend; without features, their numbers, one-hot."""
        features = self.graph.features
        if not self._has_features:
            return SparseRows(
                torch.arange(nodes.numel() + 1), nodes, torch.ones(nodes.numel()), self.num_nodes
            )
        known = nodes[nodes < self.first_new]
        own = take_rows(features, known)
        if self.addition is None or known.numel() == nodes.numel():
            return own
        return stack_rows([own, take_rows(self.addition.features, nodes[known.numel() :] - self.first_new)])

    @property
    def _has_features(self) -> bool:
        # what is one-hot is as wide as the graph, which is cheap to see
        features = self.graph.features
        return not (isinstance(features, SparseRows) and features.width == self.first_new) or (
            self.graph.has_features
        )

    def _of_nodes(self, values: Tensor, nodes: Int[Tensor, "some"], unknown: float) -> Tensor:
        known = values[nodes.clamp(max=self.first_new - 1)]
        return torch.where(nodes < self.first_new, known, torch.tensor(unknown, dtype=values.dtype))

    def of_edges(self, name: str, edge: Int[Tensor, "some"]) -> Tensor | None:
        """Return the weights or the features of some edges, by their places; None if edges have none."""
        return self._of_edges(getattr(self.graph, name), "weight" if name == "edge_weight" else name, edge)

    def _of_edges(self, values: Tensor | None, name: str, edge: Int[Tensor, "some"]) -> Tensor | None:
        """Return the values of some edges, those of added ones from the addition."""
        if values is None:
            return None
        known = edge < self.graph.num_edges
        found = values[torch.where(known, edge, 0)] if values.shape[0] else values.new_zeros(edge.numel())
        added: Any = None if self.addition is None else getattr(self.addition, name)
        if added is not None and not bool(known.all()):
            found[~known] = added[edge[~known] - self.graph.num_edges].to(found.dtype)
        return found

    def ids_of(self, some: Int[Tensor, "some"]) -> np.ndarray:
        """Return the ids of some nodes, which ascend, as text."""
        nodes = some.numpy()
        known = nodes[nodes < self.first_new]
        own = id_text(np.asarray(self.graph.node_ids[known]))
        if self.addition is None or known.size == nodes.size:
            return own
        new = [self.addition.ids[one - self.first_new] if one >= self.first_new else "" for one in nodes]
        mixed = np.array(new, dtype=object)
        mixed[nodes < self.first_new] = own
        return mixed.astype(str)
