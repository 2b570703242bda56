"""Which epoch is the best, and when training has seen it.

An epoch is worth its F1 on validation nodes and, by a weight, how well its policy tells self-injected links from the
graph's own. Validation nodes alone are few: of many epochs that are level on them, some clean the graph far better
than others, and links whose truth is known tell which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gdpnet.config import Config

History = Sequence[Mapping[str, Any]]
"""What every epoch so far did, as plain values."""


def settled(config: Config) -> int:
    """Return the last epoch that cannot be the best: the policy needs some before it is worth a look."""
    waiting = min(config.training.settle, config.training.epochs - 1) if config.training.selection else 0
    return config.training.warmup + waiting


def is_best(history: History, config: Config) -> bool:
    """Say whether the last epoch is worth more than all before it that count."""
    *before, last = _worths(history, config)
    return all(last > other for other in before)


def is_over(history: History, best_epoch: int, config: Config) -> bool:
    """Say whether neither validation F1 nor the worth of an epoch has risen for the configured patience."""
    start = settled(config)
    scores = [one["validation_f1"] for one in history[start:]]
    risen = max(_last_rise(scores), _last_rise(_worths(history, config)), best_epoch - start)
    return len(history) - start - risen >= config.training.patience


def _worths(history: History, config: Config) -> list[float]:
    """Return what each epoch that counts is worth."""
    weight = config.training.injected_weight
    return [one["validation_f1"] + weight * (one.get("told") or 0.0) for one in history[settled(config) :]]


def _last_rise(values: Sequence[float]) -> int:
    """Return the place, from one, of the last value that is greater than all before it; zero if there is none."""
    highest, place = -math.inf, 0
    for number, value in enumerate(values, start=1):
        if value > highest:
            highest, place = value, number
    return place
