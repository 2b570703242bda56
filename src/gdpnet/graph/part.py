"""A part of a large graph: some nodes, and what lies around them; its size is bounded, whatever the graph's is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.graph.graph import Graph
from gdpnet.graph.sampling import distinct

FAN_OUT = (256, 16)
"""Neighbours that are taken along at most, of a chosen node, and of each of those; of more, each is as likely."""


def part_around(
    graph: Graph, core: Int[Tensor, "core"], most: int, seed: int
) -> tuple[Graph, Int[Tensor, "chosen"]]:
    """Return the subgraph of as many nodes of the core as can be had with what lies around them, and which they are.

    The core is taken from its beginning, and at least one of it; the chosen ones are numbers of the part. All edges
    among the nodes of the part are in it, so that a chosen node has all its neighbours, but for those of a hub.
    """
    size = min(core.numel(), most)
    nodes = _around(graph, core[:size], seed)
    while nodes.numel() > most and size > 1:
        size = max(1, min(size // 2, size * most // nodes.numel()))
        nodes = _around(graph, core[:size], seed)
    chosen = torch.searchsorted(nodes, core[:size].sort().values)
    return graph.induced(nodes), chosen


def with_split(graph: Graph, chosen: Int[Tensor, "chosen"], others: Int[Tensor, "nodes"]) -> Graph:
    """Return the graph with the split of the chosen nodes as it is, and that of the others as given."""
    split = others.to(graph.split.dtype).clone()
    split[chosen] = graph.split[chosen]
    return replace(graph, split=split)


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
