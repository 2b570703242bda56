"""How episodes are played, and what every engine writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.selection.episodes import Encoded, Episodes
from gdpnet.selection.policy import Policy

ENDING = -1
"""The candidate number of a decision that drew the ending neighbour."""

DIVERGED = "training diverged: scores are no longer numbers; lower the learning rates"
"""The error message if a score is NaN."""

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


class Slots(NamedTuple):
    """What an engine writes; decision t of episode e is at slot ``offsets[e] + e + t``."""

    candidate: Int[Tensor, "slots"]
    kept: Bool[Tensor, "slots"]
    score: Float[Tensor, "slots"]
    weight: Float[Tensor, "slots"]
    """The sum of e^l over all candidates that could have been drawn."""
    decisions: Int[Tensor, "episodes"]
    scores: Float[Tensor, "candidates"]
    """The score of each candidate at its decision, or at the last state if it was never drawn."""
    ending: Float[Tensor, "episodes"]
    """The score of the ending neighbour at the last state."""


def allocate_slots(episodes: Episodes, dtype: torch.dtype = torch.float32) -> Slots:
    """Allocate one slot per candidate and one per episode, for its end."""
    count, candidates, device = episodes.count, episodes.row.numel(), episodes.row.device
    slots = candidates + count
    return Slots(
        torch.full((slots,), ENDING, device=device),
        torch.zeros(slots, dtype=torch.bool, device=device),
        torch.zeros(slots, dtype=dtype, device=device),
        torch.ones(slots, dtype=dtype, device=device),
        torch.zeros(count, dtype=torch.long, device=device),
        torch.zeros(candidates, dtype=dtype, device=device),
        torch.zeros(count, dtype=dtype, device=device),
    )


def rows_at_once(device: torch.device) -> int:
    """Return how many rows of the first layer are computed at once: on a CPU few enough for its cache."""
    return 1 << 12 if device.type == "cpu" else 1 << 20


def neighbour_halves(policy: Policy, encoded: Encoded) -> Float[Tensor, "candidates first"]:
    """Return each candidate's half of the policy's first layer, computed in chunks that bound the memory."""
    if encoded.half is not None:
        return encoded.half
    half = encoded.message.new_empty(encoded.message.shape[0], policy.first_bias.numel())
    rows = rows_at_once(half.device)
    for start in range(0, half.shape[0], rows):
        part = slice(start, start + rows)
        columns = (encoded.embedded[part], encoded.probabilities[part], encoded.pairs[part])
        half[part] = policy.neighbour_half(policy.neighbour_input(*columns))
    return half
