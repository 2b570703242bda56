"""Play the policy: draw a neighbour, keep or drop it, maybe stop; all episodes of a batch in step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.ragged import offsets_of, running_sum_before, sum_by_owner
from gdpnet.selection.draws import gumbels, uniforms
from gdpnet.selection.episodes import Episodes, Met, View
from gdpnet.selection.policy import Policy, agreement

ENDING = -1
"""The candidate number of a decision that drew the ending neighbour."""

NEVER = 1 << 30
"""The step of a candidate that was not visited."""

_SCORE_CHUNK = 1 << 13


@dataclass(frozen=True)
class Play:
    """How episodes are played."""

    greedy: bool = False
    learned_order: bool = True
    early_stop: bool = True

    @property
    def can_end(self) -> bool:
        """Return whether the ending neighbour is a candidate; in a random order it is not."""
        return self.early_stop and self.learned_order


@dataclass(frozen=True)
class Rollout:
    """What happened: one row a decision, sorted by episode and step; and what became of each candidate."""

    episodes: Episodes
    met: Met
    play: Play
    episode: Int[Tensor, "decisions"]
    step: Int[Tensor, "decisions"]
    candidate: Int[Tensor, "decisions"]
    kept: Bool[Tensor, "decisions"]
    order_log_prob: Float[Tensor, "decisions"]
    keep_log_prob: Float[Tensor, "decisions"]
    visited_at: Int[Tensor, "candidates"]
    selected: Bool[Tensor, "candidates"]
    keep_probability: Float[Tensor, "candidates"]

    @property
    def decisions(self) -> int:
        """Return the number of decisions."""
        return self.episode.numel()

    @property
    def is_ending(self) -> Bool[Tensor, "decisions"]:
        """Say which decisions drew the ending neighbour."""
        return self.candidate == ENDING

    def states(self) -> tuple[Float[Tensor, "decisions width"], Float[Tensor, "decisions"]]:
        """Return the running sum and count that each decision met."""
        added = self.met.given[self.candidate.clamp(min=0)] * self.kept[:, None]
        return running_sum_before(added, self.episode), running_sum_before(self.kept.float(), self.episode)


class _Board:
    """The moving parts of a roll-out: running sums, scores, and the candidates that are left."""

    def __init__(self, policy: Policy, view: View, episodes: Episodes, play: Play) -> None:
        self.policy, self.view, self.episodes, self.play = policy, view, episodes, play
        self.met = met = view.meet(episodes)
        self.sums = met.given.new_zeros(episodes.count, met.given.shape[1])
        self.counts = met.given.new_zeros(episodes.count)
        self.beliefs = met.beliefs.new_zeros(episodes.count, met.beliefs.shape[1])
        self.scores = met.given.new_zeros(episodes.row.numel())
        self.ending = met.given.new_zeros(episodes.count)
        self.live = torch.arange(episodes.row.numel(), device=met.given.device)
        self.live_episode = episodes.owner
        self.remaining = episodes.length
        self.chunk = _SCORE_CHUNK if met.given.device.type == "cpu" else 1 << 20
        self._lay_halves()

    def _lay_halves(self) -> None:
        """Lay what the first layer adds up in one table: candidates, then episodes, then the agreement weight."""
        policy, met, candidates = self.policy, self.met, self.live.numel()
        rows = candidates + self.episodes.count + policy.extras
        self.halves = met.given.new_empty(rows, policy.first_bias.numel())
        for start in range(0, candidates, self.chunk):
            part = slice(start, min(start + self.chunk, candidates))
            self.halves[part] = policy.neighbour_half(met.embedded[part], met.beliefs[part], met.pairs[part])
        if policy.extras:
            self.halves[-1] = policy.agreement_weight

    def observe(self, moved: Int[Tensor, "moved"]) -> None:
        """Bring the halves and beliefs of the episodes whose state changed up to date, and their scores."""
        for some in torch.split(moved, self.chunk):
            self._observe_targets(some)
        stale = self.live, self.live_episode
        if moved.numel() < self.episodes.count:
            changed = torch.zeros(self.episodes.count, dtype=torch.bool, device=moved.device)
            changed[moved] = True
            place = changed.index_select(0, self.live_episode).nonzero().flatten()
            stale = self.live.index_select(0, place), self.live_episode.index_select(0, place)
        for candidate, episode in zip(*(torch.split(part, self.chunk) for part in stale), strict=True):
            self.scores.scatter_(0, candidate, self._score(candidate, episode))

    def _observe_targets(self, moved: Int[Tensor, "moved"]) -> None:
        policy, counts = self.policy, self.counts.index_select(0, moved)
        row = self.episodes.target_row.index_select(0, moved)
        embedded, beliefs = self.view.observe(row, self.sums.index_select(0, moved), counts)
        half = policy.target_half(embedded, beliefs, counts)
        self.halves.index_copy_(0, self.live_offset(moved), half)
        self.beliefs.index_copy_(0, moved, beliefs)
        if self.play.can_end:
            self.ending.index_copy_(0, moved, policy.score(half + policy.ending_half()))

    def live_offset(self, episode):
        return episode + self.episodes.row.numel()

    def _score(self, candidate: Int[Tensor, "n"], episode: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """Score candidates in their episodes' state; the halves are gathered and added up in one pass."""
        policy = self.policy
        places, weights = [candidate, self.live_offset(episode)], None
        if policy.extras:
            places.append(torch.full_like(candidate, self.halves.shape[0] - 1))
            weights = self.scores.new_ones(candidate.numel(), 3)
            weights[:, 2] = agreement(
                self.beliefs.index_select(0, episode), self.met.beliefs.index_select(0, candidate)
            )
        places = torch.stack(places, dim=1)
        return policy.score(F.embedding_bag(places, self.halves, mode="sum", per_sample_weights=weights))


