"""Read a trained policy and aggregator: which neighbours are kept, how surely, and what follows for a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.features import Features, mix_into, take_rows
from gdpnet.prepared import Prepared, given_to_target, with_circle
from gdpnet.ragged import offsets_of, ranges
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.representation.reader import Reader
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Play, Rollout, roll_out
from gdpnet.sight import make_view

_CANDIDATES_AT_ONCE = 1 << 17

_CIRCLE_EPISODES = 2
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
    degree = prepared.row_ptr[targets + 1] - prepared.row_ptr[targets]
    part = (degree.cumsum(0) - 1).clamp(min=0) // _CANDIDATES_AT_ONCE
    sizes = torch.unique_consecutive(part, return_counts=True)[1].tolist() if targets.numel() else []
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
        yield roll_out(policy, view, episodes, play)


@dataclass(frozen=True)
class Selected:
    """What the policy made of each edge of some targets; edges of other targets have probability one."""

    probability: Float[Tensor, "edges"]
    kept: Bool[Tensor, "edges"]
    decided: Bool[Tensor, "edges"]
    """Whether the edge's target was asked."""
    prepared: Prepared
    """The graph as the decisions saw it: with two hops, neighbours give the mean over what they selected."""

    def weight(self, mode: str) -> Float[Tensor, "edges"]:
        """Return the weight of each edge in AGG: kept or not if greedy, its probability if sampled."""
        return self.kept.float() if mode == "greedy" else self.probability


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
        everything = torch.ones(prepared.neighbour.numel(), device=prepared.device)
        return Selected(everything, everything > 0, everything > 0, prepared)
    first, prepared = look_around(policy, aggregators, prepared, targets, config, seed, member)
    chosen = _decide(policy, aggregators, prepared, targets, config, seed, member)
    if first is None or not config.inference.both_ways:
        return chosen
    back = prepared.back.clamp(min=0)
    heard = (chosen.probability + first.probability[back]) / 2
    theirs = chosen.decided & (prepared.back >= 0)
    return replace(chosen, probability=torch.where(theirs, heard, chosen.probability))


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
    first = _decide(policy, aggregators, prepared, everyone, config, seed + 1, member, _CIRCLE_EPISODES)
    if not two_hops:
        return first, prepared
    weight = first.weight(config.inference.mode)
    return first, with_circle(prepared, prepared.both_ways(weight) if both_ways else weight)


def _neighbours_of(prepared: Prepared, nodes: Int[Tensor, "nodes"]) -> Int[Tensor, "neighbours"]:
    degree = prepared.row_ptr[nodes + 1] - prepared.row_ptr[nodes]
    return prepared.neighbour[ranges(prepared.row_ptr[nodes], degree)[1]]


def _decide(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    member: Int[Tensor, "nodes"] | None = None,
    most_episodes: int | None = None,
) -> Selected:
    """Play the targets in the world as it is and gather what became of their edges."""
    edges = prepared.neighbour.numel()
    view = (
        make_view(aggregators, prepared) if member is None else make_view(aggregators, prepared, slice(None))
    )
    shift = None if member is None else member[targets] * prepared.num_nodes
    greedy = config.inference.mode == "greedy"
    episodes = 1 if greedy else min(config.inference.episodes, most_episodes or config.inference.episodes)
    total = torch.zeros(edges, device=prepared.device)
    kept = torch.zeros(edges, device=prepared.device)
    decided = torch.zeros(edges, dtype=torch.bool, device=prepared.device)
    play = play_of(config, greedy=greedy)
    for rollout in roll_outs(policy, view, prepared, targets, config, play, seed, shift, copies=episodes):
        edge = rollout.episodes.edge
        total.index_add_(0, edge, rollout.keep_probability)
        kept.index_add_(0, edge, rollout.selected.float())
        decided[edge] = True
    probability = torch.where(decided, total / episodes, 1.0)
    kept_often = kept > 0 if greedy else probability > 0.5
    return Selected(probability, kept_often | ~decided, decided, prepared)


@torch.no_grad()
def represent(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "edges"],
    reader: Reader | None = None,
    batch: int = 16384,
) -> tuple[Float[Tensor, "targets width"], Float[Tensor, "targets classes"]]:
    """Return the representations of some targets from their weighted neighbours, and their log-probabilities.

    The reader has the say if there is one, else AGG. Representations are those of member 0; the probability of a
    class is the mean over all members.
    """
    embeddings, chances = [], []
    for part in torch.split(targets, batch):
        if reader is None:
            hidden, votes = see(aggregators, prepared, part, edge_weight)
        else:
            hidden = reader.embed(rings_of(prepared, part, edge_weight))
            votes = reader.votes(hidden)
        embeddings.append(hidden[:, 0])
        chances.append(votes.mean(dim=1).log())
    if not embeddings:
        return aggregators.bias.new_zeros(0, aggregators.width), aggregators.bias.new_zeros(
            0, aggregators.classes
        )
    return torch.cat(embeddings), torch.cat(chances)


def rings_of(
    prepared: Prepared, targets: Int[Tensor, "targets"], edge_weight: Float[Tensor, "edges"]
) -> list[Features]:
    """Return what a reader reads of some targets: their features, and the means over what was selected, ring by ring.

    The second ring, with two hops alone, is the mean over the first ring's mean and what the neighbours give.
    """
    start = prepared.row_ptr[targets]
    owner, edge = ranges(start, prepared.row_ptr[targets + 1] - start)
    kept = edge_weight[edge] > 0
    edge, owner = edge[kept], owner[kept]
    row_ptr = offsets_of(torch.bincount(owner, minlength=targets.numel()))
    links = (row_ptr, prepared.neighbour[edge], edge_weight[edge])
    own = take_rows(prepared.features, targets)
    first = mix_into(own, prepared.features, *links)
    if prepared.edge_weight is None:
        return [own, first]
    return [own, first, mix_into(first, prepared.circle, *links)]


def see(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "edges"],
) -> tuple[Float[Tensor, "targets members width"], Float[Tensor, "targets members classes"]]:
    """Return every member's embeddings and class probabilities."""
    owner, edge = ranges(prepared.row_ptr[targets], prepared.row_ptr[targets + 1] - prepared.row_ptr[targets])
    edge, owner = edge[edge_weight[edge] > 0], owner[edge_weight[edge] > 0]
    nodes, place = torch.unique(prepared.neighbour[edge], return_inverse=True)
    own_rows = take_rows(prepared.features, targets)
    own = aggregators.project_own(own_rows)
    circle = aggregators.project_given(take_rows(prepared.circle, nodes))
    single = own if aggregators.self_weight is None else aggregators.project_given(own_rows)
    share = prepared.share_of_target(edge, prepared.neighbour[edge])
    given = given_to_target(circle[place], single[owner], share)
    total, weight = add_neighbours(given, owner, edge_weight[edge], targets.numel())
    embedded = aggregators.embed(own, total, weight, aggregators.bias)
    return embedded, aggregators.believe(aggregators.logits(embedded), dim=2)
