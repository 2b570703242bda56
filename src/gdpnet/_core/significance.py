"""Significance of the difference between two predictions of the same nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

RESAMPLES = 200
_AT_ONCE = 1 << 22

Measure = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""A score by predictions, truth and weights of the nodes, one row of weights per resample."""


class Lead(NamedTuple):
    """How far one prediction is ahead of another on the same nodes, and the standard deviation of that."""

    difference: float
    deviation: float

    def exceeds(self, deviations: float) -> bool:
        """Return whether the difference is larger than so many standard deviations."""
        return self.difference > deviations * self.deviation


def gains_and_losses(mine: Float[Tensor, "nodes"], other: Float[Tensor, "nodes"]) -> tuple[int, int]:
    """Return the number of nodes on which the first does better, and on which it does worse."""
    return int((mine > other).sum()), int((other > mine).sum())


def lead_of_counts(gains: int, losses: int) -> Lead:
    """Return gains minus losses, with its standard deviation under chance, as in McNemar's test."""
    return Lead(gains - losses, math.sqrt(gains + losses))


def lead_of_errors(mine: Float[Tensor, "nodes"], other: Float[Tensor, "nodes"]) -> Lead:
    """Return the mean by which errors of the first are smaller, with its standard error, as in a paired test."""
    gain = (other - mine).double()
    spread = float(gain.std()) if gain.numel() > 1 else math.inf
    return Lead(float(gain.mean()), spread / math.sqrt(max(gain.numel(), 1)))


def lead_of_measure(
    measure: Measure,
    mine: Shaped[np.ndarray, "nodes *any"],
    other: Shaped[np.ndarray, "nodes *any"],
    truth: Shaped[np.ndarray, "nodes"],
    resamples: int = RESAMPLES,
) -> Lead:
    """Return the difference of a score, with its standard deviation over paired bootstrap resamples of the nodes."""
    nodes, rng, drawn = len(truth), np.random.default_rng(0), []
    size = max(1, _AT_ONCE // max(1, nodes))
    for first in range(0, resamples, size):
        chance, count = np.full(nodes, 1.0 / nodes), min(size, resamples - first)
        weights = rng.multinomial(nodes, chance, count).astype(np.float64)
        drawn.append(measure(mine, truth, weights) - measure(other, truth, weights))
    ones = np.ones((1, nodes))
    difference = float(measure(mine, truth, ones)[0] - measure(other, truth, ones)[0])
    return Lead(difference, float(np.nanstd(np.concatenate(drawn))))
