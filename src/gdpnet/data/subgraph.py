"""Sample a subgraph of bounded size around some nodes of a large graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.data.graph import Graph
from gdpnet.data.sampling import distinct

_TRIALS = 6
"""Core sizes that are tried when the whole core does not fit."""


def part_around(
    graph: Graph, core: Int[Tensor, "core"], most: int, fan_out: Sequence[int], seed: int
) -> tuple[Graph, Int[Tensor, "chosen"]]:
    """Return an induced subgraph around the first core nodes, and the numbers of these nodes in it.

    As much of the core is taken, from its beginning, as fits into ``most`` nodes together with its surroundings; one
    node is always taken. At each hop, up to ``fan_out[hop]`` neighbours per node are sampled uniformly. So a core
    node has all its neighbours unless it has more than ``fan_out[0]``.
    """
    size = min(core.numel(), most)
    nodes = _around(graph, core[:size], fan_out, seed)
    if nodes.numel() > most:
        size, nodes = _largest(graph, core, most, fan_out, seed)
    chosen = torch.searchsorted(nodes, core[:size].sort().values)
    return graph.induced(nodes), chosen


def _largest(
    graph: Graph, core: Int[Tensor, "core"], most: int, fan_out: Sequence[int], seed: int
) -> tuple[int, Int[Tensor, "nodes"]]:
    """Search for the largest part of the core that fits; return its size and the nodes of the subgraph."""
    size, too_large = 1, min(core.numel(), most)
    nodes = _around(graph, core[:1], fan_out, seed)
    for _ in range(_TRIALS):
        # the first guess follows the size of one neighbourhood, later ones bisect
        guess = max(1, most // nodes.numel()) if size == 1 else (size + too_large) // 2
        if not size < guess < too_large:
            guess = (size + too_large) // 2
        if guess == size:
            break
        tried = _around(graph, core[:guess], fan_out, seed)
        if tried.numel() > most:
            too_large = guess
        else:
            size, nodes = guess, tried
    return size, nodes


def _around(
    graph: Graph, core: Int[Tensor, "core"], fan_outs: Sequence[int], seed: int
) -> Int[Tensor, "nodes"]:
    """Return the core and its sampled surroundings, ascending."""
    rng = np.random.default_rng(seed)
    degree, first = graph.degree.numpy(), graph.row_ptr.numpy()
    found = frontier = np.unique(core.numpy())
    for fan_out in fan_outs:
        rows = degree[frontier]
        owner, place = distinct(rng, rows, np.minimum(rows, fan_out))
        sampled = graph.neighbour[torch.from_numpy(first[frontier][owner] + place)].numpy()
        frontier = np.setdiff1d(sampled, found)
        found = np.union1d(found, frontier)
    return torch.from_numpy(found.astype(np.int64))
