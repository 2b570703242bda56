"""Fit the linear head: softmax regression on a node's own features, as they are before rows are normalised.

Where links say nothing and there are few nodes, nothing is better than a linear model.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.config import Config
from gdpnet.inference.ensemble import own_columns
from gdpnet.representation.linear import LinearModels
from gdpnet.representation.tasks import may_learn
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import HeldOutNodes


def is_worth_linear(data: TrainingData, held_out: HeldOutNodes, config: Config) -> bool:
    """Return whether the head is wanted, can be evaluated, and is not too costly."""
    own, settings = data.whole.own, config.linear
    fits = isinstance(own, Tensor) and own.shape[1] <= settings.max_features
    return settings.use and fits and held_out.nodes.numel() >= config.ensemble.min_held_out


def fit_linear(
    data: TrainingData, held_out: HeldOutNodes, outputs: int, config: Config
) -> tuple[LinearModels, Float[Tensor, "held classes"]]:
    """Fit the head to the training nodes; return it and its probabilities of the held-out nodes."""
    rows, settings = own_columns(data.train, data.targets), config.linear
    fold_models = int(data.fold.max()) + 2 if data.fold.numel() else 1
    learns = may_learn(data.fold_model[data.targets], fold_models)
    models = LinearModels(rows.shape[1], outputs, fold_models, exclusive=data.task.exclusive).to(rows.device)
    models.fit(rows, data.labels[data.targets], learns, data.task, settings.penalty, settings.steps)
    with torch.no_grad():
        found = models.fold_probabilities(own_columns(data.whole, held_out.nodes))
    return models, held_out.probabilities(found)
