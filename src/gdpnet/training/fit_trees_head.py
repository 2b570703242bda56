"""Fit the trees head: boosted trees on a node's own features, as they are before rows are normalised.

Steps and interactions in a few columns are what trees find with little data, and networks do not. Each fold model is
fitted without the labels of its fold; the first learns from all training nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.ensemble import own_columns
from gdpnet.representation.tasks import Classification, MultiLabel, Task, reward_weight
from gdpnet.representation.trees import BoostedTrees, Models, trees_of
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import HeldOutNodes


def is_worth_trees(data: TrainingData, held_out: HeldOutNodes, outputs: int, config: Config) -> bool:
    """Return whether the head is wanted for this task, can be evaluated, and is not too costly."""
    settings, own = config.trees, data.whole.own
    fits = isinstance(own, Tensor) and own.shape[1] <= settings.max_features
    fits = fits and outputs <= settings.max_classes
    enough = held_out.nodes.numel() >= config.ensemble.min_held_out
    return settings.use and isinstance(data.task, Classification | MultiLabel) and enough and fits


def fit_trees(
    data: TrainingData, held_out: HeldOutNodes, outputs: int, config: Config, key: Key
) -> tuple[BoostedTrees, Float[Tensor, "held classes"]]:
    """Fit the head to the training nodes; return it and its probabilities of the held-out nodes."""
    rows = own_columns(data.train, data.targets).cpu().numpy()
    truth, left_out = data.labels[data.targets], data.fold_model[data.targets].cpu().numpy()
    weight = reward_weight(data.task, truth).expand(len(rows)).cpu().numpy()
    fold_models = int(data.fold.max()) + 2 if data.fold.numel() else 1
    label, fitted = truth.cpu().numpy(), []
    for fold_model in range(fold_models):
        used = (left_out != fold_model) | (fold_model == 0)
        fitted.append(_fit_fold(rows[used], label[used], weight[used], data.task, config, key))
    trees = BoostedTrees(trees_of(fitted, outputs), exclusive=data.task.exclusive).to(data.targets.device)
    found = trees.fold_probabilities(own_columns(data.whole, held_out.nodes))
    return trees, held_out.probabilities(found)


def _fit_fold(
    rows: Float[np.ndarray, "nodes features"],
    label: Shaped[np.ndarray, "nodes *any"],
    weight: Float[np.ndarray, "nodes"],
    task: Task,
    config: Config,
    key: Key,
) -> Models:
    """Fit one classifier over all classes, or one per label if a node may have several."""

    def fit(truth: Shaped[np.ndarray, "nodes"]) -> Any:
        model = HistGradientBoostingClassifier(
            max_iter=config.trees.iterations,
            learning_rate=config.trees.learning_rate,
            early_stopping=False,
            random_state=key.seed32,
        )
        return model.fit(rows, truth, sample_weight=weight)

    if task.exclusive:
        known = np.unique(label)
        return [(fit(label) if known.size > 1 else None, known)]
    several = [number for number in range(label.shape[1]) if np.unique(label[:, number]).size > 1]
    always = np.flatnonzero((label == 1).all(axis=0))
    return [*((fit(label[:, number]), np.array([number])) for number in several), (None, always)]
