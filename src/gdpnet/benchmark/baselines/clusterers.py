"""Baselines of clustering: k-means on features, walks, autoencoders and infomax, and spectral clustering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch_geometric.nn import DeepGraphInfomax, GCNConv, Sequential

from gdpnet._core.fit import fit
from gdpnet.benchmark.baselines.fitting import seeded
from gdpnet.benchmark.baselines.link_predictors import autoencoder, unit_rows
from gdpnet.benchmark.baselines.propagation import normalised_adjacency
from gdpnet.data.graph import Graph

_WALKS, _LENGTH, _WINDOW, _WIDTH = 10, 40, 5, 128
_INFOMAX_EPOCHS, _INFOMAX_PATIENCE, _INFOMAX_WIDTH = 300, 20, 512


def group(rows: Float[Tensor, "nodes width"], clusters: int, seed: int) -> Int[Tensor, "nodes"]:
    """Return the cluster of each row by k-means, the best of ten starts by inertia."""
    return torch.from_numpy(KMeans(clusters, n_init=10, random_state=seed).fit_predict(rows.numpy())).long()


def spectral(graph: Graph, clusters: int, seed: int) -> Int[Tensor, "nodes"]:
    """Return spectral clusters (Ng et al., 2002) of the edges and self-loops, without features.

    Not SpectralClustering of scikit-learn, which does not normalise rows: on Cora its NMI is .01, here .28.
    """
    near = normalised_adjacency(replace(graph, edge_weight=None)).astype(np.float64)
    start = np.random.default_rng(seed).random(graph.num_nodes)
    _, vectors = sp.linalg.eigsh(near, k=clusters, which="LA", v0=start, tol=1e-4)
    return group(F.normalize(torch.from_numpy(vectors.astype(np.float32)), dim=1), clusters, seed)


def deepwalk(graph: Graph, seed: int, device: torch.device) -> Float[Tensor, "nodes width"]:
    """Return DeepWalk's representations: skip-gram with negative samples on random walks (Perozzi et al., 2014).

    Not Node2Vec of torch_geometric, which needs the compiled extra pyg-lib for its walks.
    """
    walks = _walk(graph, torch.Generator().manual_seed(seed))
    pairs = torch.cat(
        [
            torch.stack([walks[:, :-step].flatten(), walks[:, step:].flatten()])
            for step in range(1, _WINDOW + 1)
        ],
        dim=1,
    )
    with seeded(seed, device):
        inner = nn.Embedding(graph.num_nodes, _WIDTH).to(device)
        outer = nn.Embedding(graph.num_nodes, _WIDTH).to(device)
        nn.init.normal_(inner.weight, std=0.1)
        nn.init.zeros_(outer.weight)
        optimiser = torch.optim.Adam([*inner.parameters(), *outer.parameters()], lr=0.01)
        batch = max(8192, pairs.shape[1] // 100)
        for part in torch.randperm(pairs.shape[1]).split(batch):
            left, right = pairs[:, part].to(device)
            centre, others = inner(left), torch.randint(0, graph.num_nodes, (len(part), 5), device=device)
            hit = F.softplus(-(centre * outer(right)).sum(dim=1)).mean()
            miss = F.softplus(torch.einsum("nd,nkd->nk", centre, outer(others))).sum(dim=1).mean()
            optimiser.zero_grad()
            (hit + miss).backward()
            optimiser.step()
    return inner.weight.detach().cpu()


def _walk(graph: Graph, generator: torch.Generator) -> Int[Tensor, "walks length"]:
    """Return random walks from every node; a node without neighbours stays where it is."""
    now = torch.arange(graph.num_nodes).repeat(_WALKS)
    steps = [now]
    for _ in range(_LENGTH - 1):
        degree = graph.degree[now]
        place = (torch.rand(len(now), generator=generator) * degree).long().clamp(max=degree.clamp(min=1) - 1)
        edge = (graph.row_ptr[now] + place).clamp(max=max(graph.num_edges - 1, 0))
        now = torch.where(degree > 0, graph.neighbour[edge], now)
        steps.append(now)
    return torch.stack(steps, dim=1)


def infomax(graph: Graph, seed: int, device: torch.device) -> Float[Tensor, "nodes width"]:
    """Return the representations of torch_geometric's DGI (Velickovic et al., 2019) at its least loss."""
    rows, edges = unit_rows(graph).to(device), graph.edge_index.to(device)
    last = torch.zeros(())

    def loss() -> Tensor:
        nonlocal last
        last = model.loss(*model(rows, edges))
        return last

    with seeded(seed, device):
        layers = [
            (GCNConv(rows.shape[1], _INFOMAX_WIDTH), "x, edges -> x"),
            nn.PReLU(_INFOMAX_WIDTH),
        ]
        model = DeepGraphInfomax(
            _INFOMAX_WIDTH,
            Sequential("x, edges", layers),
            summary=lambda found, *_: found.mean(dim=0).sigmoid(),
            corruption=lambda found, links: (found[torch.randperm(len(found), device=device)], links),
        ).to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
        fit(
            model, optimiser, loss, lambda: (-float(last),), steps=_INFOMAX_EPOCHS, patience=_INFOMAX_PATIENCE
        )
    with torch.no_grad():
        return model.encoder(rows, edges).cpu()


CLUSTERERS: dict[str, Callable[[Graph, int, int, torch.device], Int[Tensor, "nodes"]]] = {
    "kmeans": lambda graph, clusters, seed, device: group(unit_rows(graph), clusters, seed),
    "spectral": lambda graph, clusters, seed, device: spectral(graph, clusters, seed),
    "deepwalk": lambda graph, clusters, seed, device: group(deepwalk(graph, seed, device), clusters, seed),
    "gae": lambda graph, clusters, seed, device: group(
        autoencoder("gae", graph, None, seed, device), clusters, seed
    ),
    "dgi": lambda graph, clusters, seed, device: group(infomax(graph, seed, device), clusters, seed),
}
"""Every clustering method by name."""
