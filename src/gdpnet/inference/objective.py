"""The task of a model by its settings: which metric chooses, and which bins numbers fall into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdpnet._core.significance import Measure
from gdpnet.config import Config
from gdpnet.inference.classification_metrics import MEASURES
from gdpnet.representation.regression import from_names
from gdpnet.representation.tasks import CLASSIFICATION, Classification, MultiLabel, Task


def classification_by(metric: str, class_weights: tuple[float, ...] | None = None) -> Classification:
    """Return the task of one class per node whose epochs, heads and threshold are chosen by a metric."""
    measure = None if metric == "micro_f1" else MEASURES[metric]
    measure = _negative(measure) if measure is not None and metric == "log_loss" else measure
    return Classification(class_weights=class_weights, metric=metric, measure=measure)


def _negative(measure: Measure) -> Measure:
    def negated(*arguments: np.ndarray) -> np.ndarray:
        return -measure(*arguments)

    return negated


def saved_task(config: Config, classes: Sequence[str]) -> Task:
    """Return the task of a model file; the bins of a regression are saved by their centres as classes."""
    if config.task.kind == "multi-label":
        return MultiLabel(tuple(classes))
    if config.task.kind == "regression":
        return from_names(classes)
    if config.task.kind == "classification" and config.training.metric != "micro_f1":
        return classification_by(config.training.metric)
    return CLASSIFICATION
