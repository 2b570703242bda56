"""Candidates beyond direct neighbours: which nodes a target reaches within some hops, and how far away they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, find_in_rows, offsets_of, owners_of

_PATHS = 1 << 22
"""Paths of some hops that are followed at once, about; they meet in far fewer nodes."""

_SEED = 2020
"""What is reached is a part of the graph as it is read, so that its draw does not change from trial to trial."""


@dataclass(frozen=True)
class Reach:
    """The candidates of every node by rows, ascending: its neighbours, and some of those farther away."""

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "candidates"]
    distance: Int[Tensor, "candidates"]
    """Hops from the target, from one."""
    edge: Int[Tensor, "edges"]
    """The place among the candidates of each edge of the graph."""


def reach(row_ptr: Int[Tensor, "offsets"], neighbour: Int[Tensor, "edges"], hops: int, most: int) -> Reach:
    """Find the nodes within some hops of every node: all neighbours, and ``most`` others at most.

    Of more than that each is as likely to be among those drawn. Paths run against the edges: what a neighbour hears
    is what the target may hear through it.
    """
    nodes = row_ptr.numel() - 1
    ones = np.ones(neighbour.numel(), dtype=np.int32)  # a product counts paths
    links = sp.csr_matrix((ones, neighbour.numpy(), row_ptr.numpy()), shape=(nodes, nodes))
    rng = np.random.default_rng(_SEED)
    blocks = cut_rows(offsets_of(_paths(links, hops)), _PATHS)
    lengths, columns, distances = zip(
        *(_reach_block(links, first, last, hops, most, rng) for first, last in blocks), strict=True
    )
    wide_ptr = offsets_of(torch.from_numpy(np.concatenate(lengths)))
    wide = torch.from_numpy(np.concatenate(columns))
    target = owners_of(row_ptr.diff())
    edge = find_in_rows(wide_ptr, wide, target, neighbour.long())
    return Reach(wide_ptr, wide, torch.from_numpy(np.concatenate(distances)), edge)


def _paths(links: sp.csr_matrix, hops: int) -> Int[Tensor, "nodes"]:
    """Return how many paths of that length begin at each node, counted up to a bound that no sum can pass."""
    count = np.ones(links.shape[0], dtype=np.int64)
    for _ in range(hops):
        count = np.minimum(links @ count, _PATHS)
    return torch.from_numpy(count)


def _reach_block(
    links: sp.csr_matrix, first: int, last: int, hops: int, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of some targets how many candidates each has, which, and how far away they are."""
    nodes = links.shape[0]
    rows = np.arange(last - first)
    frontier = links[first:last]
    itself = sp.csr_matrix((np.ones(rows.size, np.int32), (rows, rows + first)), shape=frontier.shape)
    found, keys = frontier + itself, [_keys(frontier)]
    for _ in range(1, hops):
        key = np.setdiff1d(_keys(frontier @ links), _keys(found), assume_unique=True)
        ones = np.ones(key.size, np.int32)
        frontier = sp.csr_matrix((ones, (key // nodes, key % nodes)), shape=frontier.shape)
        found = found + frontier
        keys.append(key)
    far = np.concatenate(keys[1:]) if hops > 1 else np.empty(0, np.int64)
    taken = _some_of_each(far // nodes, most, rng)
    steps = np.repeat(np.arange(1, hops + 1), [part.size for part in keys])
    key = np.concatenate([keys[0], far[taken]])
    step = np.concatenate([steps[: keys[0].size], steps[keys[0].size :][taken]])
    order = np.argsort(key, kind="stable")
    row, column = np.divmod(key[order], nodes)
    return np.bincount(row, minlength=last - first), column, step[order]


def _keys(matrix: sp.csr_matrix) -> np.ndarray:
    """Return one number for each entry of a matrix, ascending by row and column."""
    entries = matrix.tocoo()
    return np.sort(entries.row.astype(np.int64) * matrix.shape[1] + entries.col)


def _some_of_each(owner: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the places of ``most`` entries of each owner at most, every set of them as likely."""
    order = np.lexsort((rng.random(owner.size), owner))
    sizes = np.bincount(owner, minlength=1)
    rank = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[rank < most]
