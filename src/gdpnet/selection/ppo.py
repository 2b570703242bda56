"""Proximal policy optimisation of the joint action: formulas first, then the one update that calls them.

The KL limit is enforced, not only encouraged: after every pass the exact mean KL over all visited states is
measured, and an update beyond the limit is drawn back, by halves, towards the last policy within it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.config import PPOSettings
from gdpnet.ragged import offsets_of, ranges, sum_by_owner
from gdpnet.selection.episodes import View
from gdpnet.selection.policy import Policy, agreement
from gdpnet.selection.rollout import Rollout, decision_offsets

_PAIRS_AT_ONCE = 1 << 18


def discounted_returns(
    reward: Float[Tensor, "decisions"],
    offsets: Int[Tensor, "offsets"],
    discount: float,
) -> Float[Tensor, "decisions"]:
    """Return Q_t = sum over i >= t of discount^(i-t) r_i within each episode."""
    returns = reward.clone()
    length = offsets.diff()
    for step in reversed(range(int(length.max()) - 1 if length.numel() else 0)):
        here = offsets[:-1][length > step + 1] + step
        returns[here] += discount * returns[here + 1]
    return returns


def step_baseline(value: Float[Tensor, "decisions"], step: Int[Tensor, "decisions"]) -> Float[Tensor, "decisions"]:
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
) -> Float[Tensor, "decisions"]:
    """Return min(ratio A, clip(ratio) A), ratio = pi(a|s) / q(a|s) against the policy that acted."""
    ratio = (log_prob - old_log_prob).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


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
class Visited:
    """The states of a roll-out and the candidates that each decision chose among, in pairs."""

    rollout: Rollout
    view: View
    embedded: Float[Tensor, "decisions width"]
    beliefs: Float[Tensor, "decisions classes"]
    counts: Float[Tensor, "decisions"]
    candidate: Int[Tensor, "pairs"]
    offsets: Int[Tensor, "offsets"]

    @property
    def sizes(self) -> Int[Tensor, "decisions"]:
        """Return the number of candidates of each decision."""
        return self.offsets.diff()


def visited_states(rollout: Rollout, view: View) -> Visited:
    """Recompute what the policy saw at every decision of a roll-out."""
    sums, counts = rollout.states(view)
    embedded, beliefs = view.observe(rollout.episodes.target_row[rollout.episode], sums, counts)
    start, length = rollout.episodes.offsets[:-1], rollout.episodes.length
    decision, candidate = ranges(start[rollout.episode], length[rollout.episode])
    open_ = rollout.visited_at[candidate] >= rollout.step[decision]
    size = torch.bincount(decision[open_], minlength=rollout.decisions)
    return Visited(rollout, view, embedded, beliefs, counts, candidate[open_], offsets_of(size))


@dataclass(frozen=True)
class Scored:
    """Scores of some decisions' candidates under one policy, and the log-probabilities they give."""

    owner: Int[Tensor, "pairs"]
    score: Float[Tensor, "pairs"]
    ending: Float[Tensor, "n"]
    log_total: Float[Tensor, "n"]
    order_log_prob: Float[Tensor, "n"]
    keep_log_prob: Float[Tensor, "n"]

    def detach(self) -> Scored:
        """Return the same numbers without their history."""
        return Scored(*(part.detach() for part in vars(self).values()))


