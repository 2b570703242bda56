"""Let a trained policy decide: which neighbours of some nodes are kept, and how surely."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet.config import Config
from gdpnet.data.prepare import Prepared, with_circle
from gdpnet.inference.observation import NodeRows, make_view
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.engines.triton_shared import can_share, play_shared
from gdpnet.selection.episodes import Episodes, View, begin_episodes, split_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout, roll_out

_CANDIDATES_AT_ONCE = 1 << 17
_MOST_CANDIDATES_ON_DEVICE = 1 << 24

T = TypeVar("T")

CIRCLE_EPISODES = 2
"""Sampled episodes of the nodes around a target: fewer than its own, as they enter only as a mean over many."""


def play_of(config: Config, *, greedy: bool) -> Play:
    """Return how this configuration plays an episode."""
    return Play(greedy, config.policy.order == "learned", config.policy.early_stop)


def roll_outs(
    policy: Policy,
    view: View,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    play: Play,
    seed: int,
    row_shift: Int[Tensor, "targets"] | None = None,
    copies: int = 1,
) -> Iterator[Rollout]:
    """Play all targets, each as often as asked, as many at once as memory allows."""
    number = torch.arange(copies, device=targets.device).repeat(targets.numel())
    targets = targets.repeat_interleave(copies)
    shift = torch.zeros_like(targets) if row_shift is None else row_shift.repeat_interleave(copies)
    sizes = _batches(prepared, targets, _CANDIDATES_AT_ONCE)
    for some, shifts, numbers in zip(
        torch.split(targets, sizes), torch.split(shift, sizes), torch.split(number, sizes), strict=True
    ):
        episodes = begin_episodes(
            prepared.row_ptr,
            prepared.neighbour,
            some,
            row_shift=shifts,
            copy=numbers,
            max_candidates=config.policy.max_candidates,
            seed=seed,
        )
        for few in split_episodes(episodes, 2 * _CANDIDATES_AT_ONCE):
            for _, rollout in _in_halves(few, lambda batch: roll_out(policy, view, batch, play)):
                yield rollout


def _batches(prepared: Prepared, targets: Int[Tensor, "targets"], most: int) -> list[int]:
    """Return the numbers of targets to play together, so that they have about ``most`` candidates."""
    degree = prepared.row_ptr[targets + 1] - prepared.row_ptr[targets]
    part = (degree.cumsum(0) - 1).clamp(min=0) // most
    return torch.unique_consecutive(part, return_counts=True)[1].tolist() if targets.numel() else []


def _in_halves(episodes: Episodes, play_all: Callable[[Episodes], T]) -> Iterator[tuple[Episodes, T]]:
    """Play a batch; where the device has too little memory for it, play its halves, and say so once."""
    try:
        played = play_all(episodes)
    except torch.OutOfMemoryError:
        if episodes.count < 2:
            raise
        _say_that_memory_is_short()
        halves = split_episodes(episodes, max(int(episodes.length[0]), episodes.row.numel() // 2))
    else:
        yield episodes, played
        return
    for half in halves:
        yield from _in_halves(half, play_all)


@cache
def _say_that_memory_is_short() -> None:
    warnings.warn("the device's memory is short: episodes are played in smaller batches", stacklevel=2)


@dataclass(frozen=True)
class Selected:
    """What the policy made of each edge of a block, those of some targets; other edges have probability one."""

    probability: Float[Tensor, "block"]
    kept: Bool[Tensor, "block"]
    decided: Bool[Tensor, "block"]
    """Whether the edge's target was asked."""
    prepared: Prepared
    """The graph as the decisions saw it: with two hops, neighbours give the mean over what they selected."""

    def weight(self, mode: str) -> Float[Tensor, "block"]:
        """Return the weight of each edge in AGG: kept or not if greedy, its probability if sampled."""
        return self.kept.float() if mode == "greedy" else self.probability

    def hearing(self, first: Float[Tensor, "edges"]) -> Selected:
        """Take in what the neighbour of each link first decided about it: the mean of both counts."""
        back = self.prepared.back
        heard = (self.probability + first[back.clamp(min=0)]) / 2
        theirs = self.decided & (back >= 0)
        return replace(self, probability=torch.where(theirs, heard, self.probability))


def select(
    policy: Policy | None,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    member: Int[Tensor, "nodes"] | None = None,
) -> Selected:
    """Decide on every edge of some targets, greedily or by sampled episodes; keep all where there is no policy.

    The nodes around the targets select first: with two hops what they give is then clean, and what the neighbour
    of a link decided about the target counts as a second opinion on that link. Every node plays as the first
    member sees it, or as the member that is named for it, such as one that never learned its label.
    """
    if policy is None:
        return keep_all(prepared)
    first, prepared = look_around(policy, aggregators, prepared, targets, config, seed, member)
    chosen = decide(policy, aggregators, prepared, targets, config, seed, member)
    return chosen if first is None or not config.inference.both_ways else chosen.hearing(first.probability)


