"""Corrupt a graph with seeded noise by name, and record exactly what changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows
from gdpnet.config import checked_seed
from gdpnet.data.graph import Graph, Truth
from gdpnet.data.noise import links as noise_links
from gdpnet.data.noise import nodes as noise_nodes
from gdpnet.data.noise.nodes import changed_rows
from gdpnet.data.noise.similar_links import add_similar_links
from gdpnet.errors import GraphError, nearest


@dataclass(frozen=True)
class Noisy:
    """A corrupted graph, whose truth marks the noise, and the changes.

    Undirected links are listed once, from the lower to the higher node. ``features_of`` and ``labels_of`` are the
    nodes whose features or labels changed.
    """

    graph: Graph
    added: Int[Tensor, "2 added"]
    removed: Int[Tensor, "2 removed"]
    features_of: Int[Tensor, "_"]
    labels_of: Int[Tensor, "_"]


Noise = Callable[[Graph, float, int], Noisy]
"""A function of a graph, a rate and a seed."""

_CHANGES: dict[str, Callable[[Graph, float, np.random.Generator], Graph]] = {
    "random-links": noise_links.add_random_links,
    "cross-class-links": noise_links.add_cross_class_links,
    "similar-links": add_similar_links,
    "deleted-links": noise_links.delete_links,
    "rewired-links": noise_links.rewire_links,
    "masked-features": noise_nodes.mask_features,
    "swapped-features": noise_nodes.swap_features,
    "gaussian-features": noise_nodes.blur_features,
    "flipped-bits": noise_nodes.flip_bits,
    "flipped-labels": noise_nodes.flip_labels,
    "pair-labels": noise_nodes.pair_labels,
    "hidden-labels": noise_nodes.hide_labels,
}

MULTIPLES = ("random-links", "cross-class-links", "similar-links", "gaussian-features")
"""Kinds whose rate may exceed one; other rates are shares."""


def _apply(kind: str, graph: Graph, rate: float, seed: int) -> Noisy:
    check_rate(kind, rate)
    after = _CHANGES[kind](graph, rate, np.random.default_rng(seed)) if rate else graph
    return compare(graph, after)


NOISES: dict[str, Noise] = {kind: partial(_apply, kind) for kind in _CHANGES}
"""Every kind of noise by name."""


def corrupt(graph: Graph, kind: str, rate: float, seed: int, noises: Mapping[str, Noise] = NOISES) -> Noisy:
    """Corrupt a graph with one kind of noise."""
    check_kind(kind, noises)
    seed = checked_seed(seed)
    return noises[kind](graph, rate, seed)


def corrupt_all(
    graph: Graph, steps: Iterable[tuple[str, float]], seed: int, noises: Mapping[str, Noise] = NOISES
) -> Noisy:
    """Corrupt a graph with several kinds of noise in order; return their combined change.

    A change that a later step undoes does not count: a link that is removed and added again is neither removed nor
    spurious. The first step uses the seed itself, later ones a seed derived from it and their position.
    """
    after = graph
    for place, (kind, rate) in enumerate(steps):
        own = int(np.random.SeedSequence((seed, place)).generate_state(1)[0]) if place else seed
        after = corrupt(after, kind, rate, own, noises).graph
    return compare(graph, after)


def count_edges(before: Graph, noisy: Noisy) -> dict[str, int]:
    """Count the directed edges before and after the noise, and those that it added and removed."""
    each = 1 if before.is_directed or noisy.graph.is_directed else 2
    return {
        "edges_before": before.num_edges,
        "edges_added": each * noisy.added.shape[1],
        "edges_removed": each * noisy.removed.shape[1],
        "edges_after": noisy.graph.num_edges,
    }


def check_kind(kind: str, known: Iterable[str] = NOISES) -> None:
    """Refuse an unknown kind of noise."""
    names = list(known)
    if kind not in names:
        raise GraphError(f"there is no noise '{kind}'{nearest(kind, names)}")


def check_rate(kind: str, rate: float) -> None:
    """Refuse a rate that a kind of noise cannot have."""
    if not math.isfinite(rate) or rate < 0:
        raise GraphError(f"the rate of {kind} must be a number from 0, found {rate:g}")
    if rate > 1 and kind not in MULTIPLES:
        raise GraphError(f"the rate of {kind} is a share and must lie between 0 and 1, found {rate:g}")


def compare(before: Graph, after: Graph) -> Noisy:
    """Return what changed between two graphs of the same nodes, with the truth of the later one.

    An edge is spurious if the earlier graph does not have it or marks it as spurious; likewise for corrupted nodes.
    Clean labels are those of the earlier graph.
    """
    known = before.truth or Truth(
        torch.zeros(before.num_edges, dtype=torch.bool),
        torch.zeros(before.num_nodes, dtype=torch.bool),
        before.labels,
    )
    features = changed_rows(before.features, after.features)
    place = find_in_rows(before.row_ptr, before.neighbour, after.target, after.neighbour)
    came_from = find_in_rows(after.row_ptr, after.neighbour, before.target, before.neighbour)
    spurious = torch.ones(after.num_edges, dtype=torch.bool)
    spurious[place >= 0] = known.spurious[place[place >= 0]]
    truth = Truth(spurious, known.corrupted | features, known.clean_labels)
    directed = before.is_directed or after.is_directed
    return Noisy(
        graph=replace(after, truth=truth),
        added=_links(after, place < 0, directed),
        removed=_links(before, came_from < 0, directed),
        features_of=features.nonzero().flatten(),
        labels_of=(before.labels != after.labels).nonzero().flatten(),
    )


def _links(graph: Graph, chosen: Tensor, directed: bool) -> Int[Tensor, "2 links"]:
    ends = graph.edge_index[:, chosen]
    return ends if directed else ends[:, ends[0] < ends[1]]
