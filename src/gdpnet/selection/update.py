"""The one update of the policy, which calls the formulas of `gdpnet.selection.ppo`.

The KL limit is enforced, not only encouraged: after every pass the exact mean KL over all visited states is
measured, and an update beyond the limit is drawn back, by halves, towards the last policy within it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.config import PPOSettings
from gdpnet.ragged import offsets_of, ranges, sum_by_owner
from gdpnet.selection.episodes import View
from gdpnet.selection.policy import Policy, agreement
from gdpnet.selection.ppo import Advantages, Scored, advantages, clipped_surrogate, joint_entropy, joint_kl
from gdpnet.selection.rollout import Play, Rollout, decision_offsets

_PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Visited:
    """The states of a roll-out and the candidates that each decision chose among, in pairs.

    In a random order the draw belongs to the environment: a decision then has the drawn candidate alone.
    """

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
    sums, counts = rollout.states
    embedded, beliefs = view.observe(rollout.episodes.target_row[rollout.episode], sums, counts)
    if not rollout.play.learned_order:
        alone = torch.arange(rollout.decisions + 1, device=rollout.episode.device)
        return Visited(rollout, embedded, beliefs, counts, rollout.candidate, alone)
    start, length = rollout.episodes.offsets[:-1], rollout.episodes.length
    decision, candidate = ranges(start[rollout.episode], length[rollout.episode])
    open_ = rollout.visited_at[candidate] >= rollout.step[decision]
    size = torch.bincount(decision[open_], minlength=rollout.decisions)
    return Visited(rollout, embedded, beliefs, counts, candidate[open_], offsets_of(size))


@dataclass(frozen=True)
class Batch:
    """Some decisions with all that scoring them takes but the weights, gathered once and scored many times."""

    play: Play
    chosen: Int[Tensor, "n"]
    embedded: Float[Tensor, "n width"]
    beliefs: Float[Tensor, "n classes"]
    counts: Float[Tensor, "n"]
    neighbour_embedded: Float[Tensor, "candidates width"]
    """The candidates of these decisions, each once; so too the next two."""
    neighbour_beliefs: Float[Tensor, "candidates classes"]
    neighbour_pairs: Float[Tensor, "candidates columns"]
    owner: Int[Tensor, "pairs"]
    place: Int[Tensor, "pairs"]
    agreement: Float[Tensor, "pairs"]
    taken: Int[Tensor, "n"]
    """The pair that was drawn; any pair where the ending neighbour was."""
    is_ending: Bool[Tensor, "n"]
    kept: Bool[Tensor, "n"]
    order_log_prob: Float[Tensor, "n"]
    """Under the policy that acted; in a random order, under every policy."""


def gather_batch(visited: Visited, chosen: Int[Tensor, "n"]) -> Batch:
    """Gather what scoring some decisions takes."""
    rollout, met = visited.rollout, visited.rollout.met
    owner, pair = ranges(visited.offsets[chosen], visited.sizes[chosen])
    candidate = visited.candidate[pair]
    used, place = torch.unique(candidate, return_inverse=True)
    drawn = (candidate == rollout.candidate[chosen][owner]).nonzero().flatten()
    taken = torch.zeros_like(chosen)
    taken[owner[drawn]] = drawn
    beliefs = visited.beliefs.index_select(0, chosen)
    other = met.beliefs.index_select(0, candidate)
    return Batch(
        rollout.play,
        chosen,
        visited.embedded.index_select(0, chosen),
        beliefs,
        visited.counts[chosen],
        met.embedded.index_select(0, used),
        met.beliefs[used],
        met.pairs[used],
        owner,
        place,
        agreement(beliefs.index_select(0, owner), other),
        taken,
        rollout.is_ending[chosen],
        rollout.kept[chosen],
        rollout.order_log_prob[chosen],
    )


def score_batch(policy: Policy, batch: Batch) -> Scored:
    """Score all candidates of some decisions and read off the log-probability of what was done."""
    play, count = batch.play, batch.chosen.numel()
    neighbour_half = policy.neighbour_half(
        batch.neighbour_embedded, batch.neighbour_beliefs, batch.neighbour_pairs
    )
    half = policy.target_half(batch.embedded, batch.beliefs, batch.counts)
    first = neighbour_half.index_select(0, batch.place) + half.index_select(0, batch.owner)
    if policy.extras:
        first = torch.addr(first, batch.agreement, policy.agreement_weight)
    score = policy.score(first)
    ending = policy.score(half + policy.ending_half()) if play.can_end else half.new_zeros(count)
    taken = score.index_select(0, batch.taken)
    if play.learned_order:
        total = sum_by_owner(score.exp(), batch.owner, count)
        log_total = (total + ending.exp()).log() if play.can_end else total.log()
        order_log_prob = torch.where(batch.is_ending, ending, taken) - log_total
    else:
        log_total, order_log_prob = torch.zeros_like(taken), batch.order_log_prob
    signed = torch.where(batch.kept, taken, -taken)
    keep_log_prob = torch.where(batch.is_ending, 0.0, F.logsigmoid(signed))
    return Scored(batch.owner, score, ending, log_total, order_log_prob, keep_log_prob)


def score_decisions(policy: Policy, visited: Visited, chosen: Int[Tensor, "n"]) -> Scored:
    """Gather and score some decisions at once."""
    return score_batch(policy, gather_batch(visited, chosen))


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
        shuffled = torch.randperm(rollout.episodes.count, generator=generator).to(rollout.episode.device)
        cut = _decision_batches(visited, settings.batch_size, shuffled)
        batches = [gather_batch(visited, chosen) for chosen in cut]
        old = [score_batch(policy, batch).detach() for batch in batches]
    losses: list[Tensor] = []
    divergence, backtracks = 0.0, 0
    for number in range(settings.passes):
        accepted = [weight.detach().clone() for weight in policy.parameters()]
        accepted_kl = divergence
        turns = torch.randperm(len(batches), generator=generator).tolist()
        losses += [_step(policy, optimiser, rollout, batches[turn], worth, settings) for turn in turns]
        divergence = _mean_kl(policy, batches, old)
        if not divergence <= settings.kl_limit:  # so that NaN, too, is drawn back
            divergence, backtracks = _draw_back(policy, accepted, batches, old, settings.kl_limit)
            divergence = divergence if divergence <= settings.kl_limit else accepted_kl
            return Update(_mean(losses), divergence, number + 1, backtracks)
    return Update(_mean(losses), divergence, settings.passes, backtracks)


def _mean(losses: list[Tensor]) -> float:
    """Return the mean loss; the host waits for the device here and not after every step."""
    return float(torch.stack(losses).mean())


def _step(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    rollout: Rollout,
    batch: Batch,
    worth: Advantages,
    settings: PPOSettings,
) -> Float[Tensor, ""]:
    """Take one gradient step on some decisions; return its loss."""
    scored, chosen = score_batch(policy, batch), batch.chosen
    gain = clipped_surrogate(
        scored.keep_log_prob, rollout.keep_log_prob[chosen], worth.keep[chosen], settings.clip
    )
    if rollout.play.learned_order:
        order = clipped_surrogate(
            scored.order_log_prob, batch.order_log_prob, worth.order[chosen], settings.clip
        )
        gain = order + torch.where(batch.is_ending, 0.0, gain)
    gain = gain.mean()
    if settings.entropy:
        play = rollout.play
        gain = gain + settings.entropy * joint_entropy(scored, play.learned_order, play.can_end).mean()
    optimiser.zero_grad(set_to_none=True)
    (-gain).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimiser.step()
    return -gain.detach()


@torch.no_grad()
def _mean_kl(policy: Policy, batches: list[Batch], old: list[Scored]) -> float:
    """Return the exact KL of the joint action, averaged over all decisions of the batches."""
    parts = [
        joint_kl(before, score_batch(policy, batch), batch.play.learned_order, batch.play.can_end).sum()
        for batch, before in zip(batches, old, strict=True)
    ]
    return float(torch.stack(parts).double().sum()) / sum(batch.chosen.numel() for batch in batches)


@torch.no_grad()
def _draw_back(
    policy: Policy,
    accepted: list[Tensor],
    batches: list[Batch],
    old: list[Scored],
    limit: float,
) -> tuple[float, int]:
    """Halve the last pass's step until the mean KL is within the limit; give the step up after eight halvings."""
    for halving in range(1, 9):
        for weight, before in zip(policy.parameters(), accepted, strict=True):
            weight.copy_(before + 0.5 * (weight - before))
        divergence = _mean_kl(policy, batches, old)
        if divergence <= limit:
            return divergence, halving
    for weight, before in zip(policy.parameters(), accepted, strict=True):
        weight.copy_(before)
    return float("inf"), 9


def _decision_batches(
    visited: Visited, episodes_at_once: int, sequence: Int[Tensor, "episodes"]
) -> list[Int[Tensor, "n"]]:
    """Cut the decisions into batches of whole episodes, bounded also by their number of pairs."""
    rollout = visited.rollout
    offsets = decision_offsets(rollout)
    pairs = visited.offsets[offsets[1:]] - visited.offsets[offsets[:-1]]
    slot = torch.arange(sequence.numel(), device=offsets.device) // episodes_at_once
    crowd = (pairs[sequence].cumsum(0) - 1).clamp(min=0) // _PAIRS_AT_ONCE
    _, sizes = torch.unique_consecutive(torch.stack([slot, crowd]), return_counts=True, dim=1)
    batches = [
        ranges(offsets[:-1][part], offsets.diff()[part])[1] for part in torch.split(sequence, sizes.tolist())
    ]
    return [batch for batch in batches if batch.numel()]
