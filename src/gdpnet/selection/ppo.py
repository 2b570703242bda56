"""The formulas of proximal policy optimisation for the joint action: which neighbour, and keep or drop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet.selection.play import Play
from gdpnet.selection.rollout import Rollout, decision_offsets


def discounted_returns(
    reward: Float[Tensor, "decisions"],
    offsets: Int[Tensor, "offsets"],
    discount: float,
) -> Float[Tensor, "decisions"]:
    """Return Q_t = sum over i >= t of discount^(i-t) r_i within each episode.

    Sums over 2, 4, 8, ... steps are built from those over half as many.
    """
    returns, length = reward, offsets.diff()
    ends = torch.repeat_interleave(offsets[1:], length, output_size=reward.numel())
    left = ends - torch.arange(reward.numel(), device=reward.device)
    longest, reach = int(length.max()) if length.numel() else 0, 1
    while reach < longest:
        later = F.pad(returns[reach:], (0, reach))
        returns = returns + discount**reach * torch.where(left > reach, later, 0.0)
        reach *= 2
    return returns


def step_baseline(
    value: Float[Tensor, "decisions"], step: Int[Tensor, "decisions"]
) -> Float[Tensor, "decisions"]:
    """Return the mean value over all episodes at the same step."""
    if value.numel() == 0:
        return value
    steps = int(step.max()) + 1
    count = torch.bincount(step, minlength=steps).clamp(min=1)
    return (sum_by_owner(value, step, steps) / count)[step]


def clipped_surrogate(
    log_prob: Float[Tensor, "decisions"],
    old_log_prob: Float[Tensor, "decisions"],
    advantage: Float[Tensor, "decisions"],
    clip: float,
) -> tuple[Float[Tensor, "decisions"], Float[Tensor, "decisions"]]:
    """Return min(ratio A, clip(ratio) A), ratio = pi(a|s) / q(a|s) with q the policy that acted; and its slope.

    The slope is the derivative by ``log_prob``: zero where the ratio was clipped, ratio A elsewhere.
    """
    ratio = (log_prob - old_log_prob).exp()
    plain = ratio * advantage
    value = torch.minimum(plain, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)
    return value, plain * (value >= plain)


def bernoulli_kl(old_logit: Float[Tensor, "n"], logit: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """Return KL(old || new) of two keep-or-drop choices."""
    keep = torch.sigmoid(old_logit)
    return keep * (F.logsigmoid(old_logit) - F.logsigmoid(logit)) + (1.0 - keep) * (
        F.logsigmoid(-old_logit) - F.logsigmoid(-logit)
    )


@dataclass(frozen=True)
class Advantages:
    """The advantage of each part of a decision: the draw, and keep-or-drop."""

    order: Float[Tensor, "decisions"]
    keep: Float[Tensor, "decisions"]


def advantages(
    rollout: Rollout, reward_if_kept: Float[Tensor, "decisions"], discount: float, *, exact: bool
) -> Advantages:
    """Return the advantage of the draw and of keep-or-drop.

    Sampled: the return minus the mean return at that step, for both parts. Exact: since the rewards of both actions
    are known, the immediate part is r(a) - E[r] for keep-or-drop and E[r] for the draw, without sampling noise; the
    future part is the sampled return minus its mean. Both are divided by the root mean square of keep-or-drop.
    """
    reward = reward_if_kept * rollout.kept
    returns = discounted_returns(reward, decision_offsets(rollout), discount)
    future = returns - reward if exact else returns
    order = keep = future - step_baseline(future, rollout.step)
    if exact:
        chance = rollout.keep_probability[rollout.candidate.clamp(min=0)]
        expected = torch.where(rollout.is_ending, 0.0, chance * reward_if_kept)
        keep = reward - expected + keep
        order = expected - step_baseline(expected, rollout.step) + order
    scale = keep.square().mean().sqrt().clamp(min=1e-6)
    return Advantages(order / scale, keep / scale)


@dataclass(frozen=True)
class Scored:
    """Scores of some decisions' candidates under one policy, and the log-probabilities of the decisions."""

    play: Play
    owner: Int[Tensor, "pairs"]
    score: Float[Tensor, "pairs"]
    ending: Float[Tensor, "n"]
    log_total: Float[Tensor, "n"]
    order_log_prob: Float[Tensor, "n"]
    keep_log_prob: Float[Tensor, "n"]

    @cached_property
    def draw(self) -> Float[Tensor, "pairs"]:
        """Return the log-probability of drawing each candidate."""
        score = self.score if self.play.learned_order else torch.zeros_like(self.score)
        return score - self.log_total.index_select(0, self.owner)

    @cached_property
    def end(self) -> Float[Tensor, "n"]:
        """Return the log-probability of drawing the ending neighbour, where it is a candidate."""
        return self.ending - self.log_total


def joint_kl(old: Scored, new: Scored) -> Float[Tensor, "n"]:
    """Return the exact KL(old || new) of the joint action at each decision.

    This is the KL of the draw, plus the expected KL of keep-or-drop over the drawn neighbour.
    """
    return _expected(old, old.draw - new.draw + bernoulli_kl(old.score, new.score), old.end - new.end)


def joint_entropy(scored: Scored) -> Float[Tensor, "n"]:
    """Return the entropy of the joint action: the draw, and the keep-or-drop that follows."""
    draw, keep = scored.draw, torch.sigmoid(scored.score)
    keep_entropy = -keep * F.logsigmoid(scored.score) - (1.0 - keep) * F.logsigmoid(-scored.score)
    return _expected(scored, keep_entropy - draw, -scored.end)


def _expected(
    scored: Scored, of_draw: Float[Tensor, "pairs"], of_end: Float[Tensor, "n"]
) -> Float[Tensor, "n"]:
    """Return the expectation over the draw of what each candidate, and the ending neighbour, would give."""
    total = sum_by_owner(scored.draw.exp() * of_draw, scored.owner, scored.ending.numel())
    return total + scored.end.exp() * of_end if scored.play.can_end else total
