"""Roll out the policy: draw a neighbour, keep or drop it, or stop; and record every decision.

Three engines play with the same draws: the reference on any device, Triton on NVIDIA GPUs (one program per episode),
and numba on CPUs (one compiled loop per episode).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges, running_sum_before
from gdpnet._core.device import has_numba
from gdpnet.selection.engines.numba_engine import can_use_numba, play_numba, sum_states
from gdpnet.selection.engines.reference import play_reference
from gdpnet.selection.engines.triton_engine import can_use_triton, play_triton
from gdpnet.selection.episodes import Encoded, Episodes, View
from gdpnet.selection.play import ENDING, NEVER, Play, Slots, neighbour_halves
from gdpnet.selection.policy import Policy

ENGINES = {"triton": play_triton, "numba": play_numba, "reference": play_reference}
"""The engines by name."""


@dataclass(frozen=True)
class Rollout:
    """The decisions of a batch, one row each, sorted by episode and step; and the outcome of each candidate."""

    episodes: Episodes
    encoded: Encoded
    play: Play
    episode: Int[Tensor, "decisions"]
    step: Int[Tensor, "decisions"]
    candidate: Int[Tensor, "decisions"]
    kept: Bool[Tensor, "decisions"]
    score: Float[Tensor, "decisions"]
    order_log_prob: Float[Tensor, "decisions"]
    keep_log_prob: Float[Tensor, "decisions"]
    visited_at: Int[Tensor, "candidates"]
    selected: Bool[Tensor, "candidates"]
    keep_probability: Float[Tensor, "candidates"]

    @property
    def decisions(self) -> int:
        """Return the number of decisions."""
        return self.episode.numel()

    @property
    def is_ending(self) -> Bool[Tensor, "decisions"]:
        """Return which decisions drew the ending neighbour."""
        return self.candidate == ENDING

    @cached_property
    def states(self) -> tuple[Float[Tensor, "decisions width"], Float[Tensor, "decisions"]]:
        """Return the running sum and count before each decision."""
        if (
            self.encoded.message.device.type == "cpu"
            and self.encoded.message.dtype == torch.float32
            and has_numba()
        ):
            return sum_states(decision_offsets(self), self.candidate, self.kept, self.encoded)
        drawn = self.candidate.clamp(min=0)
        added = self.encoded.message.index_select(0, drawn).mul_(self.kept[:, None])
        counted = self.kept.float()
        if self.encoded.weight is not None:
            counted = counted * self.encoded.weight.index_select(0, drawn)
        return running_sum_before(added, self.episode), running_sum_before(counted, self.episode)

    def observe(
        self, view: View
    ) -> tuple[Float[Tensor, "decisions width"], Float[Tensor, "decisions classes"]]:
        """Return the embedding and class probabilities of each decision's state, computed once per view."""
        if self._observed.get("view") is not view:
            row = self.episodes.target_row[self.episode]
            self._observed.update(view=view, found=view.observe(row, *self.states))
        return self._observed["found"]

    @cached_property
    def _observed(self) -> dict[str, Any]:
        return {}


@torch.no_grad()
def roll_out(policy: Policy, view: View, episodes: Episodes, play: Play) -> Rollout:
    """Play every episode of a batch to its end."""
    encoded = view.encode(episodes)
    engine = ENGINES[engine_of(view, episodes)]
    return _record(episodes, encoded, play, engine(policy, view, episodes, encoded, play))


@torch.no_grad()
def play_copies(
    policy: Policy, view: View, episodes: Episodes, play: Play, copies: int
) -> tuple[Float[Tensor, "candidates"], Float[Tensor, "candidates"]]:
    """Play each episode ``copies`` times; return each candidate's summed keep probabilities and times kept.

    Candidates are encoded once. The episodes' keys must leave the copy out (`begin_episodes` with ``shared_keys``).
    """
    encoded, engine = view.encode(episodes), ENGINES[engine_of(view, episodes)]
    if copies > 1:
        encoded = replace(encoded, half=neighbour_halves(policy, encoded))
    total = torch.zeros_like(encoded.message[:, 0])
    times_kept = total.new_zeros(total.numel() + 1)
    for number in range(copies):
        copy = episodes.copy(number)
        slots = engine(policy, view, copy, encoded, play)
        place, nowhere = _place_of(slots.candidate, episodes)
        visited = slots.kept.new_zeros(nowhere + 1).index_fill_(0, place, True)[:nowhere]
        total += _keep_probability(copy, slots, visited)
        times_kept.index_add_(0, place, slots.kept.to(total.dtype))
    return total, times_kept[:-1]


def _place_of(
    candidate: Int[Tensor, "decisions"], episodes: Episodes
) -> tuple[Int[Tensor, "decisions"], int]:
    """Return the place of each decision's candidate in a table of them, and the place after all for the endings.

    Taking the endings out instead would make the host wait for the device.
    """
    nowhere = episodes.row.numel()
    return torch.where(candidate == ENDING, nowhere, candidate), nowhere


def engine_of(view: View, episodes: Episodes) -> str:
    """Return the name of the fastest engine that can play these episodes."""
    if can_use_triton(view, episodes):
        return "triton"
    return "numba" if can_use_numba(view, episodes) else "reference"


def _record(episodes: Episodes, encoded: Encoded, play: Play, slots: Slots) -> Rollout:
    """Concatenate the decisions that an engine wrote; add their log-probabilities and each candidate's outcome."""
    first = episodes.offsets[:-1] + torch.arange(episodes.count, device=episodes.offsets.device)
    episode, slot = ranges(first, slots.decisions)
    candidate, kept, score, weight = (column.index_select(0, slot) for column in slots[:4])
    step = slot - first.index_select(0, episode)
    regret = score if play.learned_order else torch.zeros_like(score)
    keep_log_prob = F.logsigmoid(torch.where(kept, score, -score))
    place, nowhere = _place_of(candidate, episodes)
    visited_at = episodes.row.new_full((nowhere + 1,), NEVER).scatter_(0, place, step)[:nowhere]
    selected = kept.new_zeros(nowhere + 1).scatter_(0, place, kept)[:nowhere]
    return Rollout(
        episodes,
        encoded,
        play,
        episode=episode,
        step=step,
        candidate=candidate,
        kept=kept,
        score=score,
        order_log_prob=regret - weight.log(),
        keep_log_prob=torch.where(candidate == ENDING, 0.0, keep_log_prob),
        visited_at=visited_at,
        selected=selected,
        keep_probability=_keep_probability(episodes, slots, visited_at != NEVER),
    )


def _keep_probability(
    episodes: Episodes, slots: Slots, visited: Bool[Tensor, "candidates"]
) -> Float[Tensor, "candidates"]:
    """Return the probability that each candidate is kept.

    For a visited candidate it is the policy's keep probability at its decision. A candidate that was never visited
    would have been drawn before the ending neighbour with probability e^l / (e^l + e^l_e) at the last state; its keep
    probability there is multiplied by that.
    """
    probability = torch.sigmoid(slots.scores)
    before_ending = torch.sigmoid(slots.scores - slots.ending[episodes.owner])
    return torch.where(visited, probability, probability * before_ending)


def decision_offsets(rollout: Rollout) -> Int[Tensor, "offsets"]:
    """Return where each episode's decisions begin."""
    numbers = torch.arange(rollout.episodes.count + 1, device=rollout.episode.device)
    return torch.searchsorted(rollout.episode, numbers)
