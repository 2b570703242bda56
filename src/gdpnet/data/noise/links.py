"""Noise in the links of a graph: more of them, fewer, or others; each function returns the changed graph.

A link is a pair of nodes that are each other's neighbours. Where some edges of a graph run one way only, the
graph is taken as directed and every edge is a link by itself; a new one then points either way by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int

from gdpnet._core.csr import offsets_of
from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.data.sampling import distinct, is_among, untaken
from gdpnet.errors import GraphError

PATIENCE = 100
"""Rounds of swaps without a single possible one after which rewiring gives up."""


@dataclass(frozen=True)
class Links:
    """The links of a graph, once each, and the link that each edge belongs to."""

    ends: Int[np.ndarray, "2 links"]
    of_edge: Int[np.ndarray, "edges"]
    directed: bool

    @property
    def count(self) -> int:
        """Return the number of links."""
        return self.ends.shape[1]

    @classmethod
    def of(cls, graph: Graph) -> Links:
        """Find the links of a graph; those of an undirected one run from the lower node to the higher."""
        ends = np.stack([graph.neighbour.numpy(), graph.target.numpy()])
        if is_directed(graph):
            return cls(ends, np.arange(graph.num_edges), True)
        key, of_edge = np.unique(_undirected_key(ends, graph.num_nodes), return_inverse=True)
        return cls(np.stack([key // graph.num_nodes, key % graph.num_nodes]), of_edge, False)


def is_directed(graph: Graph) -> bool:
    """Say whether some edge has no edge that runs the other way."""
    return bool((graph.reverse < 0).any())


def add_random_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add ``rate`` times as many links as there are, between any nodes that are not linked."""
    return _add_links(graph, rate, rng, np.arange(graph.num_nodes), "random-links", "nodes")


def add_cross_class_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add ``rate`` times as many links as there are, between unlinked nodes of different known classes.

    Where true classes are known they count, not the labels, which may be wrong.
    """
    label = graph.labels if graph.truth is None else graph.truth.clean_labels
    between = "nodes of different known classes"
    return _add_links(graph, rate, rng, label.numpy(), "cross-class-links", between)


def delete_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Remove a share of the links."""
    links = Links.of(graph)
    gone = np.zeros(links.count, dtype=bool)
    gone[rng.permutation(links.count)[: round(rate * links.count)]] = True
    return relinked(graph, ~gone[links.of_edge], np.empty((2, 0), dtype=np.int64), links.directed, rng)


