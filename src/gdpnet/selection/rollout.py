"""Play the policy: draw a neighbour, keep or drop it, maybe stop; and record what happened.

Three engines play, with the same draws: `stepwise`, the reference, on any device; `fused`, one Triton program an
episode, on NVIDIA GPUs; and `compiled`, one compiled loop an episode, on CPUs where numba is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, running_sum_before
from gdpnet.selection.engines.numba_engine import can_compile, play_compiled
from gdpnet.selection.engines.reference import play_stepwise
from gdpnet.selection.engines.triton_engine import can_fuse, play_fused
from gdpnet.selection.episodes import Episodes, Met, View
from gdpnet.selection.play import ENDING, NEVER, Play, Played
from gdpnet.selection.policy import Policy

__all__ = ["ENDING", "NEVER", "Play", "Rollout", "decision_offsets", "engine_of", "roll_out"]

ENGINES = {"fused": play_fused, "compiled": play_compiled, "stepwise": play_stepwise}
"""What plays a batch to its end, by name."""


@dataclass(frozen=True)
class Rollout:
    """What happened: one row a decision, sorted by episode and step; and what became of each candidate."""

    episodes: Episodes
    met: Met
    play: Play
    episode: Int[Tensor, "decisions"]
    step: Int[Tensor, "decisions"]
    candidate: Int[Tensor, "decisions"]
    kept: Bool[Tensor, "decisions"]
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
        """Say which decisions drew the ending neighbour."""
        return self.candidate == ENDING

    @cached_property
    def states(self) -> tuple[Float[Tensor, "decisions width"], Float[Tensor, "decisions"]]:
        """Return the running sum and count that each decision met."""
        drawn = self.candidate.clamp(min=0)
        added, counted = self.met.given.index_select(0, drawn).mul_(self.kept[:, None]), self.kept.float()
        if self.met.weight is not None:
            counted = counted * self.met.weight.index_select(0, drawn)
        return running_sum_before(added, self.episode), running_sum_before(counted, self.episode)


@torch.no_grad()
def roll_out(policy: Policy, view: View, episodes: Episodes, play: Play) -> Rollout:
    """Play every episode of a batch to its end."""
    met = view.meet(episodes)
    engine = ENGINES[engine_of(view, episodes)]
    return _record(episodes, met, play, engine(policy, view, episodes, met, play))


def engine_of(view: View, episodes: Episodes) -> str:
    """Name the engine that plays these episodes: the fastest that can."""
    if can_fuse(view, episodes):
        return "fused"
    return "compiled" if can_compile(view, episodes) else "stepwise"


def _record(episodes: Episodes, met: Met, play: Play, played: Played) -> Rollout:
    """Say what became of each candidate, and how likely every decision was."""
    candidate, kept, score = played.candidate, played.kept, played.score
    regret = score if play.learned_order else torch.zeros_like(score)
    keep_log_prob = F.logsigmoid(torch.where(kept, score, -score))
    drawn = (candidate != ENDING).nonzero().flatten()
    visited_at = torch.full_like(episodes.row, NEVER).scatter_(0, candidate[drawn], played.step[drawn])
    selected = torch.zeros_like(visited_at, dtype=torch.bool).scatter_(0, candidate[drawn], kept[drawn])
    return Rollout(
        episodes,
        met,
        play,
        episode=played.episode,
        step=played.step,
        candidate=candidate,
        kept=kept,
        order_log_prob=regret - played.weight.log(),
        keep_log_prob=torch.where(candidate == ENDING, 0.0, keep_log_prob),
        visited_at=visited_at,
        selected=selected,
        keep_probability=_keep_probability(episodes, played, visited_at),
    )


def _keep_probability(
    episodes: Episodes, played: Played, visited_at: Int[Tensor, "candidates"]
) -> Float[Tensor, "candidates"]:
    """Return the chance that each candidate is kept.

    A visited candidate has the policy's own probability at its decision. One that was never visited would have
    been drawn before the ending neighbour with chance e^l / (e^l + e^l_e) at the last state, so it has that
    times its keep probability there.
    """
    probability = torch.sigmoid(played.scores)
    never = (visited_at == NEVER).nonzero().flatten()
    if never.numel():
        ending = played.ending[episodes.owner[never]]
        probability[never] *= torch.sigmoid(played.scores[never] - ending)
    return probability


def decision_offsets(rollout: Rollout) -> Int[Tensor, "offsets"]:
    """Return where each episode's decisions begin."""
    return offsets_of(torch.bincount(rollout.episode, minlength=rollout.episodes.count))
