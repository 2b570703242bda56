"""The one update of the policy, which calls the formulas of `gdpnet.selection.ppo`.

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
from gdpnet.selection.ppo import Advantages, Scored, advantages, clipped_surrogate, joint_entropy, joint_kl
from gdpnet.selection.rollout import Rollout, decision_offsets

_PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Visited:
    """The states of a roll-out and the candidates that each decision chose among, in pairs."""

    rollout: Rollout
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
    sums, counts = rollout.states()
    embedded, beliefs = view.observe(rollout.episodes.target_row[rollout.episode], sums, counts)
    start, length = rollout.episodes.offsets[:-1], rollout.episodes.length
    decision, candidate = ranges(start[rollout.episode], length[rollout.episode])
    open_ = rollout.visited_at[candidate] >= rollout.step[decision]
    size = torch.bincount(decision[open_], minlength=rollout.decisions)
    return Visited(rollout, embedded, beliefs, counts, candidate[open_], offsets_of(size))


def score_decisions(policy: Policy, visited: Visited, chosen: Int[Tensor, "n"]) -> Scored:
    """Score all candidates of some decisions and read off the log-probability of what was done."""
    rollout, met = visited.rollout, visited.rollout.met
    owner, pair = ranges(visited.offsets[chosen], visited.sizes[chosen])
    candidate = visited.candidate[pair]
    used, place = torch.unique(candidate, return_inverse=True)
    neighbour_half = policy.neighbour_half(met.embedded[used], met.beliefs[used], met.pairs[used])
    half = policy.target_half(visited.embedded[chosen], visited.beliefs[chosen], visited.counts[chosen])
    first = neighbour_half[place] + half[owner]
    if policy.extras:
        agree = agreement(visited.beliefs[chosen][owner], met.beliefs[candidate])
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
        losses += [
            _step(policy, optimiser, visited, batch, worth, settings)
            for batch in _decision_batches(visited, settings.batch_size, order)
        ]
        divergence = _mean_kl(policy, visited, batches, old)
        if not divergence <= settings.kl_limit:  # so that NaN, too, is drawn back
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
    keep = clipped_surrogate(
        scored.keep_log_prob, rollout.keep_log_prob[batch], worth.keep[batch], settings.clip
    )
    keep = torch.where(rollout.is_ending[batch], 0.0, keep)
    gain = (order + keep).mean()
    if settings.entropy:
        play = rollout.play
        gain = gain + settings.entropy * joint_entropy(scored, play.learned_order, play.can_end).mean()
    optimiser.zero_grad(set_to_none=True)
    (-gain).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimiser.step()
    return -float(gain.detach())


@torch.no_grad()
def _mean_kl(policy: Policy, visited: Visited, batches: list[Tensor], old: list[Scored]) -> float:
    play = visited.rollout.play
    total = sum(
        float(
            joint_kl(before, score_decisions(policy, visited, batch), play.learned_order, play.can_end).sum()
        )
        for batch, before in zip(batches, old, strict=True)
    )
    return total / visited.rollout.decisions


@torch.no_grad()
def _draw_back(
    policy: Policy,
    accepted: list[Tensor],
    visited: Visited,
    batches: list[Tensor],
    old: list[Scored],
    limit: float,
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
