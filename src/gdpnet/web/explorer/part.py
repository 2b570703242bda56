"""The part of a graph that a page shows: all of it, or some nodes with the nodes around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet.data.graph import Graph
from gdpnet.errors import GraphError

MOST_EDGES = 200_000
"""Directed edges of a page, which are 100,000 links of an undirected graph."""

MOST_NODES = 200_000
"""Nodes of a page."""


@dataclass(frozen=True)
class Part:
    """Nodes of a graph, and the edges between them."""

    graph: Graph
    nodes: Int[Tensor, "shown"]
    """The nodes that are shown, ascending."""
    asked: Int[Tensor, "asked"]
    """Those of them that are explained, ascending."""
    edge: Int[Tensor, "edges"]
    """The edges between shown nodes, ascending."""

    @property
    def whole(self) -> bool:
        """Return whether the part is the whole graph, and all of it is explained."""
        return self.asked.numel() == self.graph.num_nodes

    @cached_property
    def place(self) -> Int[Tensor, "nodes"]:
        """Return the place of each node of the graph among those that are shown, -1 if it is not."""
        place = torch.full((self.graph.num_nodes,), -1)
        place[self.nodes] = torch.arange(self.nodes.numel())
        return place

    @cached_property
    def target(self) -> Int[Tensor, "edges"]:
        """Return the place of the target of each edge."""
        return self.place[torch.searchsorted(self.graph.row_ptr, self.edge, right=True) - 1]

    @cached_property
    def neighbour(self) -> Int[Tensor, "edges"]:
        """Return the place of the neighbour of each edge."""
        return self.place[self.graph.neighbour[self.edge].long()]

    @cached_property
    def ids(self) -> list[str]:
        """Return the ids of the shown nodes as text."""
        return np.asarray(self.graph.node_ids)[self.nodes.numpy()].astype(str).tolist()

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Return the place of each shown node by its id."""
        return {name: place for place, name in enumerate(self.ids)}


def part_of(graph: Graph, asked: Int[Tensor, "asked"] | None, hops: int, most: int = MOST_EDGES) -> Part:
    """Return the whole graph, or the nodes within some hops of those that are asked for; refuse too large a part."""
    if asked is None:
        _check_size(graph.num_nodes, graph.num_edges, most, "name the nodes to look at with --nodes")
        return part_of_all(graph)
    asked = torch.unique(asked)
    nodes = asked
    for _ in range(hops):
        nodes = torch.unique(torch.cat([nodes, graph.neighbour[_edges_of(graph, nodes)].long()]))
    edge = _edges_of(graph, nodes)
    shown = torch.zeros(graph.num_nodes, dtype=torch.bool)
    shown[nodes] = True
    edge = edge[shown[graph.neighbour[edge].long()]]
    _check_size(nodes.numel(), edge.numel(), most, "name fewer nodes with --nodes, or fewer --hops")
    return Part(graph, nodes, asked, edge)


def part_of_all(graph: Graph) -> Part:
    """Return the whole graph, however large it is."""
    everyone = torch.arange(graph.num_nodes)
    return Part(graph, everyone, everyone, torch.arange(graph.num_edges))


def _edges_of(graph: Graph, nodes: Int[Tensor, "some"]) -> Int[Tensor, "edges"]:
    start = graph.row_ptr[nodes]
    return ranges(start, graph.row_ptr[nodes + 1] - start)[1]


def _check_size(nodes: int, edges: int, most: int, advice: str) -> None:
    for count, limit, what in ((edges, most, "directed edges"), (nodes, MOST_NODES, "nodes")):
        if count > limit:
            raise GraphError(
                f"a page of the explorer must have at most {limit:,} {what}, found {count:,}; {advice}, or use "
                "gdpnet serve, which loads neighbourhoods on demand"
            )
