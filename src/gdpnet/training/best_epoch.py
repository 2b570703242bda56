"""Choose the best epoch, and decide when to stop training.

The score of an epoch is its validation F1 plus the weighted injected-edge AUC. There are few validation
nodes: among epochs with equal F1 some clean the graph far better than others, and injected edges show which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gdpnet.config import Config

History = Sequence[Mapping[str, Any]]
"""Metrics of the epochs so far, as plain values."""


def settled(config: Config) -> int:
    """Return the last epoch that cannot be the best, since the policy is not yet trained enough."""
    waiting = min(config.training.settle, config.training.epochs - 1) if config.training.selection else 0
    return config.training.warmup + waiting


def is_best(history: History, config: Config) -> bool:
    """Return whether the last epoch has a higher score than all eligible epochs before it."""
    *before, last = _worths(history, config)
    return all(last > other for other in before)


def is_over(history: History, best_epoch: int, config: Config) -> bool:
    """Return whether neither validation F1 nor the score has improved for the configured patience."""
    start = settled(config)
    scores = [one["validation_f1"] for one in history[start:]]
    risen = max(_last_rise(scores), _last_rise(_worths(history, config)), best_epoch - start)
    return len(history) - start - risen >= config.training.patience


def _worths(history: History, config: Config) -> list[float]:
    """Return the score of each eligible epoch."""
    weight = config.training.injected_weight
    return [
        one["validation_f1"] + weight * (one.get("injected_auc") or 0.0) for one in history[settled(config) :]
    ]


def _last_rise(values: Sequence[float]) -> int:
    """Return the position, from one, of the last value greater than all before it; zero if there is none."""
    highest, place = -math.inf, 0
    for number, value in enumerate(values, start=1):
        if value > highest:
            highest, place = value, number
    return place
