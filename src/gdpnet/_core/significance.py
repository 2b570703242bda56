"""Ahead by more than chance: what is right on more nodes than something else, in deviations as in McNemar's test."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor


def gains_and_losses(mine: Float[Tensor, "nodes"], other: Float[Tensor, "nodes"]) -> tuple[int, int]:
    """Return on how many nodes one does better than the other, and on how many worse."""
    return int((mine > other).sum()), int((other > mine).sum())


def is_ahead(gains: int, losses: int, deviations: float) -> bool:
    """Say whether the lead exceeds so many deviations of the nodes on which the two differ."""
    return gains - losses > deviations * math.sqrt(gains + losses)
