"""The decisions of a roll-out with all inputs of their scores, gathered once and scored under changing policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
class Batch:
    """The decisions of some whole episodes, and pairs of a decision and one of its candidates."""

    play: Play
    begins: Int[Tensor, "offsets 3"]
    """Where the decisions, pairs and candidates of each episode begin; in a part, still those of the whole."""
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


@torch.no_grad()
def gather_batch(policy: Policy, rollout: Rollout, view: View, sequence: Int[Tensor, "episodes"]) -> Batch:
    """Recompute the observations of some episodes, and gather the inputs of their scores in the order given.

    No episode may be given twice.
    """
    encoded, offsets, first = rollout.encoded, rollout.episodes.offsets, decision_offsets(rollout)
    embedded, probabilities = rollout.observe(view)
    candidate, begin = _pairs(rollout)
    lengths = (first.diff(), begin[first].diff(), offsets.diff())
    # of all episodes the sizes are known, and the host need not wait for the device
    known = (rollout.decisions, candidate.numel(), rollout.visited_at.numel())
    totals = known if sequence.numel() == rollout.episodes.count else (None, None, None)
    _, chosen = ranges(first[sequence], lengths[0][sequence], totals[0])
    _, used = ranges(offsets[sequence], lengths[2][sequence], totals[2])
    size = begin.diff()[chosen]
    owner, pair = ranges(begin[chosen], size, totals[1])
    candidate = candidate[pair]
    where = rollout.visited_at.scatter(0, used, torch.arange(used.numel(), device=used.device))
    drawn = (candidate == rollout.candidate[chosen][owner]).nonzero().flatten()
    probabilities = probabilities.index_select(0, chosen)
    other = encoded.probabilities.index_select(0, candidate)
    ending = rollout.is_ending[chosen]
    columns = (encoded.embedded, encoded.probabilities, encoded.pairs)
    return Batch(
        rollout.play,
        torch.stack([offsets_of(length[sequence]) for length in lengths], dim=1),
        chosen,
        policy.target_input(embedded.index_select(0, chosen), probabilities, rollout.states[1][chosen]),
        ending,
        1.0 - ending.float(),
        2.0 * rollout.kept[chosen].float() - 1.0,
        rollout.order_log_prob[chosen],
        rollout.keep_log_prob[chosen],
        offsets_of(size)[:-1].index_copy(0, owner[drawn], drawn),
        policy.neighbour_input(*(column.index_select(0, used) for column in columns)),
        owner,
        where[candidate],
        agreement(probabilities.index_select(0, owner), other),
    )


def _pairs(rollout: Rollout) -> tuple[Int[Tensor, "pairs"], Int[Tensor, "offsets"]]:
    """Return the candidates of every decision, those not yet visited, and where each decision's begin.

    In a random order the environment draws: a decision then has a single candidate, the drawn one.
    """
    if not rollout.play.learned_order:
        return rollout.candidate, torch.arange(rollout.decisions + 1, device=rollout.episode.device)
    start, length = rollout.episodes.offsets[:-1], rollout.episodes.length
    decision, candidate = ranges(start[rollout.episode], length[rollout.episode])
    open_ = rollout.visited_at[candidate] >= rollout.step[decision]
    return candidate[open_], offsets_of(torch.bincount(decision[open_], minlength=rollout.decisions))


def cut_batch(whole: Batch, most_episodes: int | None = None) -> list[Batch]:
    """Split a batch into parts of at most ``most_episodes`` episodes and a bounded number of pairs."""
    bounds = cut_bounds(whole.begins, most_episodes).tolist()
    return [_part(whole, *map(slice, low, high)) for low, high in pairwise(bounds)]


def cut_bounds(
    begins: Int[Tensor, "offsets columns"], most_episodes: int | None = None
) -> Int[Tensor, "bounds columns"]:
    """Return where the decisions, pairs and candidates of each part begin, and the end of the last.

    ``begins`` are those of all episodes; it may have further columns.
    """
    count = begins.shape[0] - 1
    slot = torch.arange(count, device=begins.device) // (most_episodes or count)
    group = (begins[1:, 1] - 1).clamp(min=0) // _PAIRS_AT_ONCE
    is_cut = F.pad((slot.diff() != 0) | (group.diff() != 0), (1, 1), value=True)
    return begins[is_cut]


def _part(whole: Batch, decisions: slice, pairs: slice, candidates: slice) -> Batch:
    """Return the part of consecutive episodes, without copying the wide tensors."""
    of_decisions = ("chosen", "target_input", "is_ending", "drew", "sign", "order_log_prob", "keep_log_prob")
    return replace(
        whole,
        **{name: getattr(whole, name)[decisions] for name in of_decisions},
        taken=whole.taken[decisions] - pairs.start,
        neighbour_input=whole.neighbour_input[candidates],
        owner=whole.owner[pairs] - decisions.start,
        place=whole.place[pairs] - candidates.start,
        agreement=whole.agreement[pairs],
    )


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
        return policy.score(first), half.new_zeros(half.shape[0])
    pairs = first.shape[0]
    scores = policy.score(torch.cat([first, half + policy.ending_half()]))
    return scores[:pairs], scores[pairs:]


def log_probabilities(batch: Batch, score: Float[Tensor, "pairs"], ending: Float[Tensor, "n"]) -> Scored:
    """Return the log-probabilities of the actions taken, from the scores of all candidates."""
    play = batch.play
    taken = score.index_select(0, batch.taken)
    if play.learned_order:
        total = sum_by_owner(score.exp(), batch.owner, ending.numel())
        log_total = (total + ending.exp()).log() if play.can_end else total.log()
        order_log_prob = torch.where(batch.is_ending, ending, taken) - log_total
    else:
        log_total, order_log_prob = torch.zeros_like(taken), batch.order_log_prob
    keep_log_prob = F.logsigmoid(taken * batch.sign) * batch.drew
    return Scored(play, batch.owner, score, ending, log_total, order_log_prob, keep_log_prob)
