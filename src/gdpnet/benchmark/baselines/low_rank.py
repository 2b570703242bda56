"""SVD-GCN: a GCN on a low-rank adjacency matrix (Entezari et al., 2020), which is kept as two factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import svds
from torch import Tensor

from gdpnet.benchmark.baselines.fitting import Inputs, Settings
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import adjacency, weights_of
from gdpnet.data.graph import Graph

RANKS = (10, 50, 100, 200)
"""Ranks tried on validation."""

_DENSE_NODES = 1_000
"""Up to this many nodes the dense matrix is decomposed, which is as fast and exact."""


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


def svd_gcn(inputs: Inputs, settings: Settings) -> Stack:
    """Return a GCN on a low-rank adjacency matrix."""
    return Stack(inputs, settings, low_rank_mean, own=False)


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
