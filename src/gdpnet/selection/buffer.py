"""The states that a roll-out visited, collected once and scored under changing policies."""

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
class StateBuffer:
    """The states of a roll-out, and pairs of a decision and one of its candidates.

    In a random order the environment draws: a decision then has a single candidate, the drawn one.
    """

    rollout: Rollout
    embedded: Float[Tensor, "decisions width"]
    probabilities: Float[Tensor, "decisions classes"]
    counts: Float[Tensor, "decisions"]
    candidate: Int[Tensor, "pairs"]
    offsets: Int[Tensor, "offsets"]

    @property
    def sizes(self) -> Int[Tensor, "decisions"]:
        """Return the number of candidates of each decision."""
        return self.offsets.diff()


def collect_states(rollout: Rollout, view: View) -> StateBuffer:
    """Recompute the policy's observation at every decision of a roll-out."""
    sums, counts = rollout.states
    embedded, probabilities = view.observe(rollout.episodes.target_row[rollout.episode], sums, counts)
    if not rollout.play.learned_order:
        single = torch.arange(rollout.decisions + 1, device=rollout.episode.device)
        return StateBuffer(rollout, embedded, probabilities, counts, rollout.candidate, single)
    start, length = rollout.episodes.offsets[:-1], rollout.episodes.length
    decision, candidate = ranges(start[rollout.episode], length[rollout.episode])
    open_ = rollout.visited_at[candidate] >= rollout.step[decision]
    size = torch.bincount(decision[open_], minlength=rollout.decisions)
    return StateBuffer(rollout, embedded, probabilities, counts, candidate[open_], offsets_of(size))


@dataclass(frozen=True)
class Batch:
    """The decisions of some whole episodes, with all inputs of their scores except the weights."""

    play: Play
    chosen: Int[Tensor, "n"]
    """The number of each decision in the roll-out."""
    target_input: Float[Tensor, "n inputs"]
    is_ending: Bool[Tensor, "n"]
    drew: Float[Tensor, "n"]
    """One if a neighbour was drawn, zero if the ending neighbour was."""
    sign: Float[Tensor, "n"]
    """One if the neighbour was kept, else minus one."""
    order_log_prob: Float[Tensor, "n"]
    """Under the policy that acted; in a random order, under any policy."""
    keep_log_prob: Float[Tensor, "n"]
    """Under the policy that acted."""
    taken: Int[Tensor, "n"]
    """The pair of the drawn candidate; the first pair if the ending neighbour was drawn."""
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
        """Return the part of consecutive episodes, without copying the wide tensors."""
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


def gather_batch(policy: Policy, buffer: StateBuffer, sequence: Int[Tensor, "episodes"]) -> Batch:
    """Gather the inputs for scoring the decisions of some episodes, in the order of ``sequence``."""
    rollout, encoded, offsets = buffer.rollout, buffer.rollout.encoded, buffer.rollout.episodes.offsets
    first = decision_offsets(rollout)
    _, chosen = ranges(first[sequence], first.diff()[sequence])
    _, used = ranges(offsets[sequence], offsets.diff()[sequence])
    size = buffer.sizes[chosen]
    owner, pair = ranges(buffer.offsets[chosen], size)
    candidate = buffer.candidate[pair]
    where = torch.empty_like(rollout.visited_at)
    where[used] = torch.arange(used.numel(), device=used.device)
    drawn = (candidate == rollout.candidate[chosen][owner]).nonzero().flatten()
    probabilities = buffer.probabilities.index_select(0, chosen)
    other = encoded.probabilities.index_select(0, candidate)
    ending = rollout.is_ending[chosen]
    return Batch(
        rollout.play,
        chosen,
        policy.target_input(buffer.embedded.index_select(0, chosen), probabilities, buffer.counts[chosen]),
        ending,
        1.0 - ending.float(),
        2.0 * rollout.kept[chosen].float() - 1.0,
        rollout.order_log_prob[chosen],
        rollout.keep_log_prob[chosen],
        offsets_of(size)[:-1].index_copy(0, owner[drawn], drawn),
        policy.neighbour_input(
            encoded.embedded.index_select(0, used),
            encoded.probabilities.index_select(0, used),
            encoded.pairs.index_select(0, used),
        ),
        owner,
        where[candidate],
        agreement(probabilities.index_select(0, owner), other),
    )


def cut_batch(
    whole: Batch, buffer: StateBuffer, sequence: Int[Tensor, "episodes"], most_episodes: int | None = None
) -> list[Batch]:
    """Split a batch into parts of at most ``most_episodes`` episodes and a bounded number of pairs."""
    offsets, first = buffer.rollout.episodes.offsets, decision_offsets(buffer.rollout)
    pairs = (buffer.offsets[first[1:]] - buffer.offsets[first[:-1]])[sequence]
    slot = torch.arange(sequence.numel(), device=offsets.device) // (most_episodes or sequence.numel())
    group = (pairs.cumsum(0) - 1).clamp(min=0) // _PAIRS_AT_ONCE
    begins = torch.ones_like(slot, dtype=torch.bool)
    begins[1:] = (slot.diff() != 0) | (group.diff() != 0)
    ends = F.pad(begins.nonzero().flatten(), (0, 1), value=sequence.numel())
    sizes = (first.diff()[sequence], pairs, offsets.diff()[sequence])
    bounds = torch.stack([offsets_of(size)[ends] for size in sizes], dim=1).tolist()
    return [
        whole.part(*(slice(start, end) for start, end in zip(low, high, strict=True)))
        for low, high in pairwise(bounds)
    ]


def score_batch(policy: Policy, batch: Batch) -> Scored:
    """Score all candidates of some decisions and return the log-probabilities of the actions taken."""
    return log_probabilities(batch, *score_candidates(policy, batch))


def score_candidates(policy: Policy, batch: Batch) -> tuple[Float[Tensor, "pairs"], Float[Tensor, "n"]]:
    """Score all candidates of some decisions, and the ending neighbour of each; zero if it is no candidate."""
    half = policy.target_half(batch.target_input)
    first = policy.neighbour_half(batch.neighbour_input).index_select(0, batch.place)
    first = first + half.index_select(0, batch.owner)
    if policy.extras:
        first = torch.addr(first, batch.agreement, policy.agreement_weight)
    if not batch.play.can_end:
        return policy.score(first), half.new_zeros(batch.count)
    pairs = first.shape[0]
    scores = policy.score(torch.cat([first, half + policy.ending_half()]))
    return scores[:pairs], scores[pairs:]


def log_probabilities(batch: Batch, score: Float[Tensor, "pairs"], ending: Float[Tensor, "n"]) -> Scored:
    """Return the log-probabilities of the actions taken, from the scores of all candidates."""
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
