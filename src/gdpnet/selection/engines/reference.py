"""The reference engine: all episodes of a batch advance in lockstep, on flat tensors, on any device."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet._core.random import gumbels, uniforms
from gdpnet.errors import WorkError
from gdpnet.selection.episodes import Encoded, Episodes, View
from gdpnet.selection.play import DIVERGED, Play, Slots, allocate_slots, neighbour_halves, rows_at_once
from gdpnet.selection.policy import Policy, agreement


class _Draw(NamedTuple):
    """The draws of one step: positions among the open candidates, episodes that end, and softmax denominators."""

    place: Int[Tensor, "drawn"]
    episode: Int[Tensor, "drawn"]
    candidate: Int[Tensor, "drawn"]
    ended: Int[Tensor, "ended"]
    weight: Float[Tensor, "running"]


class _Batch:
    """The state of a batch of episodes: running sums, scores, and the open candidates.

    Rows are gathered with ``index_select``, which is several times faster than indexing with brackets.
    """

    def __init__(self, policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play) -> None:
        self.policy, self.view, self.episodes, self.play = policy, view, episodes, play
        self.encoded, self.number = encoded, 0
        message, count = encoded.message, episodes.count
        self.sums, self.counts = message.new_zeros(count, message.shape[1]), message.new_zeros(count)
        self.probabilities = encoded.probabilities.new_zeros(count, encoded.probabilities.shape[1])
        self.slots = allocate_slots(episodes, message.dtype)
        self.scores, self.ending = self.slots.scores, self.slots.ending
        self.first_slot = episodes.offsets[:-1] + torch.arange(count, device=message.device)
        self.remaining = episodes.length
        self.open, self.open_episode = torch.arange(message.shape[0], device=message.device), episodes.owner
        self.observe_chunk = rows_at_once(message.device)
        self.score_chunk = min(2 * self.observe_chunk, 1 << 20)
        # the terms of the first layer in one table: candidates, episodes, the agreement weight
        last = [policy.agreement_weight[None]] if policy.extras else []
        targets = policy.first_bias.new_empty(count, policy.first_bias.numel())
        self.halves = torch.cat([neighbour_halves(policy, encoded), targets, *last])
        # the terms of each score and their weights, overwritten for every chunk of scores
        chunk = min(self.score_chunk, self.open.numel())
        self.rows = self.open.new_full((chunk, 2 + policy.extras), self.halves.shape[0] - 1)
        self.weights = torch.ones_like(self.rows, dtype=self.halves.dtype)

    def advance(self, draw: _Draw, kept: Bool[Tensor, "drawn"]) -> None:
        """Close the drawn candidates, and update the running episodes that kept one."""
        self.number += 1
        self.remaining.sub_(1).clamp_(min=0)
        left = torch.ones_like(self.open, dtype=torch.bool).index_fill_(0, draw.place, False)
        if draw.ended.numel():
            self.remaining.index_fill_(0, draw.ended, 0)
            left &= self.remaining.index_select(0, self.open_episode) > 0
        place = left.nonzero().flatten()
        self.open = self.open.index_select(0, place)
        self.open_episode = self.open_episode.index_select(0, place)
        grown = (kept & (self.remaining.index_select(0, draw.episode) > 0)).nonzero().flatten()
        moved, added = draw.episode.index_select(0, grown), draw.candidate.index_select(0, grown)
        if moved.numel() == 0:
            return
        self.sums.index_add_(0, moved, self.encoded.message.index_select(0, added))
        weight = self.encoded.weight
        counted = (
            self.counts.new_ones(1).expand_as(moved) if weight is None else weight.index_select(0, added)
        )
        self.counts.index_add_(0, moved, counted)
        self.observe(moved)

    def observe(self, moved: Int[Tensor, "moved"]) -> None:
        """Observe the present state of some episodes, and score their open candidates."""
        policy = self.policy
        for some in moved.split(self.observe_chunk):
            counts = self.counts.index_select(0, some)
            row = self.episodes.target_row.index_select(0, some)
            embedded, probabilities = self.view.observe(row, self.sums.index_select(0, some), counts)
            half = policy.target_half(policy.target_input(embedded, probabilities, counts))
            self.probabilities.index_copy_(0, some, probabilities)
            self.halves.index_copy_(0, some + self.scores.numel(), half)
            if self.play.can_end:
                self.ending.index_copy_(0, some, policy.score(half + policy.ending_half()))
        if self.play.learned_order:
            changed = torch.zeros_like(self.remaining, dtype=torch.bool).index_fill_(0, moved, True)
            stale = changed.index_select(0, self.open_episode).nonzero().flatten()
            self.score(self.open.index_select(0, stale), self.open_episode.index_select(0, stale))

    def score(self, candidate: Int[Tensor, "n"], episode: Int[Tensor, "n"]) -> None:
        """Score candidates in the present state of their episodes, chunk by chunk."""
        for some, owner in zip(
            candidate.split(self.score_chunk), episode.split(self.score_chunk), strict=True
        ):
            rows, weights = self.rows[: some.numel()], self.weights[: some.numel()]
            rows[:, 0] = some
            torch.add(owner, self.scores.numel(), out=rows[:, 1])
            if self.policy.extras:
                other = self.encoded.probabilities.index_select(0, some)
                weights[:, 2] = agreement(self.probabilities.index_select(0, owner), other)
            # gathers, weights and sums in one pass over memory
            first_layer = F.embedding_bag(rows, self.halves, mode="sum", per_sample_weights=weights)
            self.scores.scatter_(0, some, self.policy.score(first_layer))

    def record(self, draw: _Draw, episode: Int[Tensor, "n"], score: Float[Tensor, "n"]) -> Int[Tensor, "n"]:
        """Record a decision of some episodes; return its slots."""
        slots, slot = self.slots, self.first_slot.index_select(0, episode) + self.number
        slots.score.index_copy_(0, slot, score)
        slots.weight.index_copy_(0, slot, draw.weight.index_select(0, episode))
        slots.decisions.index_fill_(0, episode, self.number + 1)
        return slot


def play_reference(policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play) -> Slots:
    """Play every episode of a batch to its end, one decision of each at a time."""
    batch = _Batch(policy, view, episodes, encoded, play)
    if episodes.count:
        batch.observe(torch.arange(episodes.count, device=episodes.row.device))
    while batch.open.numel():
        draw = _draw(batch)
        if draw.ended.numel():
            batch.record(draw, draw.ended, batch.ending.index_select(0, draw.ended))
        batch.advance(draw, _keep_or_drop(batch, draw))
    return batch.slots


def _draw(batch: _Batch) -> _Draw:
    """Draw the next neighbour of every running episode, or its end."""
    play, open_, owner = batch.play, batch.open, batch.open_episode
    count = int(owner[-1]) + 1
    remaining = batch.remaining[:count]
    score = (
        batch.scores.index_select(0, open_) if play.learned_order else batch.scores.new_zeros(open_.numel())
    )
    perturbed = score
    if not (play.greedy and play.learned_order):
        perturbed = score + gumbels(batch.episodes.key.index_select(0, open_), 2 * batch.number)
    best = torch.segment_reduce(perturbed, "max", lengths=remaining, initial=-torch.inf, unsafe=True)
    weight = sum_by_owner(score.exp(), owner, count)
    ended = open_[:0]
    if play.can_end:
        ending = batch.ending[:count]
        weight = weight + ending.exp()
        if not play.greedy:
            ending = ending + gumbels(batch.episodes.ending_key[:count], 2 * batch.number)
        ends = (remaining > 0) & (ending > best)
        ended = ends.nonzero().flatten()
        best = torch.where(ends, torch.inf, best)
    place = (perturbed >= best.index_select(0, owner)).nonzero().flatten()
    place = _first_of_each(place, owner.index_select(0, place))
    if place.numel() + ended.numel() < int(remaining.count_nonzero()):
        raise WorkError(DIVERGED)
    return _Draw(place, owner.index_select(0, place), open_.index_select(0, place), ended, weight)


def _first_of_each(place: Int[Tensor, "places"], owner: Int[Tensor, "places"]) -> Int[Tensor, "firsts"]:
    """Return the first of each owner's places in case of ties; owners must ascend."""
    tied = owner[1:] == owner[:-1]
    return place[F.pad(~tied, (1, 0), value=True)] if bool(tied.any()) else place


def _keep_or_drop(batch: _Batch, draw: _Draw) -> Bool[Tensor, "drawn"]:
    """Decide on the drawn neighbours and record the decisions."""
    if not batch.play.learned_order:
        batch.score(draw.candidate, draw.episode)
    score = batch.scores.index_select(0, draw.candidate)
    if batch.play.greedy:
        kept = score > 0
    else:
        key = batch.episodes.key.index_select(0, draw.candidate)
        kept = uniforms(key, 2 * batch.number + 1) < torch.sigmoid(score)
    slot = batch.record(draw, draw.episode, score)
    batch.slots.candidate.index_copy_(0, slot, draw.candidate)
    batch.slots.kept.index_copy_(0, slot, kept)
    return kept