def score_decisions(policy: Policy, visited: Visited, chosen: Int[Tensor, "n"]) -> Scored:
    """Score all candidates of some decisions and read off the log-probability of what was done."""
    rollout, view = visited.rollout, visited.view
    owner, pair = ranges(visited.offsets[chosen], visited.sizes[chosen])
    candidate = visited.candidate[pair]
    used, place = torch.unique(candidate, return_inverse=True)
    row = rollout.episodes.row[used]
    neighbour_half = policy.neighbour_half(view.embedded[row], view.beliefs[row])
    if view.pairs.shape[1]:
        neighbour_half = neighbour_half + policy.pair_half(view.pairs[rollout.episodes.edge[used]])
    half = policy.target_half(visited.embedded[chosen], visited.beliefs[chosen], visited.counts[chosen])
    first = neighbour_half[place] + half[owner]
    if policy.extras:
        agree = agreement(visited.beliefs[chosen][owner], view.beliefs[rollout.episodes.row[candidate]])
        first = torch.addr(first, agree, policy.agreement_weight)
    score = policy.score(first)
    ending = policy.score(half + policy.ending_half())
    return _log_probs(rollout, chosen, owner, candidate, score, ending)


def _log_probs(
    rollout: Rollout, chosen: Tensor, owner: Tensor, candidate: Tensor, score: Tensor, ending: Tensor
) -> Scored:
    regret = score if rollout.play.learned_order else torch.zeros_like(score)
    total = sum_by_owner(regret.exp(), owner, chosen.numel())
    if rollout.play.can_end:
        total = total + ending.exp()
    log_total = total.log()
    is_ending = rollout.is_ending[chosen]
    taken = sum_by_owner(score * (candidate == rollout.candidate[chosen][owner]), owner, chosen.numel())
    regret_taken = taken if rollout.play.learned_order else torch.zeros_like(taken)
    order_log_prob = torch.where(is_ending, ending, regret_taken) - log_total
    signed = torch.where(rollout.kept[chosen], taken, -taken)
    keep_log_prob = torch.where(is_ending, 0.0, F.logsigmoid(signed))
    return Scored(owner, score, ending, log_total, order_log_prob, keep_log_prob)


def joint_kl(old: Scored, new: Scored, play_learned: bool, can_end: bool) -> Float[Tensor, "n"]:
    """Return KL(old || new) of the joint action at each decision, exactly.

    KL of the draw, plus over all neighbours the chance of drawing it times KL of its keep-or-drop.
    """
    count = old.ending.numel()
    flat = torch.zeros_like(old.score)
    log_chance = (old.score if play_learned else flat) - old.log_total[old.owner]
    new_log_chance = (new.score if play_learned else flat) - new.log_total[old.owner]
    each = log_chance.exp() * (log_chance - new_log_chance + bernoulli_kl(old.score, new.score))
    divergence = sum_by_owner(each, old.owner, count)
    if can_end:
        ending, new_ending = old.ending - old.log_total, new.ending - new.log_total
        divergence = divergence + ending.exp() * (ending - new_ending)
    return divergence


def joint_entropy(scored: Scored, play_learned: bool) -> Float[Tensor, "n"]:
    """Return the entropy of the draw and of the keep-or-drop that follows."""
    flat = torch.zeros_like(scored.score)
    log_chance = (scored.score if play_learned else flat) - scored.log_total[scored.owner]
    keep = torch.sigmoid(scored.score)
    coin = -keep * F.logsigmoid(scored.score) - (1.0 - keep) * F.logsigmoid(-scored.score)
    return sum_by_owner(log_chance.exp() * (coin - log_chance), scored.owner, scored.ending.numel())


@dataclass(frozen=True)
class Update:
    """What one update did."""

    loss: float
    kl: float
    passes: int
    backtracks: int


