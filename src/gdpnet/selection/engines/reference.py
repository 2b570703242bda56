"""The reference engine: all episodes of a batch move in step, on flat tensors, on any device."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, sum_by_owner
from gdpnet._core.random import gumbels, uniforms
from gdpnet.errors import GDPNetError
from gdpnet.selection.episodes import Episodes, Met, View
from gdpnet.selection.play import DIVERGED, ENDING, Play, Played
from gdpnet.selection.policy import Policy, agreement

_SCORE_CHUNK = 1 << 13
_LOOK_CHUNK = 1 << 12


class _Draw(NamedTuple):
    """What a step drew: places among the live candidates, episodes that end, and the sum of each softmax."""

    place: Int[Tensor, "drawn"]
    ended: Int[Tensor, "ended"]
    weight: Float[Tensor, "running"]


class _Step(NamedTuple):
    """Some decisions of one step."""

    number: int
    episode: Int[Tensor, "decisions"]
    candidate: Int[Tensor, "decisions"]
    kept: Bool[Tensor, "decisions"]
    score: Float[Tensor, "decisions"]
    weight: Float[Tensor, "decisions"]
    """The sum of e^l over all that could have been drawn."""


class _Board:
    """The moving parts of a roll-out: running sums, scores, and the candidates that are left.

    Rows are gathered with ``index_select``, which is several times faster than indexing with brackets.
    """

    def __init__(self, policy: Policy, view: View, episodes: Episodes, met: Met, play: Play) -> None:
        self.policy, self.view, self.episodes, self.play = policy, view, episodes, play
        self.met = met
        self.sums = met.given.new_zeros(episodes.count, met.given.shape[1])
        self.counts = met.given.new_zeros(episodes.count)
        self.beliefs = met.beliefs.new_zeros(episodes.count, met.beliefs.shape[1])
        self.scores = met.given.new_zeros(episodes.row.numel())
        self.ending = met.given.new_zeros(episodes.count)
        self.remaining = episodes.length
        self.live = torch.arange(episodes.row.numel(), device=met.given.device)
        self.live_episode = episodes.owner
        on_cpu = met.given.device.type == "cpu"
        self.look_chunk, self.score_chunk = (_LOOK_CHUNK, _SCORE_CHUNK) if on_cpu else (1 << 20, 1 << 20)
        self._lay_halves()

    def _lay_halves(self) -> None:
        """Lay all that the first layer adds up in one table: candidates, episodes, the agreement weight."""
        policy, met, candidates = self.policy, self.met, self.live.numel()
        rows = candidates + self.episodes.count + policy.extras
        self.halves = met.given.new_empty(rows, policy.first_bias.numel())
        for start in range(0, candidates, self.look_chunk):
            part = slice(start, min(start + self.look_chunk, candidates))
            self.halves[part] = policy.neighbour_half(met.embedded[part], met.beliefs[part], met.pairs[part])
        if policy.extras:
            self.halves[-1] = policy.agreement_weight
        # the rows of a score and their weights, written anew for every chunk of scores
        self.rows = self.live.new_full((min(self.score_chunk, candidates), 2 + policy.extras), rows - 1)
        self.weights = torch.ones_like(self.rows, dtype=self.halves.dtype)

    def begin(self) -> None:
        """Look at every episode as it begins, with nothing kept."""
        everyone = torch.arange(self.episodes.count, device=self.live.device)
        self._look(everyone)
        if self.play.learned_order:
            self.score(self.live, self.live_episode)

    def advance(self, draw: _Draw, step: _Step) -> None:
        """Take what was drawn off the board, and bring the running episodes that kept something up to date."""
        self._take_off(draw)
        runs = self.remaining.index_select(0, step.episode) > 0
        grown = (step.kept & runs).nonzero().flatten()
        moved, added = step.episode.index_select(0, grown), step.candidate.index_select(0, grown)
        if moved.numel() == 0:
            return
        self.sums.index_add_(0, moved, self.met.given.index_select(0, added))
        weight = self.met.weight
        counted = (
            self.counts.new_ones(1).expand_as(moved) if weight is None else weight.index_select(0, added)
        )
        self.counts.index_add_(0, moved, counted)
        self._look(moved)
        if self.play.learned_order:
            changed = torch.zeros_like(self.remaining, dtype=torch.bool).index_fill_(0, moved, True)
            stale = changed.index_select(0, self.live_episode).nonzero().flatten()
            self.score(self.live.index_select(0, stale), self.live_episode.index_select(0, stale))

    def _take_off(self, draw: _Draw) -> None:
        self.remaining.sub_(1).clamp_(min=0)
        left = torch.ones_like(self.live, dtype=torch.bool).index_fill_(0, draw.place, False)
        if draw.ended.numel():
            self.remaining.index_fill_(0, draw.ended, 0)
            left &= self.remaining.index_select(0, self.live_episode) > 0
        place = left.nonzero().flatten()
        self.live = self.live.index_select(0, place)
        self.live_episode = self.live_episode.index_select(0, place)

    def _look(self, moved: Int[Tensor, "moved"]) -> None:
        """Observe the present state of some episodes."""
        policy = self.policy
        for some in moved.split(self.look_chunk):
            counts = self.counts.index_select(0, some)
            row = self.episodes.target_row.index_select(0, some)
            embedded, beliefs = self.view.observe(row, self.sums.index_select(0, some), counts)
            half = policy.target_half(embedded, beliefs, counts)
            self.beliefs.index_copy_(0, some, beliefs)
            self.halves.index_copy_(0, some + self.scores.numel(), half)
            if self.play.can_end:
                self.ending.index_copy_(0, some, policy.score(half + policy.ending_half()))

    def score(self, candidate: Int[Tensor, "n"], episode: Int[Tensor, "n"]) -> None:
        """Score candidates in the present state of their episodes, in chunks that fit the cache."""
        for some, owner in zip(
            candidate.split(self.score_chunk), episode.split(self.score_chunk), strict=True
        ):
            self.scores.scatter_(0, some, self._score(some, owner))

    def _score(self, candidate: Int[Tensor, "n"], episode: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        rows, weights = self.rows[: candidate.numel()], self.weights[: candidate.numel()]
        rows[:, 0] = candidate
        torch.add(episode, self.scores.numel(), out=rows[:, 1])
        if self.policy.extras:
            other = self.met.beliefs.index_select(0, candidate)
            weights[:, 2] = agreement(self.beliefs.index_select(0, episode), other)
        # a bag of embeddings: gather, weight and add up in one pass over memory
        first_layer = F.embedding_bag(rows, self.halves, mode="sum", per_sample_weights=weights)
        return self.policy.score(first_layer)


def play_stepwise(policy: Policy, view: View, episodes: Episodes, met: Met, play: Play) -> Played:
    """Play every episode of a batch to its end, a decision of each at a time."""
    board = _Board(policy, view, episodes, met, play)
    steps: list[_Step] = []
    number = 0
    if episodes.count:
        board.begin()
    while board.live.numel():
        draw = _draw(board, number)
        step = _keep_or_drop(board, draw, number)
        steps += [step, _end(board, draw, number)] if draw.ended.numel() else [step]
        board.advance(draw, step)
        number += 1
    return _laid_out(board, steps)


def _draw(board: _Board, number: int) -> _Draw:
    """Draw the next neighbour of every running episode, or its end."""
    play, live, owner = board.play, board.live, board.live_episode
    count = int(owner[-1]) + 1
    remaining = board.remaining[:count]
    score = board.scores.index_select(0, live) if play.learned_order else board.scores.new_zeros(live.numel())
    contest = score
    if not (play.greedy and play.learned_order):
        contest = score + gumbels(board.episodes.key.index_select(0, live), 2 * number)
    best = torch.segment_reduce(contest, "max", lengths=remaining, initial=-torch.inf, unsafe=True)
    weight = sum_by_owner(score.exp(), owner, count)
    ended = live[:0]
    if play.can_end:
        ending = board.ending[:count]
        weight = weight + ending.exp()
        if not play.greedy:
            ending = ending + gumbels(board.episodes.ending_key[:count], 2 * number)
        ends = (remaining > 0) & (ending > best)
        ended = ends.nonzero().flatten()
        best = torch.where(ends, torch.inf, best)
    place = (contest >= best.index_select(0, owner)).nonzero().flatten()
    place = _first_of_each(place, owner.index_select(0, place))
    if place.numel() + ended.numel() < int(remaining.count_nonzero()):
        raise GDPNetError(DIVERGED)
    return _Draw(place, ended, weight)


def _first_of_each(place: Int[Tensor, "places"], owner: Int[Tensor, "places"]) -> Int[Tensor, "firsts"]:
    """Return the first of each owner's places, where several drew level; owners must ascend."""
    level = owner[1:] == owner[:-1]
    return place[F.pad(~level, (1, 0), value=True)] if bool(level.any()) else place


