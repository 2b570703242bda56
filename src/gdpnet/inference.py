"""Read a trained policy and aggregator: which neighbours are kept, how surely, and what follows for a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.features import Features, mix_rows, normalise, take_rows
from gdpnet.graph.graph import Graph
from gdpnet.graph.pairs import pair_features
from gdpnet.ragged import ranges
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Play, Rollout, roll_out

_CANDIDATES_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Prepared:
    """A graph on a device, with normalised features and pair features, ready for episodes."""

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    features: Features
    given: Features
    """What a node gives to its neighbours: its features, or with two hops their mean over its neighbourhood."""
    pairs: Float[Tensor, "edges pairs"]

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """Return where the graph lies."""
        return self.row_ptr.device


def prepare(graph: Graph, config: Config, device: torch.device) -> Prepared:
    """Normalise features and compute pair features, then move everything to the device."""
    features = normalise(graph.features, config.features.normalise)
    pairs = pair_features(graph, config.policy.state if config.training.selection else "paper")
    features = features.to(device)
    prepared = Prepared(graph.row_ptr.to(device), graph.neighbour.to(device), features, features, pairs.to(device))
    return prepared if config.representation.hops == 1 else with_circle(prepared, torch.ones(graph.num_edges))


def with_circle(prepared: Prepared, weight: Float[Tensor, "edges"]) -> Prepared:
    """Let every node give the mean over itself and its neighbours, weighted."""
    given = mix_rows(prepared.features, prepared.row_ptr, prepared.neighbour, weight)
    return replace(prepared, given=given)


@torch.no_grad()
def make_view(aggregators: Aggregators, prepared: Prepared, members: slice = slice(0, 1)) -> View:
    """Lay out what the policy sees, a row for each node and each of the members asked for (member by member)."""
    own = aggregators.project_own(prepared.features, members)
    given = own if prepared.given is prepared.features and aggregators.self_weight is None else (
        aggregators.project_given(prepared.given, members)
    )
    count = own.shape[1]
    bias, head = aggregators.bias[members], aggregators.head_weight[members]
    head_bias = aggregators.head_bias[members]
    embedded = torch.relu(given + bias)
    logits = torch.einsum("nmd,mdc->nmc", embedded, head) + head_bias
    own_rows = _member_rows(own)
    heads = head.permute(1, 0, 2).flatten(1)  # width, members * classes

    def observe(row: Tensor, total: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        own_row = own_rows.index_select(0, row)
        if count == 1:
            state = aggregators.embed(own_row, total, kept, bias[0])
            return state, torch.softmax(torch.addmm(head_bias[0], state, heads), dim=1)
        member = row // prepared.num_nodes
        state = aggregators.embed(own_row, total, kept, bias.index_select(0, member))
        scores = (state @ heads).unflatten(1, (count, -1))
        scores = scores.gather(1, member[:, None, None].expand(-1, 1, scores.shape[2]))
        return state, torch.softmax(scores[:, 0] + head_bias[member], dim=1)

    return View(
        given=_member_rows(given),
        embedded=_member_rows(embedded),
        beliefs=_member_rows(logits.softmax(dim=2)),
        pairs=prepared.pairs,
        observe=observe,
    )


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
    if config.representation.hops == 2:
        degree = prepared.row_ptr[targets + 1] - prepared.row_ptr[targets]
        circle = torch.unique(prepared.neighbour[ranges(prepared.row_ptr[targets], degree)[1]])
        first = _decide(policy, aggregators, prepared, circle, config, seed + 1)
        prepared = with_circle(prepared, first.weight(config.inference.mode))
    return _decide(policy, aggregators, prepared, targets, config, seed)


def _decide(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
) -> Selected:
    """Play the targets in the world as it is and gather what became of their edges."""
    edges = prepared.neighbour.numel()
    view = make_view(aggregators, prepared)
    greedy = config.inference.mode == "greedy"
    episodes = 1 if greedy else config.inference.episodes
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
        own = aggregators.project_own(take_rows(prepared.features, part), slice(0, 1))
        given = aggregators.project_given(take_rows(prepared.given, nodes), slice(0, 1))
        total, weight = add_neighbours(given[:, 0], owner, place, edge_weight[edge], part.numel())
        embedded = aggregators.embed(own[:, 0], total, weight, aggregators.bias[0])
        embeddings.append(embedded)
        logits.append(embedded @ aggregators.head_weight[0] + aggregators.head_bias[0])
    if not embeddings:
        return aggregators.bias.new_zeros(0, aggregators.width), aggregators.bias.new_zeros(0, aggregators.classes)
    return torch.cat(embeddings), torch.cat(logits)

