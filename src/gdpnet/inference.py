"""Read a trained policy and aggregator: which neighbours are kept, how surely, and what follows for a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.features import Features, mix_rows, normalise, take_rows
from gdpnet.graph.graph import Graph
from gdpnet.graph.pairs import pair_features
from gdpnet.ragged import ranges, sum_by_owner
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.selection.episodes import Episodes, Met, View, begin_episodes
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Play, Rollout, roll_out

_CANDIDATES_AT_ONCE = 1 << 17
_MEET_CHUNK = 1 << 12

_CIRCLE_EPISODES = 2
"""Sampled episodes of a target's neighbours: fewer than its own, as they enter only as a mean over many."""


@dataclass(frozen=True)
class Prepared:
    """A graph on a device, with normalised features and pair features, ready for episodes."""

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    back: Int[Tensor, "edges"]
    """The edge that runs the other way; -1 where there is none."""
    features: Features
    pairs: Float[Tensor, "edges pairs"]
    circle: Features
    """What a node can give: its features, or with two hops their mean over itself and its neighbours."""
    edge_weight: Float[Tensor, "edges"] | None
    """With two hops, the weight of each edge in that mean."""

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """Return where the graph lies."""
        return self.row_ptr.device

    def share_of_target(
        self, edge: Int[Tensor, "n"], node: Int[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None:
        """Return the weight of each edge's target in its neighbour's circle, and the circle's whole weight."""
        if self.edge_weight is None:
            return None
        owner = torch.arange(self.num_nodes, device=self.device).repeat_interleave(self.row_ptr.diff())
        whole = 1.0 + sum_by_owner(self.edge_weight, owner, self.num_nodes)
        back = self.back[edge]
        return torch.where(back >= 0, self.edge_weight[back.clamp(min=0)], 0.0), whole[node]


def prepare(graph: Graph, config: Config, device: torch.device) -> Prepared:
    """Normalise features and compute pair features, then move everything to the device."""
    features = normalise(graph.features, config.features.normalise).to(device)
    pairs = pair_features(graph, config.policy.state if config.training.selection else "paper").to(device)
    row_ptr, neighbour = graph.row_ptr.to(device), graph.neighbour.to(device)
    prepared = Prepared(row_ptr, neighbour, graph.reverse.to(device), features, pairs, features, None)
    if config.representation.hops == 1:
        return prepared
    return with_circle(prepared, torch.ones(graph.num_edges, device=device))


def with_circle(prepared: Prepared, weight: Float[Tensor, "edges"]) -> Prepared:
    """Let every node give the mean over itself and its neighbours, weighted."""
    circle = mix_rows(prepared.features, prepared.row_ptr, prepared.neighbour, weight)
    return replace(prepared, circle=circle, edge_weight=weight)


def given_to_target(
    circle: Float[Tensor, "n *width"],
    target: Float[Tensor, "n *width"],
    share: tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None,
) -> Float[Tensor, "n *width"]:
    """Take the target's own part out of the mean that its neighbour gives, so that nothing comes back to it.

    With W the weight of the neighbour's circle and k the target's in it: (W mean - k target) / (W - k).
    """
    if share is None:
        return circle
    own, whole = (part.reshape(-1, *[1] * (circle.dim() - 1)) for part in share)
    return (circle * whole - target * own) / (whole - own)


@torch.no_grad()
def make_view(aggregators: Aggregators, prepared: Prepared, members: slice = slice(0, 1)) -> View:
    """Lay out what the policy sees, a row for each node and each of the members asked for (member by member)."""
    sight = _Sight(aggregators, prepared, members)
    return View(sight.meet, sight.observe)


class _Sight:
    """All nodes as some members see them, projected once."""

    def __init__(self, aggregators: Aggregators, prepared: Prepared, members: slice) -> None:
        self.aggregators, self.prepared = aggregators, prepared
        own = aggregators.project_own(prepared.features, members)
        self.members = own.shape[1]
        self.own = self.given = _member_rows(own)
        if aggregators.self_weight is not None:
            self.given = _member_rows(aggregators.project_given(prepared.features, members))
        self.share = _share_of_each(prepared)
        if self.share is not None:
            circle = _member_rows(aggregators.project_given(prepared.circle, members))
            self.given = torch.cat([circle, self.given])
        self.bias = aggregators.bias[members]
        self.heads = (
            aggregators.head_weight[members].transpose(1, 2).flatten(0, 1)
        )  # members * classes, width
        self.head_bias = aggregators.head_bias[members].t()  # classes, members

    @torch.no_grad()
    def observe(
        self, row: Int[Tensor, "n"], total: Float[Tensor, "n width"], kept: Float[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n width"], Float[Tensor, "n classes"]]:
        """Return h of some rows with what they kept, and the class probabilities that follow."""
        state = self.aggregators.embed(self.own.index_select(0, row), total, kept, self._bias_of(row))
        return state, self._believe(state, row)

    @torch.no_grad()
    def meet(self, episodes: Episodes) -> Met:
        """Return the candidates as their targets meet them, in chunks that fit the cache."""
        count = episodes.row.numel()
        given = self.own.new_empty(count, self.own.shape[1])
        embedded, beliefs = torch.empty_like(given), given.new_empty(count, self.head_bias.shape[0])
        target_row = episodes.target_row.index_select(0, episodes.owner)
        chunk = _MEET_CHUNK if given.device.type == "cpu" else max(count, 1)
        for start in range(0, count, chunk):
            part = slice(start, min(start + chunk, count))
            row = episodes.row[part]
            given[part] = self._give(row, target_row[part], episodes.edge[part])
            torch.add(given[part], self._bias_of(row), out=embedded[part]).relu_()
            beliefs[part] = self._believe(embedded[part], row)
        return Met(given, embedded, beliefs, self.prepared.pairs.index_select(0, episodes.edge))

    def _give(
        self, row: Int[Tensor, "n"], target_row: Int[Tensor, "n"], edge: Int[Tensor, "n"]
    ) -> Float[Tensor, "n width"]:
        if self.share is None:
            return self.given.index_select(0, row)
        both = torch.stack([row, target_row + self.own.shape[0]], dim=1)
        # a bag of embeddings: gather, weight and add up in one pass over memory
        return F.embedding_bag(
            both, self.given, mode="sum", per_sample_weights=self.share.index_select(0, edge)
        )

    def _bias_of(self, row: Int[Tensor, "n"]) -> Float[Tensor, "*any width"]:
        return (
            self.bias[0] if self.members == 1 else self.bias.index_select(0, row // self.prepared.num_nodes)
        )

    def _believe(self, state: Float[Tensor, "n width"], row: Int[Tensor, "n"]) -> Float[Tensor, "n classes"]:
        """Return class probabilities; classes lie first on the way, since rows of a few numbers are slow."""
        scores, bias = self.heads @ state.t(), self.head_bias  # members * classes, n
        if self.members > 1:
            member = row // self.prepared.num_nodes
            bias = bias.index_select(1, member)
            place = member.expand(1, bias.shape[0], -1)
            scores = scores.unflatten(0, (self.members, -1)).gather(0, place)[0]
        return torch.softmax(scores + bias, dim=0).t()


def _share_of_each(prepared: Prepared) -> Float[Tensor, "edges 2"] | None:
    """Return the weights of the neighbour's circle and of the target in what an edge gives.

    They are W / (W - k) and -k / (W - k), as in `given_to_target`.
    """
    everything = torch.arange(prepared.neighbour.numel(), device=prepared.device)
    share = prepared.share_of_target(everything, prepared.neighbour)
    if share is None:
        return None
    own, whole = share
    return torch.stack([whole, -own], dim=1) / (whole - own)[:, None]


def _member_rows(table: Float[Tensor, "nodes members width"]) -> Float[Tensor, "rows width"]:
    return table.transpose(0, 1).flatten(0, 1).contiguous()


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
) -> Selected:
    """Decide on every edge of some targets, greedily or by sampled episodes; keep all where there is no policy.

    With two hops the neighbours of the targets select first, so that what they give is clean.
    """
    if policy is None:
        everything = torch.ones(prepared.neighbour.numel(), device=prepared.device)
        return Selected(everything, everything > 0, prepared)
    prepared = with_selected_circle(policy, aggregators, prepared, targets, config, seed)
    return _decide(policy, aggregators, prepared, targets, config, seed)


def with_selected_circle(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
) -> Prepared:
    """With two hops, let the neighbours of some targets give the mean over what the policy selects for them."""
    if config.representation.hops == 1:
        return prepared
    degree = prepared.row_ptr[targets + 1] - prepared.row_ptr[targets]
    circle = torch.unique(prepared.neighbour[ranges(prepared.row_ptr[targets], degree)[1]])
    first = _decide(policy, aggregators, prepared, circle, config, seed + 1, _CIRCLE_EPISODES)
    return with_circle(prepared, first.weight(config.inference.mode))


def _decide(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    most_episodes: int | None = None,
) -> Selected:
    """Play the targets in the world as it is and gather what became of their edges."""
    edges = prepared.neighbour.numel()
    view = make_view(aggregators, prepared)
    greedy = config.inference.mode == "greedy"
    episodes = 1 if greedy else min(config.inference.episodes, most_episodes or config.inference.episodes)
    total = torch.zeros(edges, device=prepared.device)
    kept = torch.zeros(edges, device=prepared.device)
    decided = torch.zeros(edges, dtype=torch.bool, device=prepared.device)
    play = play_of(config, greedy=greedy)
    for rollout in roll_outs(policy, view, prepared, targets, config, play, seed, copies=episodes):
        edge = rollout.episodes.edge
        total.index_add_(0, edge, rollout.keep_probability)
        kept.index_add_(0, edge, rollout.selected.float())
        decided[edge] = True
    probability = torch.where(decided, total / episodes, 1.0)
    kept_often = kept > 0 if greedy else probability > 0.5
    return Selected(probability, kept_often | ~decided, prepared)


@torch.no_grad()
def represent(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "edges"],
    batch: int = 16384,
) -> tuple[Float[Tensor, "targets width"], Float[Tensor, "targets classes"]]:
    """Return the representations and logits of some targets from their weighted neighbours (member 0)."""
    embeddings, logits = [], []
    for part in torch.split(targets, batch):
        owner, edge = ranges(prepared.row_ptr[part], prepared.row_ptr[part + 1] - prepared.row_ptr[part])
        edge, owner = edge[edge_weight[edge] > 0], owner[edge_weight[edge] > 0]
        nodes, place = torch.unique(prepared.neighbour[edge], return_inverse=True)
        own_rows = take_rows(prepared.features, part)
        own = aggregators.project_own(own_rows, slice(0, 1))[:, 0]
        circle = aggregators.project_given(take_rows(prepared.circle, nodes), slice(0, 1))[:, 0]
        single = (
            own if aggregators.self_weight is None else aggregators.project_given(own_rows, slice(0, 1))[:, 0]
        )
        share = prepared.share_of_target(edge, prepared.neighbour[edge])
        given = given_to_target(circle[place], single[owner], share)
        total, weight = add_neighbours(given, owner, edge_weight[edge], part.numel())
        embedded = aggregators.embed(own, total, weight, aggregators.bias[0])
        embeddings.append(embedded)
        logits.append(embedded @ aggregators.head_weight[0] + aggregators.head_bias[0])
    if not embeddings:
        return aggregators.bias.new_zeros(0, aggregators.width), aggregators.bias.new_zeros(
            0, aggregators.classes
        )
    return torch.cat(embeddings), torch.cat(logits)
