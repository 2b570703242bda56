"""The formulas of proximal policy optimisation for the joint action: which neighbour, and keep or drop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
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
    left = torch.repeat_interleave(offsets[1:], length) - torch.arange(reward.numel(), device=reward.device)
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
    future part is the sampled return minus its mean.
    """
    reward = reward_if_kept * rollout.kept
    returns = discounted_returns(reward, decision_offsets(rollout), discount)
    if not exact:
        advantage = returns - step_baseline(returns, rollout.step)
        return _scaled(Advantages(advantage, advantage))
    future = returns - reward
    future = future - step_baseline(future, rollout.step)
    chance = rollout.keep_probability[rollout.candidate.clamp(min=0)]
    expected = torch.where(rollout.is_ending, 0.0, chance * reward_if_kept)
    keep = reward - expected + future
    order = expected - step_baseline(expected, rollout.step) + future
    return _scaled(Advantages(order, keep))


def _scaled(raw: Advantages) -> Advantages:
    """Divide both parts by the root mean square of keep-or-drop."""
    scale = raw.keep.square().mean().sqrt().clamp(min=1e-6) if raw.keep.numel() else torch.ones(())
    return Advantages(raw.order / scale, raw.keep / scale)


@dataclass(frozen=True)
class Scored:
    """Scores of some decisions' candidates under one policy, and the log-probabilities of the decisions."""

    owner: Int[Tensor, "pairs"]
    score: Float[Tensor, "pairs"]
    ending: Float[Tensor, "n"]
    log_total: Float[Tensor, "n"]
    order_log_prob: Float[Tensor, "n"]
    keep_log_prob: Float[Tensor, "n"]


def joint_kl(old: Scored, new: Scored, play_learned: bool, can_end: bool) -> Float[Tensor, "n"]:
    """Return the exact KL(old || new) of the joint action at each decision.

    This is the KL of the draw, plus the expected KL of keep-or-drop over the drawn neighbour.
    """
    log_chance, new_log_chance = _draw_log_prob(old, play_learned), _draw_log_prob(new, play_learned)
    each = log_chance.exp() * (log_chance - new_log_chance + bernoulli_kl(old.score, new.score))
    divergence = sum_by_owner(each, old.owner, old.ending.numel())
    if can_end:
        ending, new_ending = old.ending - old.log_total, new.ending - new.log_total
        divergence = divergence + ending.exp() * (ending - new_ending)
    return divergence


def joint_entropy(scored: Scored, play_learned: bool, can_end: bool) -> Float[Tensor, "n"]:
    """Return the entropy of the joint action: the draw, and the keep-or-drop that follows."""
    log_chance = _draw_log_prob(scored, play_learned)
    keep = torch.sigmoid(scored.score)
    keep_entropy = -keep * F.logsigmoid(scored.score) - (1.0 - keep) * F.logsigmoid(-scored.score)
    entropy = sum_by_owner(
        log_chance.exp() * (keep_entropy - log_chance), scored.owner, scored.ending.numel()
    )
    if can_end:
        ending = scored.ending - scored.log_total
        entropy = entropy - ending.exp() * ending
    return entropy


def _draw_log_prob(scored: Scored, play_learned: bool) -> Float[Tensor, "pairs"]:
    """Return the log-probability of drawing each candidate."""
    score = scored.score if play_learned else torch.zeros_like(scored.score)
    return score - scored.log_total.index_select(0, scored.owner)