@torch.no_grad()
def roll_out(policy: Policy, view: View, episodes: Episodes, play: Play) -> Rollout:
    """Play every episode of a batch to its end."""
    board = _Board(policy, view, episodes, play)
    moved = torch.arange(episodes.count, device=episodes.row.device)
    steps: list[_Step] = []
    while board.live.numel():
        board.observe(moved)
        winner, stopped, weight = _draw(board, len(steps))
        chosen, drawn = board.live_episode.index_select(0, winner), board.live.index_select(0, winner)
        score = board.scores.index_select(0, drawn)
        keep = score > 0
        if not play.greedy:
            key = episodes.key.index_select(0, drawn)
            keep = uniforms(key, 2 * len(steps) + 1) < torch.sigmoid(score)
        steps.append(_Step(chosen, drawn, keep, score, weight.index_select(0, chosen), stopped, weight.index_select(0, stopped)))
        moved = board.move(winner, stopped, chosen, drawn, keep)
    return _record(board, steps)


class _Step(NamedTuple):
    chosen: Tensor
    drawn: Tensor
    keep: Tensor
    score: Tensor
    weight: Tensor
    stopped: Tensor
    stopped_weight: Tensor


def move(self, winner, stopped, chosen, drawn, keep):
    self.remaining.sub_(1).clamp_(min=0)
    left = torch.ones_like(self.live, dtype=torch.bool)
    left[winner] = False
    if stopped.numel():
        self.remaining[stopped] = 0
        left &= self.remaining.index_select(0, self.live_episode) > 0
    place = left.nonzero().flatten()
    self.live, self.live_episode = self.live.index_select(0, place), self.live_episode.index_select(0, place)
    grown = (keep & (self.remaining.index_select(0, chosen) > 0)).nonzero().flatten()
    moved = chosen.index_select(0, grown)
    self.sums.index_add_(0, moved, self.met.given.index_select(0, drawn.index_select(0, grown)))
    self.counts.index_add_(0, moved, self.counts.new_ones(1).expand(moved.numel()))
    return moved
