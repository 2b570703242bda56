"""Run episodes of a policy: which neighbours of some nodes are kept, and with which probability."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet._core.device import at_once
from gdpnet._core.progress import advance, part
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.prepare import Prepared, with_mean_weight, with_neighbourhoods
from gdpnet.inference.observation import NodeRows, make_view
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.engines.triton_engine import can_share, play_shared
from gdpnet.selection.episodes import Episodes, View, begin_episodes, split_episodes
from gdpnet.selection.play import Play
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout, play_copies, roll_out

_CANDIDATES_AT_ONCE = 1 << 17
_LEAST_CANDIDATES_ON_DEVICE = 1 << 17
_MOST_CANDIDATES_ON_DEVICE = 1 << 24

T = TypeVar("T")

Localise = Callable[[Episodes], tuple[View, Episodes]]
"""Return a view that holds the rows of some episodes alone, and the episodes with the places of these rows."""


def play_of(config: Config, *, greedy: bool) -> Play:
    """Return how episodes are played with this configuration."""
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
) -> Iterator[Rollout]:
    """Play one episode per target, in batches that fit into memory."""
    shift = torch.zeros_like(targets) if row_shift is None else row_shift
    batches = _batches(
        prepared, targets, config, seed, _candidates_of_a_batch(prepared.device), row_shift=shift
    )
    for played in _in_halves(batches, partial(roll_out, policy, view, play=play)):
        yield played[1]
        del played  # before the next batch is played


def _batches(
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    most: int,
    *,
    shared_keys: bool = False,
    **columns: Int[Tensor, "targets"],
) -> Iterator[Episodes]:
    """Begin the episodes of some targets, in batches of about ``most`` candidates."""
    degree = prepared.row_ptr[targets + 1] - prepared.row_ptr[targets]
    sizes = [targets.numel()] if targets.numel() else []
    if targets.numel() and int(degree.sum()) > most:
        part = (degree.cumsum(0) - 1).clamp(min=0) // most
        sizes = torch.unique_consecutive(part, return_counts=True)[1].tolist()
    for number, some in enumerate(torch.arange(targets.numel(), device=targets.device).split(sizes), start=1):
        episodes = begin_episodes(
            prepared.row_ptr,
            prepared.neighbour,
            targets[some],
            max_candidates=config.policy.max_candidates,
            seed=seed,
            shared_keys=shared_keys,
            numbers=prepared.numbers,
            **{name: column[some] for name, column in columns.items()},
        )
        yield from split_episodes(episodes, 2 * most)
        advance(number, len(sizes))


def _in_halves(
    batches: Iterable[Episodes], play_all: Callable[[Episodes], T]
) -> Iterator[tuple[Episodes, T]]:
    """Play batches; if the device runs out of memory, warn once and play a batch's halves."""
    for episodes in batches:
        try:
            played = play_all(episodes)
        except torch.OutOfMemoryError:
            if episodes.count < 2:
                raise
            _say_that_memory_is_short()
            halves = split_episodes(episodes, max(int(episodes.length[0]), episodes.row.numel() // 2))
        else:
            yield episodes, played
            del episodes, played
            continue
        yield from _in_halves(halves, play_all)


@cache
def _say_that_memory_is_short() -> None:
    warnings.warn("the device's memory is short: episodes are played in smaller batches", stacklevel=2)


@dataclass(frozen=True)
class Selected:
    """Decisions on the edges of a block; edges that were not decided on have probability one."""

    probability: Float[Tensor, "block"]
    kept: Bool[Tensor, "block"]
    decided: Bool[Tensor, "block"]
    """Whether the edge was decided on, by its target."""
    prepared: Prepared
    """The graph that was decided on; with two hops, neighbourhood means are over selected neighbours."""

    def weight(self, mode: str) -> Float[Tensor, "block"]:
        """Return the weight of each edge in AGG: zero or one if greedy, its probability if sampled."""
        return self.kept.float() if mode == "greedy" else self.probability

    def averaged_with_reverse(self, first: Float[Tensor, "edges"]) -> Selected:
        """Average each probability with the context decision ``first`` on the reverse edge."""
        reverse_edge = self.prepared.reverse_edge
        mean = (self.probability + first[reverse_edge.clamp(min=0)]) / 2
        has_reverse = self.decided & (reverse_edge >= 0)
        return replace(self, probability=torch.where(has_reverse, mean, self.probability))


class PartDecisions(NamedTuple):
    """What was decided on the edges of a part of a graph, right where it matters for predicting some nodes."""

    cleaned: Float[Tensor, "edges"]
    """The weight of each edge in the cleaned graph."""
    share: Float[Tensor, "edges"]
    """The share of each edge that is kept by its target."""
    mean_weight: Float[Tensor, "edges"] | None
    """As in `Prepared`, after the context decisions."""

    def at(self, edges: Int[Tensor, "some"]) -> PartDecisions:
        """Return the decisions on some edges."""
        return PartDecisions._make(None if one is None else one[edges] for one in self)

    def on(self, prepared: Prepared) -> Selected:
        """Return these as the decisions on a part that was prepared."""
        if self.mean_weight is not None:
            prepared = with_mean_weight(prepared, self.mean_weight)
        return Selected(self.share, self.share > 0, torch.ones_like(self.share, dtype=torch.bool), prepared)


def select(
    policy: Policy | None,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    key: Key,
    fold_model: Int[Tensor, "nodes"] | None = None,
) -> Selected:
    """Decide on every edge of some targets, greedily or by sampled episodes; keep all without a policy.

    The nodes around the targets decide first (`select_context`). If ``symmetrise`` is set, their decisions on
    reverse edges are averaged with those of the targets. Each node is seen by the first aggregator, or by its
    ``fold_model``, such as one that has not learned its label.
    """
    if policy is None:
        return keep_all(prepared)
    with part(0, 2):
        first, prepared = select_context(policy, aggregators, prepared, targets, config, key, fold_model)
    seed = key.fold_in("decide").seed32
    with part(1, 2):
        chosen = decide(policy, aggregators, prepared, targets, config, seed, fold_model)
    if first is None or not config.inference.symmetrise:
        return chosen
    return chosen.averaged_with_reverse(first.probability)


def keep_all(prepared: Prepared) -> Selected:
    """Keep every edge, as without a policy; candidates that are not direct neighbours are dropped."""
    everything = torch.ones(prepared.reverse_edge.numel(), device=prepared.device)
    linked = everything if prepared.edge is None else prepared.linked
    return Selected(linked, linked > 0, everything > 0, prepared)


def select_context(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    key: Key,
    fold_model: Int[Tensor, "nodes"] | None = None,
) -> tuple[Selected | None, Prepared]:
    """Let the nodes around some targets decide first; return their decisions and the resulting graph.

    With two hops its neighbourhood means are over the selected neighbours.
    """
    two_hops, symmetrise = config.representation.hops == 2, config.inference.symmetrise
    if not (two_hops or symmetrise):
        return None, prepared
    nodes = with_neighbours(prepared, targets)
    if two_hops and symmetrise:
        nodes = with_neighbours(prepared, nodes)
    seed, episodes = key.fold_in("context").seed32, config.inference.context_episodes
    first = decide(policy, aggregators, prepared, nodes, config, seed, fold_model, episodes)
    if not two_hops:
        return first, prepared
    weight = first.weight(config.inference.mode)
    return first, with_neighbourhoods(prepared, prepared.symmetrise(weight) if symmetrise else weight)


def edges_of(
    prepared: Prepared, nodes: Int[Tensor, "nodes"]
) -> tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]]:
    """Return the edges of some nodes: for each the place of its target among the nodes, and its number."""
    start = prepared.row_ptr[nodes]
    return ranges(start, prepared.row_ptr[nodes + 1] - start)


