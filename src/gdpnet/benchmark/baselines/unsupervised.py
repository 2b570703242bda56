"""Baselines that read no label: link predictors, and methods of clustering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from sklearn.cluster import KMeans
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor, nn
from torch_geometric.nn import GAE, GCN, VGAE, DeepGraphInfomax, GCNConv, Sequential, SimpleConv
from torch_geometric.utils import negative_sampling

from gdpnet._core.fit import fit
from gdpnet.benchmark.baselines.fitting import seeded, unit_rows
from gdpnet.benchmark.baselines.propagation import adjacency, normalised_adjacency
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs, links_of
from gdpnet.inference.unsupervised import link_scores
from gdpnet.representation.propagation import inner_products

EPOCHS = 200
LEARNING_RATE = 0.01
WIDTH, HIDDEN = 16, 32
"""Widths of Kipf and Welling (2016)."""

_WALKS, _LENGTH, _WINDOW, _WIDTH = 10, 40, 5, 128
_INFOMAX_EPOCHS, _INFOMAX_PATIENCE, _INFOMAX_WIDTH = 300, 20, 512

LinkScorer = Callable[[Int[Tensor, "2 pairs"]], Float[Tensor, "pairs"]]
"""Return a score per pair, greater for likelier links."""


class _GraphSAGE(nn.Module):
    """Two mean layers; rows are projected before the mean, unlike in SAGEConv: equal results at a lower cost."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(size, width, bias=own) for size in (features, width) for own in (True, False)
        )
        self.mean = SimpleConv(aggr="mean")

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        own, message, own_above, message_above = self.layers
        rows = F.relu(own(rows) + self.mean(message(rows), edges))
        return own_above(rows) + self.mean(message_above(rows), edges)


class _Variational(nn.Module):
    """A shared layer, then one for the mean and one for the logarithm of the standard deviation."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.shared = GCNConv(features, HIDDEN)
        self.mean, self.deviation = GCNConv(HIDDEN, WIDTH), GCNConv(HIDDEN, WIDTH)

    def forward(self, rows: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.relu(self.shared(rows, edges))
        return self.mean(hidden, edges), self.deviation(hidden, edges)


_ENCODERS: dict[str, Callable[[int], GAE]] = {
    "gae": lambda features: GAE(GCN(features, HIDDEN, 2, WIDTH)),
    "vgae": lambda features: VGAE(_Variational(features)),
    "graphsage": lambda features: GAE(_GraphSAGE(features, 64)),
}


def autoencoder(
    name: str, graph: Graph, pairs: Pairs | None, seed: int, device: torch.device
) -> Float[Tensor, "nodes width"]:
    """Fit an autoencoder of torch_geometric; return its representations.

    They are those of the best epoch on the validation pairs, or of the last epoch without any.
    """
    rows, edges = unit_rows(graph).to(device), graph.edge_index.to(device)
    positive = links_of(graph).to(device)

    def loss() -> Tensor:
        model.train()
        embedded = model.encode(rows, edges)
        negative = negative_sampling(edges, graph.num_nodes, positive.shape[1])
        found: Tensor = model.recon_loss(embedded, positive, negative)
        return found + model.kl_loss() / graph.num_nodes if isinstance(model, VGAE) else found

    def evaluate() -> tuple[float, ...]:
        model.eval()
        return () if pairs is None else (sum(link_scores(model.encode(rows, edges), pairs)),)

    with seeded(seed, device):
        model = _ENCODERS[name](rows.shape[1]).to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        fit(model, optimiser, loss, evaluate, steps=EPOCHS, evaluate_every=EPOCHS if pairs is None else 1)
    with torch.no_grad():
        return model.encode(rows, edges).cpu()


def by_common(graph: Graph, weight: np.ndarray) -> LinkScorer:
    """Score pairs by the sum of the weights of their common neighbours."""
    near = adjacency(graph, np.ones(graph.num_edges))

    def score(ends: Tensor) -> Tensor:
        left, right = near[ends[0].numpy()], near[ends[1].numpy()]
        return torch.from_numpy(np.asarray(left.multiply(right) @ weight).ravel())

    return score


def measure(pairs: Pairs, scorer: LinkScorer) -> tuple[float, float]:
    """Return ROC AUC and average precision on some pairs."""
    score, linked = scorer(pairs.ends).detach().cpu().numpy(), pairs.linked.numpy()
    return float(roc_auc_score(linked, score)), float(average_precision_score(linked, score))


def _by_autoencoder(name: str) -> Callable[[Graph, Pairs, int, torch.device], LinkScorer]:
    return lambda *given: partial(inner_products, autoencoder(name, *given))


LINK_PREDICTORS: dict[str, Callable[[Graph, Pairs, int, torch.device], LinkScorer]] = {
    **{name: _by_autoencoder(name) for name in _ENCODERS},
    "common-neighbours": lambda graph, *_: by_common(graph, np.ones(graph.num_nodes)),
    # each common neighbour counts 1 / log of its degree
    "adamic-adar": lambda graph, *_: by_common(graph, 1.0 / np.log(np.maximum(graph.degree.numpy(), 2))),
}
"""Every link predictor by name."""


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
