"""How episodes are played, and what an engine that played them hands back."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

ENDING = -1
"""The candidate number of a decision that drew the ending neighbour."""

DIVERGED = "training diverged: scores are no longer numbers; lower the learning rates"
"""What is said where scores are no numbers."""

NEVER = 1 << 30
"""The step of a candidate that was not visited."""


@dataclass(frozen=True)
class Play:
    """How episodes are played."""

    greedy: bool = False
    learned_order: bool = True
    early_stop: bool = True

    @property
    def can_end(self) -> bool:
        """Return whether the ending neighbour is a candidate; in a random order it is not."""
        return self.early_stop and self.learned_order


@dataclass(frozen=True)
class Played:
    """What an engine did: one row a decision, sorted by episode and step; and the last scores of all."""

    episode: Int[Tensor, "decisions"]
    step: Int[Tensor, "decisions"]
    candidate: Int[Tensor, "decisions"]
    kept: Bool[Tensor, "decisions"]
    score: Float[Tensor, "decisions"]
    weight: Float[Tensor, "decisions"]
    """The sum of e^l over all that could have been drawn."""
    scores: Float[Tensor, "candidates"]
    """The score of each candidate at its decision, or at the last state if it was never drawn."""
    ending: Float[Tensor, "episodes"]
    """The score of the ending neighbour at the last state."""
