"""What links are foretold by elsewhere: autoencoders of graphs, GraphSAGE, and counts of common neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor, nn
from torch_geometric.nn import GAE, VGAE, GCNConv, SimpleConv
from torch_geometric.utils import negative_sampling

from gdpnet.benchmark.baselines.fitting import seeded
from gdpnet.data.features import SparseRows, normalise
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs, links_of

EPOCHS = 200
LEARNING_RATE = 0.01
WIDTH, HIDDEN = 16, 32
"""Widths of Kipf and Welling (2016)."""

Foretell = Callable[[Int[Tensor, "2 pairs"]], Float[Tensor, "pairs"]]
"""Return a score for each pair, greater for likelier links."""


class _Two(nn.Module):
    """Two layers of a kind, relu between them."""

    def __init__(
        self, layer: Callable[[int, int], nn.Module], features: int, hidden: int, width: int
    ) -> None:
        super().__init__()
        self.first, self.second = layer(features, hidden), layer(hidden, width)

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        found: Tensor = self.second(F.relu(self.first(rows, edges)), edges)
        return found


class _Sage(nn.Module):
    """GraphSAGE's mean layer; rows are multiplied before the mean is taken, which is the same and costs less."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.own, self.given = nn.Linear(before, after), nn.Linear(before, after, bias=False)
        self.mean = SimpleConv(aggr="mean")

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        heard: Tensor = self.mean(self.given(rows), edges)
        return self.own(rows) + heard


class _Variational(nn.Module):
    """A shared layer, then one for the mean and one for the logarithm of the deviation."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.shared = GCNConv(features, HIDDEN)
        self.mean, self.deviation = GCNConv(HIDDEN, WIDTH), GCNConv(HIDDEN, WIDTH)

    def forward(self, rows: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.relu(self.shared(rows, edges))
        return self.mean(hidden, edges), self.deviation(hidden, edges)


def autoencoder(
    graph: Graph, pairs: Pairs | None, seed: int, device: torch.device
) -> Float[Tensor, "n width"]:
    """Fit torch_geometric's GAE; return its representations, at the best look at validation pairs if given."""
    return _fit(lambda width: GAE(_Two(GCNConv, width, HIDDEN, WIDTH)), graph, pairs, seed, device)


def variational(
    graph: Graph, pairs: Pairs | None, seed: int, device: torch.device
) -> Float[Tensor, "n width"]:
    """Fit torch_geometric's VGAE likewise."""
    return _fit(lambda width: VGAE(_Variational(width)), graph, pairs, seed, device)


def graphsage(graph: Graph, pairs: Pairs | None, seed: int, device: torch.device) -> Float[Tensor, "n width"]:
    """Fit two layers of GraphSAGE, 64 wide, to foretell links."""
    return _fit(lambda width: GAE(_Two(_Sage, width, 64, 64)), graph, pairs, seed, device)


def _fit(
    build: Callable[[int], GAE], graph: Graph, pairs: Pairs | None, seed: int, device: torch.device
) -> Tensor:
    rows = dense_rows(graph).to(device)
    edges = torch.stack([graph.neighbour, graph.target]).to(device)
    asked = links_of(graph).to(device)
    with seeded(seed, device):
        model = build(rows.shape[1]).to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        best, kept = -1.0, torch.zeros(0)
        for _ in range(EPOCHS):
            model.train()
            embedded = model.encode(rows, edges)
            others = negative_sampling(edges, graph.num_nodes, asked.shape[1])
            loss = model.recon_loss(embedded, asked, others)
            if isinstance(model, VGAE):
                loss = loss + model.kl_loss() / graph.num_nodes
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            model.eval()
            with torch.no_grad():
                embedded = model.encode(rows, edges)
            score = 0.0 if pairs is None else sum(measure(pairs, by_inner_product(embedded)))
            if pairs is None or score > best:
                best, kept = score, embedded
    return kept.cpu()


def by_inner_product(embedded: Float[Tensor, "nodes width"]) -> Foretell:
    """Score pairs by the inner product of their representations."""
    return lambda ends: (embedded[ends[0]] * embedded[ends[1]]).sum(dim=1)


def common_neighbours(graph: Graph) -> Foretell:
    """Score pairs by the number of their common neighbours."""
    return _by_common(graph, np.ones(graph.num_nodes))


def adamic_adar(graph: Graph) -> Foretell:
    """Score pairs by their common neighbours, each by 1 / log of its degree."""
    return _by_common(graph, 1.0 / np.log(np.maximum(graph.degree.numpy(), 2)))


def _by_common(graph: Graph, weight: np.ndarray) -> Foretell:
    ones = np.ones(graph.num_edges)
    shape = (graph.num_nodes, graph.num_nodes)
    near = sp.csr_matrix((ones, graph.neighbour.numpy(), graph.row_ptr.numpy()), shape=shape)

    def score(ends: Tensor) -> Tensor:
        left, right = near[ends[0].numpy()], near[ends[1].numpy()]
        return torch.from_numpy(np.asarray(left.multiply(right) @ weight).ravel())

    return score


def measure(pairs: Pairs, foretell: Foretell) -> tuple[float, float]:
    """Return ROC AUC and average precision on some pairs."""
    score, linked = foretell(pairs.ends).detach().cpu().numpy(), pairs.linked.numpy()
    return float(roc_auc_score(linked, score)), float(average_precision_score(linked, score))


def dense_rows(graph: Graph) -> Float[Tensor, "nodes features"]:
    """Return feature rows of length one, laid out in full, as torch_geometric's layers read them."""
    rows = normalise(graph.features, "l2")
    return torch.from_numpy(rows.to_scipy().toarray()) if isinstance(rows, SparseRows) else rows


LINKERS: dict[str, Callable[[Graph, Pairs, int, torch.device], Foretell]] = {
    "gae": lambda graph, pairs, seed, device: by_inner_product(autoencoder(graph, pairs, seed, device)),
    "vgae": lambda graph, pairs, seed, device: by_inner_product(variational(graph, pairs, seed, device)),
    "graphsage": lambda graph, pairs, seed, device: by_inner_product(graphsage(graph, pairs, seed, device)),
    "common-neighbours": lambda graph, pairs, seed, device: common_neighbours(graph),
    "adamic-adar": lambda graph, pairs, seed, device: adamic_adar(graph),
}
"""Every method that links are foretold by, by the name that a user types."""
