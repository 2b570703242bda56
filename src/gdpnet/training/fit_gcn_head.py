"""Fit the GCN head to the cleaned graph, and decide whether it joins the ensemble.

The aggregator and the hop-wise head see two hops. In a clean or cleaned graph nodes farther away help, so graph
convolutions are fitted to the graph that `denoise` returns, edges weighted by their keep probability. They join the
ensemble if it does not get worse on validation nodes. Unlike for the hop-wise head, training nodes cannot be used for
this choice: their neighbours' decisions about them come from fold models that know their labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.fit import fit
from gdpnet._core.random import Key
from gdpnet._core.significance import Lead, gains_and_losses, lead_of_counts
from gdpnet.config import Config
from gdpnet.inference.ensemble import Ensemble, HeadWeights, cleaned_adjacency
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected
from gdpnet.representation.gcn import GCN
from gdpnet.representation.sparse import table_of
from gdpnet.representation.tasks import metric_lead
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import quality_and_likelihood
from gdpnet.training.weigh_heads import mixture_weights


@dataclass(frozen=True)
class FittedGCN:
    """A fitted head, and the ensemble with it compared with the ensemble without it on validation nodes."""

    network: GCN
    gains: int
    """Validation nodes that only the ensemble with the head predicts right."""
    losses: int
    """Validation nodes that only the ensemble without the head predicts right."""
    quality_before: float
    """The task's quality without the head, micro-F1 for classes."""
    validation_f1: float
    """The same with the head."""
    weight: float = 0.5
    """The weight of the head in the ensemble."""
    by_metric: Lead | None = None
    """The lead of the ensemble with the head in a metric that is not about hits."""

    @property
    def is_accepted(self) -> bool:
        """Return whether the ensemble does not get worse with the head."""
        lead = self.by_metric or lead_of_counts(self.gains, self.losses)
        return lead.difference >= 0 and self.validation_f1 >= self.quality_before


class Convolutions(NamedTuple):
    """A fitted head that no other head was compared with."""

    network: GCN
    found: Float[Tensor, "validation classes"]
    """Its class probabilities of the validation nodes."""


def is_worth_gcn(data: TrainingData, config: Config) -> bool:
    """Return whether the head is wanted, can be evaluated on validation nodes, and is not too costly."""
    settings, features = config.gcn, data.train.features.shape[1]
    fits = int(data.whole.linked.sum()) <= settings.max_edges
    fits = fits and features * config.representation.width <= settings.max_weights
    return settings.use and data.validation.numel() >= settings.min_validation and fits


def fit_convolutions(
    data: TrainingData,
    train: Selected,
    whole: Selected,
    threshold: float,
    outputs: int,
    config: Config,
    key: Key,
) -> Convolutions:
    """Fit convolutions to the cleaned training graph; the best epoch on validation nodes counts.

    ``train`` and ``whole`` are decisions on all edges, and ``threshold`` is that of the cleaned graph.
    """
    settings, device, task = config.gcn, data.targets.device, data.task
    rows, adjacency = table_of(train.prepared.features, device), cleaned_adjacency(train, threshold)
    asked, asked_adjacency = whole.prepared.features, cleaned_adjacency(whole, threshold)
    network = GCN(
        train.prepared.features.shape[1],
        config.representation.width,
        outputs,
        layers=settings.layers,
        exclusive=task.exclusive,
    )
    network.initialise(key.fold_in("weights").generator())
    network = network.to(device)
    draws = key.fold_in("dropout").generator(device)
    labels, learns = data.labels[data.targets], torch.ones_like(data.targets, dtype=torch.bool)[:, None]

    def loss() -> Tensor:
        scores = network(rows, adjacency, settings.dropout, draws)[data.targets]
        return task.loss(scores[:, None], labels, learns)

    def predict() -> Tensor:
        return network.to_probabilities(asked, asked_adjacency)[data.validation]

    fit(
        network,
        torch.optim.Adam(
            network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        ),
        loss,
        lambda: quality_and_likelihood(task, predict(), data.validation_labels),
        steps=settings.epochs,
        patience=settings.patience,
        evaluate_every=settings.score_every,
        check_every=settings.evaluate_every,
    )
    with torch.no_grad():
        return Convolutions(network, predict())


def predict_without_gcn(
    networks: Networks,
    weights: HeadWeights,
    threshold: float,
    whole: Selected,
    data: TrainingData,
    config: Config,
) -> Float[Tensor, "validation classes"]:
    """Return the probabilities of validation nodes by the ensemble of the other heads."""
    return Ensemble(networks, weights, threshold).probabilities(whole, data.validation, config.inference.mode)


def weigh_gcn(
    fitted: Convolutions,
    before: Float[Tensor, "validation classes"],
    data: TrainingData,
    config: Config,
    weigh: bool = False,
) -> FittedGCN:
    """Compare the ensemble with the head and without it; ``before`` are the probabilities by the other heads.

    The head has the weight of the settings or, if ``weigh``, less where validation nodes say so.
    """
    task, (network, found) = data.task, fitted
    weight = _weight(before, found, data, config) if weigh else config.gcn.weight
    after = torch.lerp(before, found, weight)
    hits, hits_before = (task.score(one, data.validation_labels, "hit") for one in (after, before))
    quality_before, quality = (task.quality(one, data.validation_labels) for one in (before, after))
    lead = metric_lead(task, after, before, data.validation_labels)
    return FittedGCN(network, *gains_and_losses(hits, hits_before), quality_before, quality, weight, lead)


def _weight(
    before: Float[Tensor, "validation classes"],
    head: Float[Tensor, "validation classes"],
    data: TrainingData,
    config: Config,
) -> float:
    """Return the most likely weight of the head on validation nodes, or that of the settings if it is less.

    It is not more, since the head's best epoch was chosen on the same nodes.
    """
    likely = [data.task.score(one, data.validation_labels, "probability") for one in (before, head)]
    prior = before.new_tensor([1.0 - config.gcn.weight, config.gcn.weight])
    found = mixture_weights(torch.stack(likely, dim=1), prior, config.ensemble.prior_nodes)
    return min(config.gcn.weight, float(found[1]))
