"""Fit the link predictor: embeddings whose inner products score pairs of nodes.

Each step hides a share of the edges and learns to tell them from random pairs; an edge counts by its keep
probability. A predictor that weights all edges alike is the other candidate. Validation pairs choose between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.fit import fit
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.inference.unsupervised import LinkGraph, link_scores, make_link_graph
from gdpnet.representation.propagation import LinkPredictor, inner_products


@dataclass(frozen=True)
class FittedLinkPredictor:
    """A fitted predictor, whether it weights edges by their keep probability, and its score on validation pairs."""

    network: LinkPredictor
    selects: bool
    score: float
    """The mean of ROC AUC and average precision."""


def fit_link_predictor(
    graph: Graph,
    probability: Float[Tensor, "edges"] | None,
    pairs: Pairs,
    config: Config,
    key: Key,
    device: torch.device,
) -> FittedLinkPredictor:
    """Fit a predictor to the kept edges and one to all edges; return the better on validation pairs.

    Args:
        graph: the training edges, with features as they came.
        probability: the keep probability of each edge, equal in both directions; None without a policy.
        pairs: the validation pairs.
        config: all settings.
        key: the stream of all random draws.
        device: where to compute.
    """
    candidates = [(False, torch.ones(graph.num_edges))]
    if probability is not None:
        candidates.append((True, probability))
    found = [
        _fit(make_link_graph(graph, weight.to(device), config, device), pairs, config, key, selects=selects)
        for selects, weight in candidates
    ]
    return max(found, key=lambda one: one.score)


def _fit(
    link_graph: LinkGraph, pairs: Pairs, config: Config, key: Key, *, selects: bool
) -> FittedLinkPredictor:
    settings, device = config.links, link_graph.weight.device
    network = LinkPredictor(link_graph.features.shape[1], settings.width, settings.length)
    network.initialise(key.fold_in("weights").generator())
    network = network.to(device)
    draws, whole = key.fold_in("hidden").generator(device), link_graph.propagation()

    def evaluate() -> tuple[float]:
        return (sum(link_scores(network.embed(link_graph.features, whole), pairs)) / 2,)

    found = fit(
        network,
        torch.optim.Adam(network.parameters(), lr=settings.learning_rate),
        lambda: _loss(network, link_graph, settings.hidden, draws),
        evaluate,
        steps=settings.steps,
        evaluate_every=settings.evaluate_every,
    )
    return FittedLinkPredictor(network, selects, found.score[0])


def _loss(
    network: LinkPredictor, link_graph: LinkGraph, share: float, draws: torch.Generator
) -> Float[Tensor, ""]:
    """Hide a share of the edges; return the weighted logistic loss of telling them from random pairs."""
    edges, device = link_graph.ends.shape[1], link_graph.weight.device
    hidden = torch.rand(edges, generator=draws, device=device) < share
    visible = link_graph.propagation(link_graph.weight * ~hidden[link_graph.link])
    embedded = network.embed(link_graph.features, visible)
    asked, weight = link_graph.ends[:, hidden], link_graph.link_weight[hidden]
    nodes = link_graph.row_ptr.numel() - 1
    others = torch.randint(0, nodes, asked.shape, generator=draws, device=device)
    positives = F.softplus(-inner_products(embedded, asked)) * weight
    negatives = F.softplus(inner_products(embedded, others))
    return positives.sum() / weight.sum().clamp(min=1e-6) + negatives.mean()