def keep_all(prepared: Prepared) -> Selected:
    """Keep every edge, as a model without a policy does; nodes farther away than neighbours are not heard then."""
    everything = torch.ones(prepared.back.numel(), device=prepared.device)
    linked = everything if prepared.edge is None else prepared.linked
    return Selected(linked, linked > 0, everything > 0, prepared)


def look_around(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    member: Int[Tensor, "nodes"] | None = None,
) -> tuple[Selected | None, Prepared]:
    """Let the nodes around some targets select first; return what they did, and the graph as it then is.

    With two hops the neighbours of the targets then give the mean over what was selected for them.
    """
    two_hops, both_ways = config.representation.hops == 2, config.inference.both_ways
    if not (two_hops or both_ways):
        return None, prepared
    around = torch.cat([targets, _neighbours_of(prepared, targets)])
    if two_hops and both_ways:
        around = torch.cat([around, _neighbours_of(prepared, torch.unique(around))])
    everyone = torch.unique(around)
    first = decide(policy, aggregators, prepared, everyone, config, seed + 1, member, CIRCLE_EPISODES)
    if not two_hops:
        return first, prepared
    weight = first.weight(config.inference.mode)
    return first, with_circle(prepared, prepared.both_ways(weight) if both_ways else weight)


def _neighbours_of(prepared: Prepared, nodes: Int[Tensor, "nodes"]) -> Int[Tensor, "neighbours"]:
    degree = prepared.row_ptr[nodes + 1] - prepared.row_ptr[nodes]
    return prepared.neighbour[ranges(prepared.row_ptr[nodes], degree)[1]]


def decide(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    member: Int[Tensor, "nodes"] | None = None,
    most_episodes: int | None = None,
    rows: NodeRows | None = None,
) -> Selected:
    """Play the targets in the world as it is and gather what became of their edges, which a block must hold."""
    edges = prepared.back.numel()
    view = make_view(aggregators, prepared, slice(0, 1) if member is None else slice(None), rows)
    shift = None if member is None else member[targets] * prepared.num_nodes
    greedy = config.inference.mode == "greedy"
    episodes = 1 if greedy else min(config.inference.episodes, most_episodes or config.inference.episodes)
    total = torch.zeros(edges, device=prepared.device)
    kept = torch.zeros(edges, device=prepared.device)
    decided = torch.zeros(edges, dtype=torch.bool, device=prepared.device)
    play = play_of(config, greedy=greedy)
    plain = shift is None and prepared.given_weight is None
    if plain and can_share(view, prepared.device, config.policy.max_candidates):
        played = _play_copies(policy, view, prepared, targets, config, play, seed, episodes)
    else:
        found = roll_outs(policy, view, prepared, targets, config, play, seed, shift, copies=episodes)
        played = ((each.episodes.edge, each.keep_probability, each.selected.float()) for each in found)
    for edge, chance, times in played:
        place = edge - prepared.first_edge
        total.index_add_(0, place, chance)
        kept.index_add_(0, place, times)
        decided[place] = True
    probability = torch.where(decided, total / episodes, 1.0)
    kept_often = kept > 0 if greedy else probability > 0.5
    return Selected(probability, kept_often | ~decided, decided, prepared)


def _play_copies(
    policy: Policy,
    view: View,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    play: Play,
    seed: int,
    copies: int,
) -> Iterator[tuple[Int[Tensor, "some"], Float[Tensor, "some"], Float[Tensor, "some"]]]:
    """Play all targets on a GPU, every copy over the same rows; yield edges, summed keep chances, times kept."""
    most = candidates_at_once(policy, prepared.device)
    for some in torch.split(targets, _batches(prepared, targets, most)):
        episodes = begin_episodes(
            prepared.row_ptr,
            prepared.neighbour,
            some,
            max_candidates=config.policy.max_candidates,
            seed=seed,
            shared_keys=True,
        )
        for few in split_episodes(episodes, 2 * most):
            for batch, (chance, times) in _in_halves(
                few, lambda batch: play_shared(policy, view, batch, play, copies)
            ):
                yield batch.edge, chance, times


def candidates_at_once(policy: Policy, device: torch.device) -> int:
    """Return how many candidates a GPU plays together: half of its free memory, sixteen million at most.

    A candidate has three rows as wide as a representation and one as wide as the policy's first layer, and about
    half a kilobyte of numbers beside them.
    """
    if device.type != "cuda":
        return _CANDIDATES_AT_ONCE
    free = torch.cuda.mem_get_info(device)[0]
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    each = 4 * (3 * policy.neighbour_weight.shape[0] + policy.first_bias.numel()) + 512
    return max(_CANDIDATES_AT_ONCE, min(free // 2 // each, _MOST_CANDIDATES_ON_DEVICE))