def rewire_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Replace a share of the links by as many new ones, so that every node keeps its degree.

    Two links a-b and c-d become a-d and c-b where neither exists nor existed. A swap takes two links, so one
    link asked for is two. In a directed graph the sources keep their ends: out-degrees stay too.
    """
    links = Links.of(graph)
    wanted = round(rate * links.count)
    wanted = 2 if wanted == 1 else wanted
    ends, swapped = _swap_ends(rng, links, wanted, graph.num_nodes)
    if swapped.sum() < wanted:
        raise GraphError(
            f"rewired-links={rate:g} asks to swap the ends of {wanted:,} of {links.count:,} links, found a way "
            f"for {swapped.sum():,} only; ask for fewer"
        )
    return relinked(graph, ~swapped[links.of_edge], ends[:, swapped], links.directed, rng)


def relinked(
    graph: Graph,
    kept: Bool[np.ndarray, "edges"],
    added: Int[np.ndarray, "2 added"],
    directed: bool,
    rng: np.random.Generator,
) -> Graph:
    """Return the graph with the kept edges and the added links; what was known of its noise is left out.

    Where edges have weights, a new link gets that of a random old one, so that a weight gives none away.
    """
    pairs = added if directed else np.concatenate([added, added[::-1]], axis=1)
    old = np.stack([graph.neighbour.numpy(), graph.target.numpy()])
    source, target = np.concatenate([old[:, kept], pairs], axis=1)
    order = np.argsort(target * graph.num_nodes + source, kind="stable")
    weight = None
    if graph.edge_weight is not None:
        given = graph.edge_weight.numpy()
        drawn = rng.choice(given, added.shape[1]) if given.size else np.ones(added.shape[1], given.dtype)
        weight = torch.from_numpy(np.concatenate([given[kept], np.tile(drawn, 1 if directed else 2)])[order])
    degree = torch.from_numpy(np.bincount(target, minlength=graph.num_nodes))
    return replace(
        graph,
        row_ptr=offsets_of(degree),
        neighbour=torch.from_numpy(source[order]),
        edge_weight=weight,
        truth=None,
    )


class _Pairs:
    """All pairs of nodes of different groups, numbered; nodes of an unknown group are in none."""

    def __init__(self, group: np.ndarray) -> None:
        known = np.flatnonzero(group != UNKNOWN)
        self.node = known[np.argsort(group[known], kind="stable")]
        ordered = group[self.node]
        self.place = np.full(group.size, -1)
        self.place[self.node] = np.arange(self.node.size)
        self.after = np.searchsorted(ordered, ordered, side="right")  # where the next group begins
        self.start = np.concatenate([[0], np.cumsum(self.node.size - self.after)])

    @property
    def count(self) -> int:
        """Return how many pairs there are."""
        return int(self.start[-1])

    def numbers_of(self, ends: np.ndarray) -> np.ndarray:
        """Return the numbers of some pairs, ascending and once each; those that are none are left out."""
        left, right = np.sort(self.place[ends], axis=0)
        left, right = left[left >= 0], right[left >= 0]
        apart = right >= self.after[left]
        left, right = left[apart], right[apart]
        return np.unique(self.start[left] + right - self.after[left])

    def ends_of(self, number: np.ndarray) -> np.ndarray:
        """Return the pairs of some numbers, the lower node first."""
        left = np.searchsorted(self.start, number, side="right") - 1
        right = number - self.start[left] + self.after[left]
        return np.sort(np.stack([self.node[left], self.node[right]]), axis=0)


def _add_links(
    graph: Graph, rate: float, rng: np.random.Generator, group: np.ndarray, kind: str, between: str
) -> Graph:
    links, pairs = Links.of(graph), _Pairs(group)
    wanted = round(rate * links.count)
    taken = pairs.numbers_of(links.ends)
    free = pairs.count - taken.size
    if wanted > free:
        raise GraphError(
            f"{kind}={rate:g} asks for {wanted:,} new links, but only {free:,} pairs of {between} are unlinked"
        )
    owner, rank = distinct(rng, np.array([free]), np.array([wanted]))
    added = pairs.ends_of(untaken(owner, rank, np.array([0, taken.size]), taken, pairs.count))
    if links.directed:
        added = np.where(rng.random(wanted) < 0.5, added, added[::-1])
    return relinked(graph, np.ones(graph.num_edges, dtype=bool), added, links.directed, rng)


def _swap_ends(
    rng: np.random.Generator, links: Links, wanted: int, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Swap the ends of links until so many were; return all ends, and which links were swapped.

    Each round pairs the links asked for at random; one that was swapped may be swapped again for the sake of one
    that was not. Where a round found nothing, other links are asked for, and swapped ones are mixed further.
    """
    asked = rng.permutation(links.count)[:wanted]
    first = np.sort(_key(links.ends, nodes, links.directed))
    ends, swapped = links.ends.copy(), np.zeros(links.count, dtype=bool)
    idle = done = 0
    while done < wanted <= links.count and idle < PATIENCE:
        if idle:
            others = rng.permutation(np.flatnonzero(~swapped))
            asked = np.concatenate([np.flatnonzero(swapped), others[: wanted - done]])
        _swap_round(rng, ends, swapped, asked, first, links.directed, nodes, idle > 0)
        idle = idle + 1 if swapped.sum() == done else 0
        done = int(swapped.sum())
    return ends, swapped


def _swap_round(
    rng: np.random.Generator,
    ends: np.ndarray,
    swapped: np.ndarray,
    asked: np.ndarray,
    first: np.ndarray,
    directed: bool,
    nodes: int,
    mix: bool,
) -> None:
    """Pair the links asked for and swap, in place, the ends of the pairs that give two new links.

    Pairs of which both were swapped are let be, unless ``mix`` asks for all.
    """
    one, two = rng.permutation(asked)[: asked.size // 2 * 2].reshape(2, -1)
    useful = mix | ~(swapped[one] & swapped[two])
    one, two = one[useful], two[useful]
    (a, b), (c, d) = ends[:, one], ends[:, two]
    if not directed:
        turned = rng.random(one.size) < 0.5
        c, d = np.where(turned, d, c), np.where(turned, c, d)
    offered = np.stack([np.stack([a, c]), np.stack([d, b])])  # ends, link of the pair, pair
    key = _key(offered, nodes, directed)
    now = np.sort(_key(ends[:, swapped], nodes, directed))
    good = (offered[0] != offered[1]) & ~is_among(key, first) & ~is_among(key, now) & _is_first(key)
    taken = good.all(axis=0)
    ends[:, one[taken]], ends[:, two[taken]] = offered[:, 0, taken], offered[:, 1, taken]
    swapped[one[taken]] = swapped[two[taken]] = True


def _is_first(key: np.ndarray) -> np.ndarray:
    """Say of each number whether it stands there for the first time."""
    first = np.zeros(key.size, dtype=bool)
    first[np.unique(key, return_index=True)[1]] = True
    return first.reshape(key.shape)


def _key(ends: np.ndarray, nodes: int, directed: bool) -> np.ndarray:
    """Return one number a link."""
    return ends[0] * nodes + ends[1] if directed else _undirected_key(ends, nodes)


def _undirected_key(ends: np.ndarray, nodes: int) -> np.ndarray:
    return np.minimum(ends[0], ends[1]) * nodes + np.maximum(ends[0], ends[1])
