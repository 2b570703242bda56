"""GCN on another matrix than the graph's: personalised PageRank (GDC) and a matrix of low rank (SVD-GCN).

GDC (Gasteiger et al., 2019) replaces edges by the best few sources of each node. torch_geometric's is not used: its
exact mode makes a matrix of all pairs of nodes and its approximation needs numba. SVD-GCN (Entezari et al., 2020)
keeps the low-rank adjacency matrix as two factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import svds
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.benchmark.baselines.fitting import Fitted, Settings, Task, choose, fit_network, inputs_of
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import (
    Links,
    adjacency,
    normalised_adjacency,
    weighted_sum,
    weights_of,
)
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.representation.sparse import Matrix, times

RESTARTS = (0.05, 0.15, 0.3)
"""Restart probabilities, tried on validation."""

TOP = 64
"""Number of sources per node, including itself."""

_TOLERANCE = 1e-5
_BLOCK_VALUES = 1 << 23

RANKS = (10, 50, 100, 200)
"""Ranks tried on validation."""

_DENSE_NODES = 1_000
"""Up to this many nodes the dense matrix is decomposed, which is as fast and exact."""


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
        edge_features=None,
        edge_feature_names=None,
        truth=None,
    )


def diffused(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train a GCN that takes the weights of diffused graphs as they are; the restart probability is chosen."""
    inputs = inputs_of(task, device)

    def fit(restart: float) -> Fitted:
        links = (
            Links.of(gdc_graph(graph, restart, TOP, device), device) for graph in (task.train, task.whole)
        )
        return fit_network(partial(Stack, propagate=weighted_sum), inputs.with_links(*links), settings, seed)

    found = choose("restart", RESTARTS, settings, fit)
    return replace(found, chosen=found.chosen | {"top": TOP})


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


@dataclass(frozen=True)
class LowRank:
    """An adjacency matrix as the product of a tall and a flat one, A ≈ left right, with D = its row sums + 1."""

    left: Float[Tensor, "nodes rank"]
    right: Float[Tensor, "rank nodes"]
    degree: Float[Tensor, "nodes 1"]


def low_rank_links(graph: Graph, ranks: Sequence[int], device: torch.device) -> dict[int, LowRank]:
    """Return the best approximations U S Vᵀ of the adjacency matrix, one per possible rank."""
    most = min(max(ranks), graph.num_nodes - 1)
    left, size, right = _decompose(graph, most)
    found = {}
    for rank in sorted({min(rank, most) for rank in ranks}):
        tall = torch.from_numpy(left[:, :rank] * size[:rank]).float().to(device)
        flat = torch.from_numpy(right[:rank].copy()).float().to(device)
        # a sum of approximated weights may be negative and then has no root
        degree = (tall @ flat.sum(dim=1, keepdim=True) + 1.0).clamp(min=1.0)
        found[rank] = LowRank(tall, flat, degree)
    return found


def low_rank_mean(links: LowRank, message: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Propagate as GCN does, D^(-1/2) (A + I) D^(-1/2) H, as U (S (Vᵀ H)), without a matrix of all pairs."""
    scale = links.degree.rsqrt()
    scaled = message * scale
    return (links.left @ (links.right @ scaled) + scaled) * scale


def low_rank(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train a GCN on adjacency matrices of low rank; the rank is chosen."""
    inputs = inputs_of(task, device)
    ranks = RANKS if settings.choice is None else (int(settings.choice),)
    train, whole = (low_rank_links(graph, ranks, device) for graph in (task.train, task.whole))

    def fit(rank: int) -> Fitted:
        part = inputs.with_links(train[min(rank, max(train))], whole[rank])
        return fit_network(partial(Stack, propagate=low_rank_mean), part, settings, seed)

    return choose("rank", sorted(whole), replace(settings, choice=None), fit)


def _decompose(graph: Graph, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return U, the singular values and Vᵀ, largest first."""
    nodes = graph.num_nodes
    if graph.num_edges == 0 or rank < 1:
        return np.zeros((nodes, 1)), np.zeros(1), np.zeros((1, nodes))
    matrix = adjacency(graph, weights_of(graph).double().numpy())
    if nodes <= _DENSE_NODES:
        left, size, right = np.linalg.svd(matrix.toarray())
        return left[:, :rank], size[:rank], right[:rank]
    start = np.random.default_rng(0).standard_normal(nodes)
    left, size, right = svds(matrix, k=rank, v0=start)
    order = np.argsort(-size)
    return left[:, order], size[order], right[order]