def with_neighbours(prepared: Prepared, nodes: Int[Tensor, "nodes"]) -> Int[Tensor, "around"]:
    """Return some nodes and all their neighbours, each once."""
    return torch.unique(torch.cat([nodes, prepared.neighbour[edges_of(prepared, nodes)[1]]]))


def decide(
    policy: Policy,
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    config: Config,
    seed: int,
    fold_model: Int[Tensor, "nodes"] | None = None,
    most_episodes: int | None = None,
    rows: NodeRows | None = None,
    localise: Localise | None = None,
) -> Selected:
    """Run episodes of the targets without a context pass; the block must hold all their edges.

    ``localise`` gives each batch a view of its own, where the rows of all nodes do not fit into memory.
    """
    fold_models = slice(0, 1) if fold_model is None else slice(None)
    view = localise or make_view(aggregators, prepared, fold_models, rows)
    shift = torch.zeros_like(targets) if fold_model is None else fold_model[targets] * prepared.num_nodes
    greedy = config.inference.mode == "greedy"
    episodes = 1 if greedy else min(config.inference.episodes, most_episodes or config.inference.episodes)
    total = torch.zeros(prepared.reverse_edge.numel(), device=prepared.device)
    kept, decided = torch.zeros_like(total), torch.zeros_like(total, dtype=torch.bool)
    play, all_copies, most = (
        play_of(config, greedy=greedy),
        play_copies,
        _candidates_of_a_batch(prepared.device),
    )
    # all copies together on a GPU; a single one is faster with one program per episode
    shares = episodes > 1 and fold_model is None and prepared.graph_weight is None
    if shares and isinstance(view, View) and can_share(view, prepared.device, config.policy.max_candidates):
        all_copies, most = play_shared, candidates_at_once(policy, prepared.device)

    def play_all(batch: Episodes) -> tuple[Tensor, Tensor]:
        seen, local = (view, batch) if isinstance(view, View) else view(batch)
        return all_copies(policy, seen, local, play=play, copies=episodes)

    batches = _batches(prepared, targets, config, seed, most, shared_keys=True, row_shift=shift)
    for batch, (keep_probability, times_kept) in _in_halves(batches, play_all):
        place = batch.edge - prepared.first_edge
        total.index_add_(0, place, keep_probability)
        kept.index_add_(0, place, times_kept)
        decided[place] = True
    probability = torch.where(decided, total / episodes, 1.0)
    is_kept = kept > 0 if greedy else probability > 0.5
    return Selected(probability, is_kept | ~decided, decided, prepared)


def _candidates_of_a_batch(device: torch.device) -> int:
    return _CANDIDATES_AT_ONCE if device.type == "cpu" else _LEAST_CANDIDATES_ON_DEVICE


def candidates_at_once(policy: Policy, device: torch.device) -> int:
    """Return how many candidates fit into half of a GPU's free memory, sixteen million at most.

    A candidate takes three rows of embedding width, one of the policy's first layer, and half a kilobyte.
    """
    if device.type != "cuda":
        return _CANDIDATES_AT_ONCE
    each = 4 * (3 * policy.neighbour_weight.shape[0] + policy.first_bias.numel()) + 512
    return at_once(device, _LEAST_CANDIDATES_ON_DEVICE, _MOST_CANDIDATES_ON_DEVICE, each)
