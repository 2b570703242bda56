"""The tasks that read no label: reduced features, embeddings propagated over weighted edges, and metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from sklearn import metrics
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from gdpnet.config import Config, PropagationSettings
from gdpnet.data.edge_weight import mutual_weights
from gdpnet.data.features import Features, SparseRows, normalise, on_device, project
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.prepare import Prepared
from gdpnet.data.schema import as_read
from gdpnet.representation.propagation import Encoder, LinkPredictor, Propagation, inner_products


def fit_basis(graph: Graph, rank: int) -> Float[Tensor, "features rank"]:
    """Return the leading right singular vectors of the L2-normalised features."""
    rows = normalise(graph.features, "l2")
    table = rows.to_scipy() if isinstance(rows, SparseRows) else rows.numpy()
    _, _, directions = randomized_svd(table, min(rank, *table.shape), random_state=0)
    return torch.from_numpy(np.ascontiguousarray(directions.T, dtype=np.float32))


def reduce_features(graph: Graph, basis: Float[Tensor, "features rank"]) -> Graph:
    """Return the graph with its features projected onto a basis."""
    return replace(graph, features=project(normalise(graph.features, "l2"), basis))


@dataclass(frozen=True)
class LinkGraph:
    """A graph on a device, as the link predictor reads it."""

    features: Features
    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    link: Int[Tensor, "edges"]
    """The number of each edge's undirected link, the same for both directions."""
    ends: Int[Tensor, "2 links"]
    weight: Float[Tensor, "edges"]
    settings: PropagationSettings

    @property
    def link_weight(self) -> Float[Tensor, "links"]:
        """Return the weight of each link, once."""
        nothing = torch.zeros(self.ends.shape[1], device=self.weight.device)
        return nothing.index_copy(0, self.link, self.weight)

    def propagation(self, weight: Float[Tensor, "edges"] | None = None) -> Propagation:
        """Return the propagation over the edges, with their own weights by default."""
        weight = self.weight if weight is None else weight
        return Propagation.over(self.row_ptr, self.neighbour, weight, self.settings)


@torch.no_grad()
def embed_links(
    link_predictor: LinkPredictor, graph: Graph, weight: Float[Tensor, "edges"], config: Config
) -> Float[Tensor, "nodes width"]:
    """Return the embeddings of all nodes; ``weight`` as in `make_link_graph`."""
    link_graph = make_link_graph(as_read(graph, config), weight, config, link_predictor.weight.device)
    return link_predictor.embed(link_graph.features, link_graph.propagation())


def make_link_graph(
    graph: Graph, weight: Float[Tensor, "edges"], config: Config, device: torch.device
) -> LinkGraph:
    """Bring a graph to a device; ``weight`` is the share of each edge's own weight that is kept."""
    once = graph.neighbour < graph.target
    number = torch.cumsum(once.long(), dim=0) - 1
    link = torch.where(once, number, number[graph.reverse])
    ends = torch.stack([graph.neighbour[once], graph.target[once]])
    features = on_device(normalise(graph.features, "l2"), device)
    return LinkGraph(
        features,
        graph.row_ptr.to(device),
        graph.neighbour.to(device),
        link.to(device),
        ends.to(device),
        weight.to(device) * mutual_weights(graph).to(device),
        config.propagation,
    )


def propagation_over(
    prepared: Prepared, weight: Float[Tensor, "edges"], settings: PropagationSettings
) -> Propagation:
    """Return the propagation over the weighted edges of a prepared graph."""
    return Propagation.over(prepared.row_ptr, prepared.neighbour, prepared.weighed(weight), settings)


def propagated_features(
    prepared: Prepared,
    weight: Float[Tensor, "edges"],
    settings: PropagationSettings,
    encoder: Encoder | None = None,
) -> Float[Tensor, "nodes width"]:
    """Return features propagated over weighted edges, or an encoder's embeddings, as unit-length rows."""
    assert isinstance(prepared.features, Tensor)
    propagation = propagation_over(prepared, weight, settings)
    if encoder is not None:
        return encoder.embed(prepared.features, propagation)
    return F.normalize(propagation(prepared.features), dim=1)


def link_chances(
    embedded: Float[Tensor, "nodes width"], pairs: Int[Tensor, "2 pairs"]
) -> Float[Tensor, "pairs"]:
    """Return the probability that each pair of nodes is linked, given the embeddings of all nodes."""
    return torch.sigmoid(inner_products(embedded, pairs))


def link_scores(embedded: Float[Tensor, "nodes width"], pairs: Pairs) -> tuple[float, float]:
    """Return the ROC AUC and average precision of inner products on some pairs."""
    score = inner_products(embedded, pairs.ends.to(embedded.device)).cpu().numpy()
    linked = pairs.linked.cpu().numpy()
    return float(metrics.roc_auc_score(linked, score)), float(metrics.average_precision_score(linked, score))


def cluster_scores(truth: np.ndarray, cluster: np.ndarray) -> dict[str, Any]:
    """Return NMI, ARI, and accuracy after the best matching of clusters to classes."""
    table = metrics.cluster.contingency_matrix(truth, cluster)
    matched = table[linear_sum_assignment(-table)].sum()
    return {
        "nmi": float(metrics.normalized_mutual_info_score(truth, cluster)),
        "ari": float(metrics.adjusted_rand_score(truth, cluster)),
        "accuracy": float(matched / len(truth)),
    }