def _keep_or_drop(board: _Board, draw: _Draw, number: int) -> _Step:
    """Decide on the neighbours that were drawn."""
    episode = board.live_episode.index_select(0, draw.place)
    candidate = board.live.index_select(0, draw.place)
    if not board.play.learned_order:
        board.score(candidate, episode)
    score = board.scores.index_select(0, candidate)
    if board.play.greedy:
        kept = score > 0
    else:
        key = board.episodes.key.index_select(0, candidate)
        kept = uniforms(key, 2 * number + 1) < torch.sigmoid(score)
    return _Step(number, episode, candidate, kept, score, draw.weight.index_select(0, episode))


def _end(board: _Board, draw: _Draw, number: int) -> _Step:
    """Record the episodes that drew the ending neighbour."""
    candidate = torch.full_like(draw.ended, ENDING)
    kept = torch.zeros_like(candidate, dtype=torch.bool)
    return _Step(number, draw.ended, candidate, kept, board.ending[draw.ended], draw.weight[draw.ended])


def _laid_out(board: _Board, steps: list[_Step]) -> Played:
    """Lay out the decisions by episode and step."""
    episodes = board.episodes
    none = episodes.row[:0]
    numbers, *columns = zip(
        *steps, _Step(0, none, none, none.bool(), board.scores[:0], board.scores[:0]), strict=True
    )
    sizes = torch.tensor([part.numel() for part in columns[0]], device=none.device)
    step = torch.tensor(numbers, device=none.device).repeat_interleave(sizes)
    episode, candidate, kept, score, weight = (torch.cat(column) for column in columns)
    place = offsets_of(torch.bincount(episode, minlength=episodes.count)).index_select(0, episode) + step

    def lay(column: Tensor) -> Tensor:
        return torch.empty_like(column).scatter_(0, place, column)

    return Played(
        lay(episode),
        lay(step),
        lay(candidate),
        lay(kept),
        lay(score),
        lay(weight),
        board.scores,
        board.ending,
    )
