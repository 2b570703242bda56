"""GDC: replace edges by personalised PageRank, the best few per node (Gasteiger et al., 2019).

Not GDC of torch_geometric, whose exact mode makes a matrix of all pairs of nodes and whose approximation needs numba.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.benchmark.baselines.fitting import Inputs, Settings
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import normalised_adjacency, weighted_sum
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.representation.sparse import Matrix, times

RESTARTS = (0.05, 0.15, 0.3)
"""Restart probabilities, tried on validation."""

TOP = 64
"""Number of sources per node, including itself."""

_TOLERANCE = 1e-5
_BLOCK_VALUES = 1 << 23


def gdc_graph(
    graph: Graph, restart: float = 0.15, top: int = TOP, device: torch.device | None = None
) -> Graph:
    """Return the graph whose edges are each node's ``top`` sources by PageRank, with weights that sum to one.

    S = α (I - (1 - α) T)^(-1) with T = D^(-1/2) (A + I) D^(-1/2), computed for a block of targets at a time, so
    that no matrix of all pairs is made. A node is among its own sources.
    """
    place = device or torch.device("cpu")
    transition = Matrix.of(SparseRows.from_scipy(normalised_adjacency(graph).T), place)
    mutual = bool((graph.reverse >= 0).all())
    step = max(1, _BLOCK_VALUES // graph.num_nodes)
    neighbours, weights, lengths = [], [], []
    for start in range(0, graph.num_nodes, step):
        block = torch.arange(start, min(start + step, graph.num_nodes), device=place)
        rank = _page_rank(transition, block, restart, mutual)
        value, source = rank.topk(min(top, graph.num_nodes), dim=0)
        source, order = source.T.sort(dim=1)  # one row per target, its sources ascending
        value = value.T.gather(1, order)
        near = value > _TOLERANCE * restart
        value = torch.where(near, value, 0.0)
        value = value / value.sum(dim=1, keepdim=True)
        neighbours.append(source[near].cpu())
        weights.append(value[near].cpu())
        lengths.append(near.sum(dim=1).cpu())
    return replace(
        graph,
        row_ptr=offsets_of(torch.cat(lengths)),
        neighbour=torch.cat(neighbours),
        edge_weight=torch.cat(weights),
        truth=None,
    )


def gdc_gcn(inputs: Inputs, settings: Settings) -> Stack:
    """Return a GCN that takes the weights of a diffused graph as they are."""
    return Stack(inputs, settings, weighted_sum, own=False)


@torch.no_grad()
def _page_rank(
    transition: Matrix, block: Tensor, restart: float, mutual: bool
) -> Float[Tensor, "nodes block"]:
    """Solve Z = (1 - α) T Z + α I for some columns, by Chebyshev's iteration where T is symmetric."""
    home = torch.zeros(transition.shape[0], block.numel(), device=block.device)
    home[block, torch.arange(block.numel(), device=block.device)] = restart
    before, now, rate, pace = home, home, 1.0 - restart, 1.0
    shrink = rate / (1.0 + (1.0 - rate**2) ** 0.5) if mutual else rate
    error, steps = 1.0, 0
    while error > _TOLERANCE:
        stepped = rate * times(transition, now) + home
        if mutual and steps > 0:
            pace = 1.0 / (1.0 - rate**2 * (0.5 if steps == 1 else pace / 4.0))
            stepped = pace * (stepped - before) + before
        before, now = now, stepped
        error, steps = error * shrink, steps + 1
    return now
