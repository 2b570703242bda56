"""Links between nodes of different classes with similar features, which a filter by similarity does not find."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from gdpnet.data.features import normalise
from gdpnet.data.graph import Graph
from gdpnet.data.noise.links import Links, Pairs, free_pairs, refuse_too_many, relinked, true_classes
from gdpnet.data.row_products import Side, row_dots, side_of
from gdpnet.data.sampling import is_among
from gdpnet.data.validation import UNKNOWN

POOL = 128
"""Random nodes among which the most similar one of another class is linked to."""

PAIRS_AT_ONCE = 1 << 21
"""Pairs that are compared at a time, which bounds the memory."""

IDLE = 5
"""Rounds without a new link after which the other links are drawn from all free pairs."""


def add_similar_links(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add ``rate`` times as many links as the graph has, between alike nodes of different known classes.

    One end is a random node, the other the node of largest cosine similarity among `POOL` random ones that have
    another class and are not adjacent to it. The true classes are used if they are known, as labels may be wrong. If
    hardly any pair is free, the last links join random pairs of different classes.
    """
    label = true_classes(graph)
    links, pairs = Links.of(graph), Pairs(label)
    wanted = round(rate * links.count)
    refuse_too_many("similar-links", rate, wanted, pairs, links.ends, "nodes of different known classes")
    added = _alike(graph, label, links, wanted, rng)
    both = np.concatenate([links.ends, added], axis=1)
    added = np.concatenate([added, free_pairs(pairs, both, wanted - added.shape[1], rng)], axis=1)
    if links.directed:
        added = np.where(rng.random(wanted) < 0.5, added, added[::-1])
    return relinked(graph, links, np.ones(graph.num_edges, dtype=bool), added, rng)


def _alike(
    graph: Graph, label: np.ndarray, links: Links, wanted: int, rng: np.random.Generator
) -> Int[np.ndarray, "2 found"]:
    """Return up to ``wanted`` new pairs of alike nodes, the lower node first."""
    known, side = np.flatnonzero(label != UNKNOWN), side_of(normalise(graph.features, "l2"))
    taken = np.unique(_keys(links.ends, graph.num_nodes))
    found, idle = np.empty(0, dtype=np.int64), 0
    while found.size < wanted and idle < IDLE:
        count = min(wanted - found.size, PAIRS_AT_ONCE // POOL)
        one, pool = rng.choice(known, count), rng.choice(known, (count, POOL))
        key = _keys(np.stack(np.broadcast_arrays(one[:, None], pool)), graph.num_nodes)
        fits = (label[pool] != label[one][:, None]) & ~is_among(key, taken)
        best = _cosines(side, one, pool, fits).argmax(axis=1)
        new = np.unique(key[np.arange(count), best][fits.any(axis=1)])
        found, taken = np.concatenate([found, new]), np.sort(np.concatenate([taken, new]))
        idle = 0 if new.size else idle + 1
    return np.stack(np.divmod(found, graph.num_nodes))


def _keys(ends: Int[np.ndarray, "2 *some"], nodes: int) -> Int[np.ndarray, "*some"]:
    """Return one number per pair, whichever node comes first."""
    low, high = np.sort(ends, axis=0)
    return low * nodes + high


def _cosines(
    side: Side, one: Int[np.ndarray, "n"], pool: Int[np.ndarray, "n pool"], fits: Bool[np.ndarray, "n pool"]
) -> Float[np.ndarray, "n pool"]:
    """Return the cosine of each node and each of its pool that fits; minus infinity for the others."""
    row, column = np.nonzero(fits)
    left, right = torch.from_numpy(one[row]), torch.from_numpy(pool[row, column])
    cosine = np.full(fits.shape, -np.inf, dtype=np.float32)
    cosine[row, column] = row_dots(side, left, side, right).numpy()
    return cosine
