"""Baselines of link prediction: graph autoencoders, GraphSAGE, and counts of common neighbours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor, nn
from torch_geometric.nn import GAE, GCN, VGAE, GCNConv, SimpleConv
from torch_geometric.utils import negative_sampling

from gdpnet._core.fit import fit
from gdpnet.benchmark.baselines.fitting import seeded
from gdpnet.benchmark.baselines.propagation import adjacency
from gdpnet.data.features import normalise, to_dense
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs, links_of
from gdpnet.inference.unsupervised import link_scores
from gdpnet.representation.propagation import inner_products

EPOCHS = 200
LEARNING_RATE = 0.01
WIDTH, HIDDEN = 16, 32
"""Widths of Kipf and Welling (2016)."""

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


def by_inner_product(embedded: Float[Tensor, "nodes width"]) -> LinkScorer:
    """Score pairs by the inner product of their representations."""
    return partial(inner_products, embedded)


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


def unit_rows(graph: Graph) -> Float[Tensor, "nodes features"]:
    """Return dense feature rows of unit length, as the layers of torch_geometric read them."""
    return to_dense(normalise(graph.features, "l2"))


def _by_autoencoder(name: str) -> Callable[[Graph, Pairs, int, torch.device], LinkScorer]:
    return lambda graph, pairs, seed, device: by_inner_product(autoencoder(name, graph, pairs, seed, device))


LINK_PREDICTORS: dict[str, Callable[[Graph, Pairs, int, torch.device], LinkScorer]] = {
    **{name: _by_autoencoder(name) for name in _ENCODERS},
    "common-neighbours": lambda graph, *_: by_common(graph, np.ones(graph.num_nodes)),
    # each common neighbour counts 1 / log of its degree
    "adamic-adar": lambda graph, *_: by_common(graph, 1.0 / np.log(np.maximum(graph.degree.numpy(), 2))),
}
"""Every link predictor by name."""