def update_policy(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    rollout: Rollout,
    view: View,
    reward_if_kept: Float[Tensor, "decisions"],
    settings: PPOSettings,
    generator: torch.Generator,
) -> Update:
    """Improve the policy on one roll-out, never further from the policy that acted than the KL limit."""
    if rollout.decisions == 0:
        return Update(0.0, 0.0, 0, 0)
    with torch.no_grad():
        visited = visited_states(rollout, view)
        worth = advantages(rollout, reward_if_kept, settings.discount, exact=settings.advantage == "exact")
        batches = _decision_batches(visited, visited.rollout.episodes.count, None)
        old = [score_decisions(policy, visited, batch).detach() for batch in batches]
    losses: list[float] = []
    divergence, backtracks = 0.0, 0
    for number in range(settings.passes):
        accepted = [weight.detach().clone() for weight in policy.parameters()]
        accepted_kl = divergence
        order = torch.randperm(rollout.episodes.count, generator=generator).to(rollout.episode.device)
        for batch in _decision_batches(visited, settings.batch_size, order):
            losses.append(_step(policy, optimiser, visited, batch, worth, settings))
        divergence = _mean_kl(policy, visited, batches, old)
        if divergence > settings.kl_limit:
            divergence, backtracks = _draw_back(policy, accepted, visited, batches, old, settings.kl_limit)
            divergence = divergence if divergence <= settings.kl_limit else accepted_kl
            return Update(sum(losses) / len(losses), divergence, number + 1, backtracks)
    return Update(sum(losses) / len(losses), divergence, settings.passes, backtracks)


def _step(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    visited: Visited,
    batch: Int[Tensor, "n"],
    worth: Advantages,
    settings: PPOSettings,
) -> float:
    """Take one gradient step on some decisions."""
    rollout = visited.rollout
    scored = score_decisions(policy, visited, batch)
    order = clipped_surrogate(
        scored.order_log_prob, rollout.order_log_prob[batch], worth.order[batch], settings.clip
    )
    keep = clipped_surrogate(scored.keep_log_prob, rollout.keep_log_prob[batch], worth.keep[batch], settings.clip)
    keep = torch.where(rollout.is_ending[batch], 0.0, keep)
    gain = (order + keep).mean()
    if settings.entropy:
        gain = gain + settings.entropy * joint_entropy(scored, rollout.play.learned_order).mean()
    optimiser.zero_grad(set_to_none=True)
    (-gain).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimiser.step()
    return -float(gain.detach())


@torch.no_grad()
def _mean_kl(policy: Policy, visited: Visited, batches: list[Tensor], old: list[Scored]) -> float:
    play = visited.rollout.play
    total = sum(
        float(joint_kl(before, score_decisions(policy, visited, batch), play.learned_order, play.can_end).sum())
        for batch, before in zip(batches, old, strict=True)
    )
    return total / visited.rollout.decisions


@torch.no_grad()
def _draw_back(
    policy: Policy, accepted: list[Tensor], visited: Visited, batches: list[Tensor], old: list[Scored], limit: float
) -> tuple[float, int]:
    """Halve the last pass's step until the mean KL is within the limit; give the step up after eight halvings."""
    for halving in range(1, 9):
        for weight, before in zip(policy.parameters(), accepted, strict=True):
            weight.copy_(before + 0.5 * (weight - before))
        divergence = _mean_kl(policy, visited, batches, old)
        if divergence <= limit:
            return divergence, halving
    for weight, before in zip(policy.parameters(), accepted, strict=True):
        weight.copy_(before)
    return float("inf"), 9


def _decision_batches(
    visited: Visited, episodes_at_once: int, order: Int[Tensor, "episodes"] | None
) -> list[Int[Tensor, "n"]]:
    """Cut the decisions into batches of whole episodes, bounded also by their number of pairs."""
    rollout = visited.rollout
    offsets = decision_offsets(rollout)
    sequence = torch.arange(rollout.episodes.count, device=offsets.device) if order is None else order
    pairs = visited.offsets[offsets[1:]] - visited.offsets[offsets[:-1]]
    slot = torch.arange(sequence.numel(), device=offsets.device) // episodes_at_once
    crowd = (pairs[sequence].cumsum(0) - 1).clamp(min=0) // _PAIRS_AT_ONCE
    _, sizes = torch.unique_consecutive(torch.stack([slot, crowd]), return_counts=True, dim=1)
    batches = [
        ranges(offsets[:-1][part], offsets.diff()[part])[1] for part in torch.split(sequence, sizes.tolist())
    ]
    return [batch for batch in batches if batch.numel()]

