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

    Sums over 1, 2, 4, ... steps are made of those over half as many.
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
    """Return min(ratio A, clip(ratio) A), ratio = pi(a|s) / q(a|s) against the policy that acted; and its slope.

    The slope is that over ``log_prob``: none where the ratio was clipped, ratio A elsewhere.
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
    """What each part of a decision was worth above the expected."""

    order: Float[Tensor, "decisions"]
    keep: Float[Tensor, "decisions"]


def advantages(
    rollout: Rollout, reward_if_kept: Float[Tensor, "decisions"], discount: float, *, exact: bool
) -> Advantages:
    """Return the advantage of the draw and of keep-or-drop.

    Sampled: return less the mean return at that step, for both parts. Exact: both actions' rewards are known,
    so the immediate part of keep-or-drop is r(a) - E[r] over the two and that of the draw is E[r], with no
    sampling noise; the future part is the sampled return less its mean.
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
    """Bring both parts to one scale, that of keep-or-drop."""
    spread = raw.keep.square().mean().sqrt().clamp(min=1e-6) if raw.keep.numel() else torch.ones(())
    return Advantages(raw.order / spread, raw.keep / spread)


@dataclass(frozen=True)
class Scored:
    """Scores of some decisions' candidates under one policy, and the log-probabilities they give."""

    owner: Int[Tensor, "pairs"]
    score: Float[Tensor, "pairs"]
    ending: Float[Tensor, "n"]
    log_total: Float[Tensor, "n"]
    order_log_prob: Float[Tensor, "n"]
    keep_log_prob: Float[Tensor, "n"]


def joint_kl(old: Scored, new: Scored, play_learned: bool, can_end: bool) -> Float[Tensor, "n"]:
    """Return KL(old || new) of the joint action at each decision, exactly.

    KL of the draw, plus over all neighbours the chance of drawing it times KL of its keep-or-drop.
    """
    count = old.ending.numel()
    flat = torch.zeros_like(old.score)
    log_chance = (old.score if play_learned else flat) - old.log_total.index_select(0, old.owner)
    new_log_chance = (new.score if play_learned else flat) - new.log_total.index_select(0, old.owner)
    each = log_chance.exp() * (log_chance - new_log_chance + bernoulli_kl(old.score, new.score))
    divergence = sum_by_owner(each, old.owner, count)
    if can_end:
        ending, new_ending = old.ending - old.log_total, new.ending - new.log_total
        divergence = divergence + ending.exp() * (ending - new_ending)
    return divergence


def joint_entropy(scored: Scored, play_learned: bool, can_end: bool) -> Float[Tensor, "n"]:
    """Return the entropy of the draw and of the keep-or-drop that follows."""
    flat = torch.zeros_like(scored.score)
    log_chance = (scored.score if play_learned else flat) - scored.log_total.index_select(0, scored.owner)
    keep = torch.sigmoid(scored.score)
    coin = -keep * F.logsigmoid(scored.score) - (1.0 - keep) * F.logsigmoid(-scored.score)
    entropy = sum_by_owner(log_chance.exp() * (coin - log_chance), scored.owner, scored.ending.numel())
    if can_end:
        ending = scored.ending - scored.log_total
        entropy = entropy - ending.exp() * ending
    return entropy
