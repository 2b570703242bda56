"""Corrupt a graph on purpose: kinds of noise by name, seeded, one after another, and exactly what they changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.data.graph import Graph, Truth
from gdpnet.data.noise import links as noise_links
from gdpnet.data.noise import nodes as noise_values
from gdpnet.data.noise.links import is_directed
from gdpnet.data.noise.nodes import changed_rows
from gdpnet.errors import GraphError, nearest


@dataclass(frozen=True)
class Noisy:
    """A corrupted graph, whose truth says what is noise, and what was changed to make it.

    Links are listed once, from the lower node to the higher; those of a directed graph as they point.
    ``features_of`` and ``labels_of`` are the nodes whose features or label became others.
    """

    graph: Graph
    added: Int[Tensor, "2 added"]
    removed: Int[Tensor, "2 removed"]
    features_of: Int[Tensor, "_"]
    labels_of: Int[Tensor, "_"]


Noise = Callable[[Graph, float, int], Noisy]
"""Takes a graph, a rate and a seed."""

_CHANGES: dict[str, Callable[[Graph, float, np.random.Generator], Graph]] = {
    "random-links": noise_links.add_random_links,
    "cross-class-links": noise_links.add_cross_class_links,
    "deleted-links": noise_links.delete_links,
    "rewired-links": noise_links.rewire_links,
    "masked-features": noise_values.mask_features,
    "swapped-features": noise_values.swap_features,
    "gaussian-features": noise_values.blur_features,
    "flipped-bits": noise_values.flip_bits,
    "flipped-labels": noise_values.flip_labels,
    "pair-labels": noise_values.pair_labels,
    "hidden-labels": noise_values.hide_labels,
}

MULTIPLES = ("random-links", "cross-class-links", "gaussian-features")
"""Kinds whose rate may be over one; that of the others is a share."""


def _noise(kind: str) -> Noise:
    def apply(graph: Graph, rate: float, seed: int) -> Noisy:
        check_rate(kind, rate)
        after = _CHANGES[kind](graph, rate, np.random.default_rng(seed)) if rate else graph
        return compare(graph, after)

    return apply


NOISES: dict[str, Noise] = {kind: _noise(kind) for kind in _CHANGES}
"""Every kind of noise by the name that a user types."""


def corrupt(graph: Graph, kind: str, rate: float, seed: int, noises: Mapping[str, Noise] = NOISES) -> Noisy:
    """Corrupt a graph with one kind of noise; one seed, one result."""
    check_kind(kind, noises)
    return noises[kind](graph, rate, seed)


def corrupt_all(
    graph: Graph, steps: Iterable[tuple[str, float]], seed: int, noises: Mapping[str, Noise] = NOISES
) -> Noisy:
    """Corrupt a graph with several kinds of noise in their order; return what all of them changed together.

    What a later one undoes is not a change: a link that was removed and comes back is neither removed nor
    spurious. The first step draws with the seed itself, each further one with a seed made of it and its place.
    """
    after = graph
    for place, (kind, rate) in enumerate(steps):
        own = int(np.random.SeedSequence((seed, place)).generate_state(1)[0]) if place else seed
        after = corrupt(after, kind, rate, own, noises).graph
    return compare(graph, after)


def check_kind(kind: str, known: Iterable[str] = NOISES) -> None:
    """Refuse a kind of noise that is not known."""
    names = list(known)
    if kind not in names:
        raise GraphError(f"there is no noise '{kind}'{nearest(kind, names)}")


def check_rate(kind: str, rate: float) -> None:
    """Refuse a rate that the kind of noise cannot have."""
    if not math.isfinite(rate) or rate < 0:
        raise GraphError(f"the rate of {kind} must be a number from 0, found {rate:g}")
    if rate > 1 and kind not in MULTIPLES:
        raise GraphError(f"the rate of {kind} is a share and must lie between 0 and 1, found {rate:g}")


def compare(before: Graph, after: Graph) -> Noisy:
    """Say what was changed between two graphs of the same nodes, and write it into the later one's truth.

    Spurious are the edges that the earlier graph does not have, and those that it already knew as such;
    likewise corrupted nodes. Clean labels are those that the earlier graph holds for true.
    """
    known = before.truth or Truth(
        torch.zeros(before.num_edges, dtype=torch.bool),
        torch.zeros(before.num_nodes, dtype=torch.bool),
        before.labels,
    )
    features = changed_rows(before.features, after.features)
    place, came_from = _places_in(before, after), _places_in(after, before)
    spurious = torch.ones(after.num_edges, dtype=torch.bool)
    spurious[place >= 0] = known.spurious[place[place >= 0]]
    truth = Truth(spurious, known.corrupted | features, known.clean_labels)
    one_way = is_directed(before) or is_directed(after)
    return Noisy(
        graph=replace(after, truth=truth),
        added=_links(after, place < 0, one_way),
        removed=_links(before, came_from < 0, one_way),
        features_of=features.nonzero().flatten(),
        labels_of=(before.labels != after.labels).nonzero().flatten(),
    )


def _places_in(graph: Graph, other: Graph) -> Int[Tensor, "edges"]:
    """Return for each edge of the other graph its place in this one, -1 where it has none."""
    here, wanted = (one.target * one.num_nodes + one.neighbour for one in (graph, other))
    if here.numel() == 0:
        return torch.full_like(wanted, -1)
    place = torch.searchsorted(here, wanted).clamp(max=here.numel() - 1)
    return torch.where(here[place] == wanted, place, -1)


def _links(graph: Graph, chosen: Tensor, one_way: bool) -> Int[Tensor, "2 links"]:
    ends = torch.stack([graph.neighbour[chosen], graph.target[chosen]])
    return ends if one_way else ends[:, ends[0] < ends[1]]