_Board.move = move


def _draw(board: _Board, step: int):
    """Draw the next neighbour of every running episode; return where it lives, who stops, and softmax's sum.
    """
    play, live, owner = board.play, board.live, board.live_episode
    count = int(owner[-1]) + 1
    remaining = board.remaining[:count]
    score = board.scores.index_select(0, live) if play.learned_order else board.scores.new_zeros(live.numel())
    contest = score
    if not (play.greedy and play.learned_order):
        contest = score + gumbels(board.episodes.key.index_select(0, live), 2 * step)
    best = torch.segment_reduce(contest, "max", lengths=remaining, initial=-torch.inf, unsafe=True)
    weight = sum_by_owner(score.exp(), owner, count)
    stopped = live[:0]
    if play.can_end:
        ending = board.ending[:count]
        weight = weight + ending.exp()
        if not play.greedy:
            ending = ending + gumbels(board.episodes.ending_key[:count], 2 * step)
        stop = (remaining > 0) & (ending > best)
        stopped = stop.nonzero().flatten()
        best = torch.where(stop, torch.inf, best)
    winner = (contest >= best.index_select(0, owner)).nonzero().flatten()
    episode = owner.index_select(0, winner)
    again = episode[1:] == episode[:-1]
    if bool(again.any()):
        winner = winner[torch.cat([~again[:1] | True, ~again])]
    return winner, stopped, weight


def _record(board: _Board, steps) -> Rollout:
    episodes, play = board.episodes, board.play
    device = board.scores.device
    empty = torch.zeros(0, dtype=torch.long, device=device)
    steps = steps or [_Step(empty, empty, empty.bool(), empty.float(), empty.float(), empty, empty.float())]
    chosen, drawn, keep, score, weight, stopped, stopped_weight = (torch.cat(column) for column in zip(*steps, strict=True))
    number = torch.arange(len(steps), device=device)
    step_of = lambda name: number.repeat_interleave(torch.tensor([getattr(step, name).numel() for step in steps], device=device))
    chosen_step, stopped_step = step_of("chosen"), step_of("stopped")
    visited_at = torch.full_like(episodes.row, NEVER).scatter_(0, drawn, chosen_step)
    selected = torch.zeros_like(episodes.row, dtype=torch.bool).scatter_(0, drawn, keep)
    keep_probability = torch.sigmoid(board.scores)
    never = (visited_at == NEVER).nonzero().flatten()
    if never.numel():
        ending = board.ending[episodes.owner[never]]
        keep_probability[never] *= torch.sigmoid(board.scores[never] - ending)
    episode = torch.cat([chosen, stopped])
    place = offsets_of(torch.bincount(episode, minlength=episodes.count)).index_select(0, episode) + torch.cat([chosen_step, stopped_step])
    regret = score if play.learned_order else torch.zeros_like(score)
    columns = (
        episode,
        torch.cat([chosen_step, stopped_step]),
        torch.cat([drawn, torch.full_like(stopped, ENDING)]),
        torch.cat([keep, torch.zeros_like(stopped, dtype=torch.bool)]),
        torch.cat([regret - weight.log(), board.ending.index_select(0, stopped) - stopped_weight.log()]),
        torch.cat([F.logsigmoid(torch.where(keep, score, -score)), torch.zeros_like(stopped_weight)]),
    )
    return Rollout(
        episodes,
        board.met,
        play,
        *(torch.empty_like(column).scatter_(0, place, column) for column in columns),
        visited_at,
        selected,
        keep_probability,
    )


def decision_offsets(rollout: Rollout) -> Int[Tensor, "offsets"]:
    """Return where each episode's decisions begin."""
    return offsets_of(torch.bincount(rollout.episode, minlength=rollout.episodes.count))
