"""A part of a large graph: some nodes, and what lies around them; its size is bounded, whatever the graph's is."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.data.graph import Graph
from gdpnet.data.sampling import distinct

FAN_OUT = (256, 4)
"""Neighbours that are taken along at most, of a chosen node, and of each of those; of more, each is as likely."""

_LOOKS = 6
"""How often the number of chosen nodes is tried between one that fits and one that does not."""


def part_around(
    graph: Graph, core: Int[Tensor, "core"], most: int, seed: int
) -> tuple[Graph, Int[Tensor, "chosen"]]:
    """Return the subgraph of some nodes and what lies around them, and which of its nodes they are.

    The core is taken from its beginning, about as much of it as fits with what lies around, and one node at least.
    All edges among the nodes of the part are in it, so that a chosen node has all its neighbours, but for those of a
    hub; the others have some.
    """
    size = min(core.numel(), most)
    nodes = _around(graph, core[:size], seed)
    if nodes.numel() > most:
        size, nodes = _largest(graph, core, most, seed)
    chosen = torch.searchsorted(nodes, core[:size].sort().values)
    return graph.induced(nodes), chosen


def _largest(
    graph: Graph, core: Int[Tensor, "core"], most: int, seed: int
) -> tuple[int, Int[Tensor, "nodes"]]:
    """Return about how much of the core fits, and the nodes that it makes; the whole core does not fit."""
    size, too_large = 1, min(core.numel(), most)
    nodes = _around(graph, core[:1], seed)
    for _ in range(_LOOKS):
        # the first guess follows the size of one neighbourhood, the others halve what is open
        guess = max(1, most // nodes.numel()) if size == 1 else (size + too_large) // 2
        if not size < guess < too_large:
            guess = (size + too_large) // 2
        if guess == size:
            break
        tried = _around(graph, core[:guess], seed)
        if tried.numel() > most:
            too_large = guess
        else:
            size, nodes = guess, tried
    return size, nodes


def _around(graph: Graph, core: Int[Tensor, "core"], seed: int) -> Int[Tensor, "nodes"]:
    """Return some nodes, some of their neighbours and some of those of each, ascending."""
    rng = np.random.default_rng(seed)
    degree, first = graph.degree.numpy(), graph.row_ptr.numpy()
    found = frontier = np.unique(core.numpy())
    for fan_out in FAN_OUT:
        rows = degree[frontier]
        owner, place = distinct(rng, rows, np.minimum(rows, fan_out))
        heard = graph.neighbour[torch.from_numpy(first[frontier][owner] + place)].numpy()
        frontier = np.setdiff1d(heard, found)
        found = np.union1d(found, frontier)
    return torch.from_numpy(found.astype(np.int64))
