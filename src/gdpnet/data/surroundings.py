"""Subgraphs of bounded size around an ordered core of nodes.

What is sampled around a node depends on the seed and on that node alone. So the surroundings of a longer core
contain those of a shorter one, and every node has an *entry*: the length of the core from which on it belongs to the
subgraph. Counting entries gives the nodes and edges of the subgraph for every length at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, offsets_of, ranges
from gdpnet.data.graph import Graph
from gdpnet.data.sampling import distinct_by_key

_FIRST_SHARE = 64
"""The first core that is tried is this part of the nodes that are wanted; it is doubled until it is long enough."""

_EDGES = 1 << 22
"""Edges that are counted at a time, which bounds the memory."""


@dataclass(frozen=True)
class Surroundings:
    """The nodes around a core, ascending, and the entry of each."""

    core: Int[np.ndarray, "core"]
    """As much of the core as was looked at, in its order."""
    node: Int[np.ndarray, "found"]
    entry: Int[np.ndarray, "found"]

    @property
    def nodes_of(self) -> Int[np.ndarray, "lengths"]:
        """Return the number of nodes for every length of the core, from zero."""
        return np.bincount(self.entry, minlength=self.core.size + 1).cumsum()

    def length_within(self, most: int) -> int:
        """Return the largest length of the core that has at most so many nodes; one at least."""
        return max(1, _last_within(self.nodes_of, most))

    def edges_of(
        self, graph: Graph, length: int, counted: Bool[np.ndarray, "nodes"] | None = None
    ) -> Int[np.ndarray, "lengths"]:
        """Return the number of edges among the nodes, or the ``counted`` ones, for every length up to ``length``."""
        inside = self.entry <= length
        if counted is not None:
            inside &= counted[self.node]
        node, entry = self.node[inside], self.entry[inside]
        found = np.zeros(length + 1, dtype=np.int64)
        start, degree = _rows(graph, node)
        for first, last in cut_rows(offsets_of(degree), _EDGES):
            owner, edge = ranges(start[first:last], degree[first:last])
            neighbour = graph.neighbour[edge].numpy()
            place = np.minimum(np.searchsorted(node, neighbour), node.size - 1)
            among = node[place] == neighbour
            both = np.maximum(entry[first:last][owner.numpy()[among]], entry[place[among]])
            found += np.bincount(both, minlength=length + 1)
        return found.cumsum()

    def filled_up(
        self, graph: Graph, most: int, edges: int, counted: Bool[np.ndarray, "nodes"] | None = None
    ) -> tuple[Int[Tensor, "taken"], int]:
        """Return at most so many nodes with about, and at most, so many edges, and how much of the core has its all.

        Of the core node that no longer fits with its surroundings, some of these are taken to come closer.
        """
        length = self.length_within(most)
        length = max(1, _last_within(self.edges_of(graph, length, counted), edges))
        inside = self.entry <= length
        order = np.concatenate([self.node[inside], self.node[self.entry == length + 1]])
        order = order[: max(most, int(inside.sum()))]
        entry = np.maximum(np.arange(order.size) - int(inside.sum()) + 1, 0)
        node, entry = _earliest(order, entry)
        finer = Surroundings(self.core, node, entry)
        return finer.nodes_within(
            _last_within(finer.edges_of(graph, int(entry.max()), counted), edges)
        ), length

    def nodes_within(self, length: int) -> Int[Tensor, "taken"]:
        """Return the nodes for some length of the core, ascending."""
        return torch.from_numpy(self.node[self.entry <= length])


def surroundings(
    graph: Graph,
    core: Int[Tensor, "core"],
    most: int,
    fan_out: Sequence[int],
    seed: int,
    allowed: Bool[np.ndarray, "nodes"] | None = None,
) -> Surroundings:
    """Return the surroundings of as much of a core, from its beginning, as has more than ``most`` nodes.

    At each hop, up to ``fan_out[hop]`` neighbours per node are sampled uniformly, of which those that are not
    ``allowed`` are left out. So a core node has all its allowed neighbours unless it has more than ``fan_out[0]``.
    """
    length = max(1, most // _FIRST_SHARE)
    while True:
        length = min(length, core.numel())
        found = _around(graph, core[:length].numpy(), fan_out, seed, allowed)
        if found.node.size > most or length == core.numel():
            return found
        length *= 2


def part_around(
    graph: Graph, core: Int[Tensor, "core"], most: int, fan_out: Sequence[int], seed: int
) -> tuple[Graph, Int[Tensor, "chosen"]]:
    """Return an induced subgraph around the first core nodes, and the numbers of these nodes in it.

    As much of the core is taken, from its beginning, as fits into ``most`` nodes together with its surroundings; one
    node is always taken.
    """
    found = surroundings(graph, core, most, fan_out, seed)
    length = found.length_within(most)
    nodes = found.nodes_within(length)
    return graph.induced(nodes), torch.searchsorted(nodes, core[:length].sort().values)


def _around(
    graph: Graph,
    core: Int[np.ndarray, "core"],
    fan_outs: Sequence[int],
    seed: int,
    allowed: Bool[np.ndarray, "nodes"] | None,
) -> Surroundings:
    """Return the core and its sampled surroundings with their entries."""
    node, entry = _earliest(core, np.arange(1, core.size + 1))
    reached, since = node, entry
    for hop, fan_out in enumerate(fan_outs):
        start, degree = _rows(graph, reached)
        owner, place = distinct_by_key(seed + hop, reached, degree.numpy(), fan_out)
        edge = start.numpy()[owner] + place
        sampled = graph.neighbour[torch.from_numpy(edge)].numpy().astype(np.int64)
        if allowed is not None:
            owner, sampled = owner[allowed[sampled]], sampled[allowed[sampled]]
        reached, since = _earliest(sampled, since[owner])
        node, entry = _earliest(np.concatenate([node, reached]), np.concatenate([entry, since]))
        new = entry[np.searchsorted(node, reached)] == since  # the others were here earlier
        reached, since = reached[new], since[new]
    return Surroundings(core, node, entry)


def _last_within(counts: Int[np.ndarray, "lengths"], most: int) -> int:
    """Return the last place of counts that ascend whose count is at most ``most``; zero if there is none."""
    return max(0, int(np.searchsorted(counts, most, side="right")) - 1)


def _earliest(
    node: Int[np.ndarray, "n"], entry: Int[np.ndarray, "n"]
) -> tuple[Int[np.ndarray, "distinct"], Int[np.ndarray, "distinct"]]:
    """Return the distinct nodes, ascending, each with its earliest entry."""
    order = np.lexsort((entry, node))
    node, entry = node[order].astype(np.int64), entry[order]
    first = np.flatnonzero(np.diff(node, prepend=-1))
    return node[first], entry[first]


def _rows(graph: Graph, node: Int[np.ndarray, "n"]) -> tuple[Int[Tensor, "n"], Int[Tensor, "n"]]:
    """Return where the neighbours of some nodes begin, and how many there are."""
    number = torch.from_numpy(node)
    start = graph.row_ptr[number]
    return start, graph.row_ptr[number + 1] - start
