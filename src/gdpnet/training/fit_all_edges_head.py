"""Fit the all-edges head: a small network over the graph as it is.

If the policy drops edges that help, or has too few training nodes to learn from, the other heads suffer; this one
does not. It is cross-fitted with the folds of the aggregators, all fold models in one pass.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.fit import fit
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.features import drop_values
from gdpnet.representation.all_edges import AllEdgesNetwork, adjacency_of
from gdpnet.representation.tasks import may_learn
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import HeldOutNodes, quality_and_likelihood


def is_worth_all_edges(data: TrainingData, held_out: HeldOutNodes, config: Config) -> bool:
    """Return whether the head is wanted, can be evaluated, and is not too costly."""
    settings, features = config.all_edges, data.train.features
    fits = int(data.whole.linked.sum()) <= settings.max_edges and features.shape[1] <= settings.max_features
    enough = held_out.nodes.numel() >= config.ensemble.min_held_out
    return settings.use and enough and fits and isinstance(features, Tensor)


def fit_all_edges(
    data: TrainingData, held_out: HeldOutNodes, outputs: int, config: Config, key: Key
) -> tuple[AllEdgesNetwork, Float[Tensor, "held classes"]]:
    """Fit the head to the training graph; return it and its probabilities of the held-out nodes.

    The epoch of the largest likelihood of held-out nodes counts, since by that the head gets its weight.
    """
    settings, task, device = config.all_edges, data.task, data.targets.device
    adjacency, whole_adjacency = adjacency_of(data.train), adjacency_of(data.whole)
    rows, whole_rows = data.train.features, data.whole.features
    assert isinstance(rows, Tensor)
    assert isinstance(whole_rows, Tensor)
    mixed, folds = adjacency(rows), int(data.fold.max()) + 2 if data.fold.numel() else 1
    network = AllEdgesNetwork(rows.shape[1], settings.width, outputs, folds, exclusive=task.exclusive)
    network.initialise(key.fold_in("weights").generator())
    network, draws = network.to(device), key.fold_in("dropout").generator(device)
    labels, learns = data.labels[data.targets], may_learn(data.fold_model[data.targets], folds)

    def loss() -> Tensor:
        own, around = network.weight.chunk(2, dim=1)
        inputs = [drop_values(one, settings.dropout, draws) for one in (rows, mixed)]
        hidden = drop_values(network.hidden(inputs[0] @ own + inputs[1] @ around), settings.dropout, draws)
        return task.loss(network.scores(hidden, adjacency)[data.targets], labels, learns)

    def predict() -> Tensor:
        found = network.fold_probabilities_of(whole_rows @ network.weight, whole_adjacency)
        return held_out.probabilities(found[held_out.nodes])

    fit(
        network,
        network.adam(settings.learning_rate, settings.weight_decay),
        loss,
        lambda: quality_and_likelihood(task, predict(), held_out.labels)[::-1],
        steps=settings.epochs,
        evaluate_every=settings.evaluate_every,
        patience=settings.patience,
    )
    with torch.no_grad():
        return network, predict()
