"""Noise in the edges of a graph: added, removed or rewired; each function returns the changed graph.

A link is an undirected edge, stored in both directions. In a directed graph, one with some one-way edge, every edge
is a link, and a new link gets a random direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.data.graph import Graph
from gdpnet.data.sampling import distinct, is_among, untaken
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GraphError

PATIENCE = 100
"""Rounds without a possible swap after which rewiring gives up."""


@dataclass(frozen=True)
class Links:
    """The links of a graph, once each, and the link of each edge."""

    ends: Int[np.ndarray, "2 links"]
    of_edge: Int[np.ndarray, "edges"]
    directed: bool
    nodes: int

    @property
    def count(self) -> int:
        """Return the number of links."""
        return self.ends.shape[1]

    @classmethod
    def of(cls, graph: Graph) -> Links:
        """Return the links of a graph; undirected ones run from the lower to the higher node."""
        edges = cls(graph.edge_index.numpy(), np.arange(graph.num_edges), graph.is_directed, graph.num_nodes)
        if edges.directed:
            return edges
        key, of_edge = np.unique(edges.key(edges.ends), return_inverse=True)
        return replace(edges, ends=np.stack(np.divmod(key, graph.num_nodes)), of_edge=of_edge)

    def key(self, ends: Int[np.ndarray, "2 *some"]) -> Int[np.ndarray, "*some"]:
        """Return one number per link between some ends."""
        low, high = ends if self.directed else np.sort(ends, axis=0)
        return low * self.nodes + high


def add_random_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add ``rate`` times as many links as the graph has, between random nodes that are not adjacent."""
    return _add_links(graph, rate, rng, np.arange(graph.num_nodes), "random-links", "nodes")


def add_cross_class_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add ``rate`` times as many links as the graph has, between non-adjacent nodes of different known classes.

    The true classes are used if they are known, as labels may be wrong.
    """
    between = "nodes of different known classes"
    return _add_links(graph, rate, rng, true_classes(graph), "cross-class-links", between)


def true_classes(graph: Graph) -> Int[np.ndarray, "nodes"]:
    """Return the true classes where they are known, else the labels."""
    return (graph.labels if graph.truth is None else graph.truth.clean_labels).numpy()


def delete_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Remove a share of the links."""
    links = Links.of(graph)
    gone = np.zeros(links.count, dtype=bool)
    gone[rng.permutation(links.count)[: round(rate * links.count)]] = True
    return relinked(graph, links, ~gone[links.of_edge], np.empty((2, 0), dtype=np.int64), rng)


