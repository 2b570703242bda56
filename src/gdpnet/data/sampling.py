"""Sample without replacement in many rows at once, and a subgraph of bounded size around some nodes.

The work grows with the sample, not with the population.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet.data.graph import Graph

_TRIALS = 6
"""Core sizes that are tried when the whole core of a subgraph does not fit."""


def distinct(
    rng: np.random.Generator, size: Int[np.ndarray, "rows"], count: Int[np.ndarray, "rows"]
) -> tuple[Int[np.ndarray, "sampled"], Int[np.ndarray, "sampled"]]:
    """Sample ``count[i]`` distinct numbers below ``size[i]`` for each row i, uniformly.

    Returns the row of each number and the number; both ascend. Rows of which more than half is sampled are shuffled
    whole, so that rejection in the other rows accepts at least every second number.
    """
    end = np.cumsum(size)
    start = end - size
    crowded = 2 * count > size
    shuffled = _by_order(rng, start, np.where(crowded, size, 0), count)
    key = np.sort(np.concatenate([shuffled, _by_rejection(rng, start, size, np.where(crowded, 0, count))]))
    owner = np.searchsorted(end, key, side="right")
    return owner, key - start[owner]


def is_among(value: Int[np.ndarray, "*n"], ascending: Int[np.ndarray, "_"]) -> Bool[np.ndarray, "*n"]:
    """Return whether each value is in an ascending array."""
    if ascending.size == 0:
        return np.zeros(value.shape, dtype=bool)
    place = np.searchsorted(ascending, value)
    return ascending[np.minimum(place, ascending.size - 1)] == value


def untaken(
    owner: Int[np.ndarray, "wanted"],
    rank: Int[np.ndarray, "wanted"],
    row_ptr: Int[np.ndarray, "offsets"],
    taken: Int[np.ndarray, "taken"],
    width: int,
) -> Int[np.ndarray, "wanted"]:
    """Return the ``rank``-th free number below ``width`` of each row, where some numbers are taken.

    The taken numbers of a row ascend. The j-th of them, t_j, has t_j - j free numbers before it; so the free number
    of rank r is r plus the count of j with t_j - j <= r.
    """
    row = np.repeat(np.arange(row_ptr.size - 1), np.diff(row_ptr))
    before = taken - (np.arange(taken.size) - row_ptr[row])
    place = np.searchsorted(row * (width + 1) + before, owner * (width + 1) + rank, side="right")
    return rank + place - row_ptr[owner]


def _by_order(rng: np.random.Generator, start: np.ndarray, size: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Shuffle whole rows and take the first numbers of each."""
    owner = np.repeat(np.arange(size.size), size)
    place = np.arange(owner.size) - np.repeat(np.cumsum(size) - size, size)
    shuffled = np.lexsort((rng.random(owner.size), owner))
    return (start[owner] + place)[shuffled[place < count[owner]]]


def _by_rejection(
    rng: np.random.Generator, start: np.ndarray, size: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Sample missing numbers with replacement until there are enough distinct ones."""
    kept = np.empty(0, dtype=np.int64)
    missing = count.copy()
    end = start + size
    while missing.any():
        owner = np.repeat(np.arange(size.size), missing)
        sampled = np.unique(start[owner] + rng.integers(0, size[owner]))
        fresh = sampled[~is_among(sampled, kept)]
        kept = np.sort(np.concatenate([kept, fresh]), kind="stable")
        missing -= np.bincount(np.searchsorted(end, fresh, side="right"), minlength=size.size)
    return kept


def part_around(
    graph: Graph, core: Int[Tensor, "core"], most: int, fan_out: Sequence[int], seed: int
) -> tuple[Graph, Int[Tensor, "chosen"]]:
    """Return an induced subgraph around the first core nodes, and the numbers of these nodes in it.

    As much of the core is taken, from its beginning, as fits into ``most`` nodes together with its surroundings; one
    node is always taken. At each hop, up to ``fan_out[hop]`` neighbours per node are sampled uniformly. So a core
    node has all its neighbours unless it has more than ``fan_out[0]``.
    """
    size = min(core.numel(), most)
    nodes = _around(graph, core[:size], fan_out, seed)
    if nodes.numel() > most:
        size, nodes = _largest(graph, core, most, fan_out, seed)
    chosen = torch.searchsorted(nodes, core[:size].sort().values)
    return graph.induced(nodes), chosen


def _largest(
    graph: Graph, core: Int[Tensor, "core"], most: int, fan_out: Sequence[int], seed: int
) -> tuple[int, Int[Tensor, "nodes"]]:
    """Search for the largest part of the core that fits; return its size and the nodes of the subgraph."""
    size, too_large = 1, min(core.numel(), most)
    nodes = _around(graph, core[:1], fan_out, seed)
    for _ in range(_TRIALS):
        # the first guess follows the size of one neighbourhood, later ones bisect
        guess = max(1, most // nodes.numel()) if size == 1 else (size + too_large) // 2
        if not size < guess < too_large:
            guess = (size + too_large) // 2
        if guess == size:
            break
        tried = _around(graph, core[:guess], fan_out, seed)
        if tried.numel() > most:
            too_large = guess
        else:
            size, nodes = guess, tried
    return size, nodes


def _around(
    graph: Graph, core: Int[Tensor, "core"], fan_outs: Sequence[int], seed: int
) -> Int[Tensor, "nodes"]:
    """Return the core and its sampled surroundings, ascending."""
    rng = np.random.default_rng(seed)
    degree, first = graph.degree.numpy(), graph.row_ptr.numpy()
    found = frontier = np.unique(core.numpy())
    for fan_out in fan_outs:
        rows = degree[frontier]
        owner, place = distinct(rng, rows, np.minimum(rows, fan_out))
        sampled = graph.neighbour[torch.from_numpy(first[frontier][owner] + place)].numpy()
        frontier = np.setdiff1d(sampled, found)
        found = np.union1d(found, frontier)
    return torch.from_numpy(found.astype(np.int64))
