"""Play the policy: draw a neighbour, keep or drop it, maybe stop; all episodes of a batch in step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.errors import GDPNetError
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

    def __init__(self, policy: Policy, view: View, episodes: Episodes) -> None:
        self.policy, self.view, self.episodes = policy, view, episodes
        self.met = met = view.meet(episodes)
        self.sums = met.given.new_zeros(episodes.count, met.given.shape[1])
        self.counts = met.given.new_zeros(episodes.count)
        self.half = met.given.new_zeros(episodes.count, policy.first_bias.numel())
        self.beliefs = met.beliefs.new_zeros(episodes.count, met.beliefs.shape[1])
        self.scores = met.given.new_zeros(episodes.row.numel())
        self.ending = met.given.new_zeros(episodes.count)
        self.neighbour_half = policy.neighbour_half(met.embedded, met.beliefs, met.pairs)
        self.live = torch.arange(episodes.row.numel(), device=met.given.device)
        self.live_episode = episodes.owner
        self.changed = torch.ones(episodes.count, dtype=torch.bool, device=met.given.device)

    def observe(self) -> None:
        """Bring the halves, beliefs and scores of the episodes whose state changed up to date."""
        moved = self.changed.nonzero().flatten()
        if moved.numel() == 0:
            return
        policy = self.policy
        embedded, beliefs = self.view.observe(
            self.episodes.target_row[moved], self.sums.index_select(0, moved), self.counts[moved]
        )
        half = policy.target_half(embedded, beliefs, self.counts[moved])
        self.half[moved], self.beliefs[moved] = half, beliefs
        self.ending[moved] = policy.score(half + policy.ending_half())
        stale = self.changed[self.live_episode].nonzero().flatten()
        for part in torch.split(stale, _SCORE_CHUNK if half.device.type == "cpu" else 1 << 20):
            candidate, episode = self.live[part], self.live_episode[part]
            first = self.neighbour_half.index_select(0, candidate)
            first += self.half.index_select(0, episode)
            if policy.extras:
                other = self.met.beliefs.index_select(0, candidate)
                agree = agreement(self.beliefs.index_select(0, episode), other)
                first.addr_(agree, policy.agreement_weight)
            self.scores[candidate] = policy.score(first)
        self.changed.zero_()


@torch.no_grad()
def roll_out(policy: Policy, view: View, episodes: Episodes, play: Play) -> Rollout:
    """Play every episode of a batch to its end."""
    board = _Board(policy, view, episodes)
    visited_at = torch.full_like(episodes.row, NEVER)
    selected = torch.zeros_like(episodes.row, dtype=torch.bool)
    remaining = episodes.length.clone()
    steps: list[tuple[Tensor, ...]] = []
    step = 0
    while board.live.numel():
        board.observe()
        order_log_prob, candidate, stop = _draw(board, remaining, play, step)
        chosen = (candidate != ENDING).nonzero().flatten()
        drawn = candidate[chosen]
        score = board.scores[drawn]
        keep = (
            score > 0 if play.greedy else uniforms(episodes.key[drawn], 2 * step + 1) < torch.sigmoid(score)
        )
        keep_log_prob = torch.nn.functional.logsigmoid(torch.where(keep, score, -score))
        ended = stop.nonzero().flatten()
        if chosen.numel() + ended.numel() == 0:
            raise GDPNetError("training diverged: scores are no longer numbers; lower the learning rates")
        steps.append(
            (
                torch.cat([chosen, ended]),
                torch.full((chosen.numel() + ended.numel(),), step, device=drawn.device),
                torch.cat([drawn, torch.full_like(ended, ENDING)]),
                torch.cat([keep, torch.zeros_like(ended, dtype=torch.bool)]),
                torch.cat([order_log_prob[chosen], order_log_prob[ended]]),
                torch.cat([keep_log_prob, torch.zeros_like(ended, dtype=score.dtype)]),
            )
        )
        visited_at[drawn] = step
        selected[drawn] = keep
        grown = chosen[keep]
        board.sums[grown] += board.met.given[drawn[keep]]
        board.counts[grown] += 1.0
        board.changed[grown] = True
        remaining[chosen] -= 1
        remaining[ended] = 0
        left = (visited_at[board.live] == NEVER) & ~stop[board.live_episode]
        board.live, board.live_episode = board.live[left], board.live_episode[left]
        step += 1
    board.live = (visited_at == NEVER).nonzero().flatten()
    return _record(board, episodes, play, steps, visited_at, selected)


def _draw(
    board: _Board, remaining: Int[Tensor, "episodes"], play: Play, step: int
) -> tuple[Float[Tensor, "running"], Int[Tensor, "running"], Bool[Tensor, "running"]]:
    """Draw the next neighbour of every running episode; return log-probability, candidate and who stops.

    An episode without a candidate left is over: its entries are -1 and False.
    """
    count = int(board.live_episode[-1]) + 1
    live, owner = board.live, board.live_episode
    score = board.scores[live] if play.learned_order else board.scores.new_zeros(live.numel())
    contest = (
        score if play.greedy and play.learned_order else score + gumbels(board.episodes.key[live], 2 * step)
    )
    best = torch.segment_reduce(contest, "max", lengths=remaining[:count], initial=-torch.inf, unsafe=True)
    running = remaining[:count] > 0
    weight = sum_by_owner(score.exp(), owner, count)
    stop = torch.zeros_like(running)
    if play.can_end:
        ending = board.ending[:count]
        weight = weight + ending.exp()
        contest_ending = (
            ending if play.greedy else ending + gumbels(board.episodes.ending_key[:count], 2 * step)
        )
        stop = running & (contest_ending > best)
    winner = ((contest >= best[owner]) & ~stop[owner]).nonzero().flatten()
    first = torch.ones_like(winner, dtype=torch.bool)
    first[1:] = owner[winner[1:]] != owner[winner[:-1]]
    winner = winner[first]
    candidate = torch.full((count,), ENDING, device=live.device)
    candidate[owner[winner]] = live[winner]
    log_prob = torch.where(stop, board.ending[:count], 0.0) - weight.log()
    log_prob[owner[winner]] += score[winner]
    return log_prob, candidate, stop


def _record(
    board: _Board,
    episodes: Episodes,
    play: Play,
    steps: list[tuple[Tensor, ...]],
    visited_at: Tensor,
    selected: Tensor,
) -> Rollout:
    """Sort the decisions by episode and step, and give every candidate its keep probability.

    A visited candidate has the policy's own probability at its decision. One that was never visited would have
    been drawn before the ending neighbour with chance e^l / (e^l + e^l_e) at the last state, so it has that
    times its keep probability there.
    """
    keep_probability = torch.sigmoid(board.scores)
    if board.live.numel():
        ending = board.ending[episodes.owner[board.live]]
        keep_probability[board.live] *= torch.sigmoid(board.scores[board.live] - ending)
    if not steps:
        empty = torch.zeros(0, dtype=torch.long, device=visited_at.device)
        steps = [(empty, empty, empty, empty.bool(), empty.float(), empty.float())]
    episode, step, candidate, kept, order_log_prob, keep_log_prob = (
        torch.cat(column) for column in zip(*steps, strict=True)
    )
    order = torch.argsort(episode * (int(step.max()) + 1 if step.numel() else 1) + step)
    return Rollout(
        episodes,
        board.met,
        play,
        episode[order],
        step[order],
        candidate[order],
        kept[order],
        order_log_prob[order],
        keep_log_prob[order],
        visited_at,
        selected,
        keep_probability,
    )


def decision_offsets(rollout: Rollout) -> Int[Tensor, "offsets"]:
    """Return where each episode's decisions begin."""
    return offsets_of(torch.bincount(rollout.episode, minlength=rollout.episodes.count))
