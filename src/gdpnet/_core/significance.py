"""Significance of the difference between two classifiers on the same nodes, as in McNemar's test."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor


def gains_and_losses(mine: Float[Tensor, "nodes"], other: Float[Tensor, "nodes"]) -> tuple[int, int]:
    """Return the number of nodes on which the first does better, and on which it does worse."""
    return int((mine > other).sum()), int((other > mine).sum())


def is_ahead(gains: int, losses: int, deviations: float) -> bool:
    """Return whether gains exceed losses by ``deviations`` standard deviations of their difference under chance."""
    return gains - losses > deviations * math.sqrt(gains + losses)