def rewire_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Replace a share of the links by as many new ones, so that every node keeps its degree.

    Links a-b and c-d become a-d and c-b if neither exists nor existed. A swap takes two links, so a request for one
    is rounded up to two. In a directed graph, in- and out-degrees stay.
    """
    links = Links.of(graph)
    wanted = round(rate * links.count)
    wanted = 2 if wanted == 1 else wanted
    ends, swapped = _swap_ends(rng, links, wanted)
    if swapped.sum() < wanted:
        raise GraphError(
            f"rewired-links={rate:g} must swap the ends of {wanted:,} of {links.count:,} links, found swaps for "
            f"{swapped.sum():,}; lower the rate"
        )
    return relinked(graph, links, ~swapped[links.of_edge], ends[:, swapped], rng)


def relinked(
    graph: Graph,
    links: Links,
    kept: Bool[np.ndarray, "edges"],
    added: Int[np.ndarray, "2 added"],
    rng: np.random.Generator,
) -> Graph:
    """Return the graph with the kept edges and the added links, without its known noise.

    A new link gets the weight and the edge features of a random old one, so that these do not reveal it.
    """
    both = (added,) if links.directed else (added, added[::-1])
    source, target = np.concatenate([graph.edge_index.numpy()[:, kept], *both], axis=1)
    order = np.argsort(target * graph.num_nodes + source, kind="stable")
    weight, rows = graph.edge_weight, graph.edge_features
    if weight is not None or rows is not None:
        old = rng.integers(0, max(graph.num_edges, 1), size=(added.shape[1],))
        weight = _of_links(weight, kept, old, len(both), order)
        rows = _of_links(rows, kept, old, len(both), order)
    row_ptr = offsets_of(torch.from_numpy(np.bincount(target, minlength=graph.num_nodes)))
    neighbour = torch.from_numpy(source[order])
    return replace(
        graph, row_ptr=row_ptr, neighbour=neighbour, edge_weight=weight, edge_features=rows, truth=None
    )


def _of_links(
    given: Float[Tensor, "edges *columns"] | None,
    kept: Bool[np.ndarray, "edges"],
    old: Int[np.ndarray, "added"],
    directions: int,
    order: Int[np.ndarray, "new_edges"],
) -> Float[Tensor, "new_edges *columns"] | None:
    """Return the values of kept edges and then, in each direction, those of the old edges; all in a new order."""
    if given is None or not given.shape[0]:
        return None if given is None else given.new_ones(order.size, *given.shape[1:])
    place = np.concatenate([np.flatnonzero(kept), *[old] * directions])
    return given[torch.from_numpy(place[order])]


class Pairs:
    """All pairs of nodes of different groups, numbered; nodes of an unknown group are left out."""

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
        """Return the number of pairs."""
        return int(self.start[-1])

    def numbers_of(self, ends: np.ndarray) -> np.ndarray:
        """Return the numbers of some pairs, ascending and unique; pairs within a group are left out."""
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
    links, pairs = Links.of(graph), Pairs(group)
    wanted = round(rate * links.count)
    refuse_too_many(kind, rate, wanted, pairs, links.ends, between)
    added = free_pairs(pairs, links.ends, wanted, rng)
    if links.directed:
        added = np.where(rng.random(wanted) < 0.5, added, added[::-1])
    return relinked(graph, links, np.ones(graph.num_edges, dtype=bool), added, rng)


def refuse_too_many(
    kind: str, rate: float, wanted: int, pairs: Pairs, ends: Int[np.ndarray, "2 links"], between: str
) -> None:
    """Refuse a noise that asks for more new links than there are pairs without one."""
    free = pairs.count - pairs.numbers_of(ends).size
    if wanted > free:
        raise GraphError(
            f"{kind}={rate:g} asks for {wanted:,} new links, but only {free:,} pairs of {between} are unlinked"
        )


def free_pairs(
    pairs: Pairs, ends: Int[np.ndarray, "2 links"], wanted: int, rng: np.random.Generator
) -> Int[np.ndarray, "2 wanted"]:
    """Draw distinct pairs that have no link yet, the lower node first; all are equally likely."""
    taken = pairs.numbers_of(ends)
    owner, rank = distinct(rng, np.array([pairs.count - taken.size]), np.array([wanted]))
    return pairs.ends_of(untaken(owner, rank, np.array([0, taken.size]), taken, pairs.count))


def _swap_ends(rng: np.random.Generator, links: Links, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Swap the ends of links until ``wanted`` of them changed; return all ends, and which links changed.

    Each round pairs the chosen links at random; a swapped link may be swapped again to change another. After a round
    without a swap, other links are chosen and swapped ones are mixed again.
    """
    chosen = rng.permutation(links.count)[:wanted]
    original = np.sort(links.key(links.ends))
    ends, swapped = links.ends.copy(), np.zeros(links.count, dtype=bool)
    idle = done = 0
    while done < wanted <= links.count and idle < PATIENCE:
        if idle:
            others = rng.permutation(np.flatnonzero(~swapped))
            chosen = np.concatenate([np.flatnonzero(swapped), others[: wanted - done]])
        one, two = rng.permutation(chosen)[: chosen.size // 2 * 2].reshape(2, -1)
        if not idle:
            useful = ~(swapped[one] & swapped[two])
            one, two = one[useful], two[useful]
        taken = (original, np.sort(links.key(ends[:, swapped])))
        offered, good = _offer_swaps(rng, links, ends[:, one], ends[:, two], taken)
        one, two = one[good], two[good]
        ends[:, one], ends[:, two] = offered[:, 0, good], offered[:, 1, good]
        swapped[one] = swapped[two] = True
        idle = idle + 1 if swapped.sum() == done else 0
        done = int(swapped.sum())
    return ends, swapped


def _offer_swaps(
    rng: np.random.Generator,
    links: Links,
    first: np.ndarray,
    second: np.ndarray,
    taken: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the links a-d and c-b for pairs of links a-b and c-d, and which pairs give two new links."""
    (a, b), (c, d) = first, second
    if not links.directed:
        turned = rng.random(a.size) < 0.5
        c, d = np.where(turned, d, c), np.where(turned, c, d)
    offered = np.stack([np.stack([a, c]), np.stack([d, b])])  # ends, link of the pair, pair
    key = links.key(offered)
    once = np.zeros(key.size, dtype=bool)
    once[np.unique(key, return_index=True)[1]] = True
    good = (offered[0] != offered[1]) & once.reshape(key.shape)
    for keys in taken:
        good &= ~is_among(key, keys)
    return offered, good.all(axis=0)
