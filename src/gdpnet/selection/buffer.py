"""The states that a roll-out visited, gathered once and scored under one policy after another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges, sum_by_owner
from gdpnet.selection.episodes import View
from gdpnet.selection.play import Play
from gdpnet.selection.policy import Policy, agreement
from gdpnet.selection.ppo import Scored
from gdpnet.selection.rollout import Rollout, decision_offsets

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
    """The decisions of some whole episodes with all that scoring them takes but the weights."""

    play: Play
    chosen: Int[Tensor, "n"]
    """The number in the roll-out of each decision."""
    target_input: Float[Tensor, "n inputs"]
    is_ending: Bool[Tensor, "n"]
    drew: Float[Tensor, "n"]
    """One where a neighbour was drawn, zero where the ending neighbour was."""
    sign: Float[Tensor, "n"]
    """One where the neighbour was kept, else minus one."""
    order_log_prob: Float[Tensor, "n"]
    """Under the policy that acted; in a random order, under every policy."""
    keep_log_prob: Float[Tensor, "n"]
    """Under the policy that acted."""
    taken: Int[Tensor, "n"]
    """The pair that was drawn; the first one where the ending neighbour was."""
    neighbour_input: Float[Tensor, "candidates neighbour_inputs"]
    """The candidates of these decisions, each once."""
    owner: Int[Tensor, "pairs"]
    place: Int[Tensor, "pairs"]
    agreement: Float[Tensor, "pairs"]

    @property
    def count(self) -> int:
        """Return the number of decisions."""
        return self.chosen.numel()

    def part(self, decisions: slice, pairs: slice, candidates: slice) -> Batch:
        """Return what belongs to some episodes that follow one another, without a copy of what is wide."""
        return Batch(
            self.play,
            self.chosen[decisions],
            self.target_input[decisions],
            self.is_ending[decisions],
            self.drew[decisions],
            self.sign[decisions],
            self.order_log_prob[decisions],
            self.keep_log_prob[decisions],
            self.taken[decisions] - pairs.start,
            self.neighbour_input[candidates],
            self.owner[pairs] - decisions.start,
            self.place[pairs] - candidates.start,
            self.agreement[pairs],
        )


def gather_batch(policy: Policy, visited: Visited, sequence: Int[Tensor, "episodes"]) -> Batch:
    """Gather what scoring the decisions of some episodes takes, episode after episode."""
    rollout, met, offsets = visited.rollout, visited.rollout.met, visited.rollout.episodes.offsets
    first = decision_offsets(rollout)
    _, chosen = ranges(first[sequence], first.diff()[sequence])
    _, used = ranges(offsets[sequence], offsets.diff()[sequence])
    size = visited.sizes[chosen]
    owner, pair = ranges(visited.offsets[chosen], size)
    candidate = visited.candidate[pair]
    where = torch.empty_like(rollout.visited_at)
    where[used] = torch.arange(used.numel(), device=used.device)
    drawn = (candidate == rollout.candidate[chosen][owner]).nonzero().flatten()
    beliefs = visited.beliefs.index_select(0, chosen)
    other = met.beliefs.index_select(0, candidate)
    ending = rollout.is_ending[chosen]
    return Batch(
        rollout.play,
        chosen,
        policy.target_input(visited.embedded.index_select(0, chosen), beliefs, visited.counts[chosen]),
        ending,
        1.0 - ending.float(),
        2.0 * rollout.kept[chosen].float() - 1.0,
        rollout.order_log_prob[chosen],
        rollout.keep_log_prob[chosen],
        offsets_of(size)[:-1].index_copy(0, owner[drawn], drawn),
        policy.neighbour_input(
            met.embedded.index_select(0, used),
            met.beliefs.index_select(0, used),
            met.pairs.index_select(0, used),
        ),
        owner,
        where[candidate],
        agreement(beliefs.index_select(0, owner), other),
    )


def cut_batch(
    whole: Batch, visited: Visited, sequence: Int[Tensor, "episodes"], most_episodes: int | None = None
) -> list[Batch]:
    """Cut what was gathered of some episodes into parts of so many of them, bounded also by their pairs."""
    offsets, first = visited.rollout.episodes.offsets, decision_offsets(visited.rollout)
    pairs = (visited.offsets[first[1:]] - visited.offsets[first[:-1]])[sequence]
    slot = torch.arange(sequence.numel(), device=offsets.device) // (most_episodes or sequence.numel())
    crowd = (pairs.cumsum(0) - 1).clamp(min=0) // _PAIRS_AT_ONCE
    begins = torch.ones_like(slot, dtype=torch.bool)
    begins[1:] = (slot.diff() != 0) | (crowd.diff() != 0)
    ends = F.pad(begins.nonzero().flatten(), (0, 1), value=sequence.numel())
    sizes = (first.diff()[sequence], pairs, offsets.diff()[sequence])
    bounds = torch.stack([offsets_of(size)[ends] for size in sizes], dim=1).tolist()
    return [
        whole.part(*(slice(start, end) for start, end in zip(low, high, strict=True)))
        for low, high in pairwise(bounds)
    ]


def score_batch(policy: Policy, batch: Batch) -> Scored:
    """Score all candidates of some decisions and read off the log-probability of what was done."""
    return read_off(batch, *score_candidates(policy, batch))


def score_candidates(policy: Policy, batch: Batch) -> tuple[Float[Tensor, "pairs"], Float[Tensor, "n"]]:
    """Score all candidates of some decisions, and the ending neighbour of each: zero where there is none."""
    neighbour_half = batch.neighbour_input @ policy.neighbour_weight
    half = torch.addmm(policy.first_bias, batch.target_input, policy.target_weight)
    first = neighbour_half.index_select(0, batch.place) + half.index_select(0, batch.owner)
    if policy.extras:
        first = torch.addr(first, batch.agreement, policy.agreement_weight)
    if not batch.play.can_end:
        return policy.score(first), half.new_zeros(batch.count)
    pairs = first.shape[0]
    scores = policy.score(torch.cat([first, half + policy.ending_half()]))
    return scores[:pairs], scores[pairs:]


def read_off(batch: Batch, score: Float[Tensor, "pairs"], ending: Float[Tensor, "n"]) -> Scored:
    """Read the log-probability of what was done off the scores of all candidates."""
    play, count = batch.play, batch.count
    taken = score.index_select(0, batch.taken)
    if play.learned_order:
        total = sum_by_owner(score.exp(), batch.owner, count)
        log_total = (total + ending.exp()).log() if play.can_end else total.log()
        order_log_prob = torch.where(batch.is_ending, ending, taken) - log_total
    else:
        log_total, order_log_prob = torch.zeros_like(taken), batch.order_log_prob
    keep_log_prob = F.logsigmoid(taken * batch.sign) * batch.drew
    return Scored(batch.owner, score, ending, log_total, order_log_prob, keep_log_prob)
