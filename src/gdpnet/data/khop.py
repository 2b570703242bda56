"""Find candidates beyond direct neighbours: the nodes within k hops of each node, and their distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, find_in_rows, offsets_of, owners_of

_PATHS = 1 << 22
"""Paths that are followed at a time, which bounds the memory."""

_SEED = 2020
"""Seed of the sample of far candidates. It is fixed: a model must find the same candidates whenever it reads a graph,
whatever the seed of the run."""


@dataclass(frozen=True)
class Reach:
    """The candidates of every node in rows, ascending: its neighbours and some farther nodes."""

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "candidates"]
    distance: Int[Tensor, "candidates"]
    """Hops from the target, from one."""
    edge: Int[Tensor, "edges"]
    """The position of each edge of the graph among the candidates."""


def reach(row_ptr: Int[Tensor, "offsets"], neighbour: Int[Tensor, "edges"], hops: int, most: int) -> Reach:
    """Find the nodes within some hops of every node: all neighbours, and a uniform sample of ``most`` others.

    Paths run against the edges, from a target to its neighbours, as messages reach the target through them.
    """
    nodes = row_ptr.numel() - 1
    ones = np.ones(neighbour.numel(), dtype=np.int32)  # a product counts paths
    adjacency = sp.csr_matrix((ones, neighbour.numpy(), row_ptr.numpy()), shape=(nodes, nodes))
    rng = np.random.default_rng(_SEED)
    blocks = cut_rows(offsets_of(_count_paths(adjacency, hops)), _PATHS)
    lengths, columns, distances = zip(
        *(_reach_block(adjacency, first, last, hops, most, rng) for first, last in blocks), strict=True
    )
    wide_ptr = offsets_of(torch.from_numpy(np.concatenate(lengths)))
    wide = torch.from_numpy(np.concatenate(columns))
    target = owners_of(row_ptr.diff())
    edge = find_in_rows(wide_ptr, wide, target, neighbour.long())
    return Reach(wide_ptr, wide, torch.from_numpy(np.concatenate(distances)), edge)


def _count_paths(adjacency: sp.csr_matrix, hops: int) -> Int[Tensor, "nodes"]:
    """Return the number of paths of that length from each node, capped so that no sum can overflow."""
    count = np.ones(adjacency.shape[0], dtype=np.int64)
    for _ in range(hops):
        count = np.minimum(adjacency @ count, _PATHS)
    return torch.from_numpy(count)


def _reach_block(
    adjacency: sp.csr_matrix, first: int, last: int, hops: int, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of candidates of each target of a block, the candidates and their distances."""
    nodes = adjacency.shape[0]
    rows = np.arange(last - first)
    frontier = adjacency[first:last]
    itself = sp.csr_matrix((np.ones(rows.size, np.int32), (rows, rows + first)), shape=frontier.shape)
    found, keys = frontier + itself, [_keys(frontier)]
    for _ in range(1, hops):
        key = np.setdiff1d(_keys(frontier @ adjacency), _keys(found), assume_unique=True)
        ones = np.ones(key.size, np.int32)
        frontier = sp.csr_matrix((ones, (key // nodes, key % nodes)), shape=frontier.shape)
        found = found + frontier
        keys.append(key)
    far = np.concatenate(keys[1:]) if hops > 1 else np.empty(0, np.int64)
    taken = _sample_per_owner(far // nodes, most, rng)
    steps = np.repeat(np.arange(1, hops + 1), [part.size for part in keys])
    key = np.concatenate([keys[0], far[taken]])
    step = np.concatenate([steps[: keys[0].size], steps[keys[0].size :][taken]])
    order = np.argsort(key, kind="stable")
    row, column = np.divmod(key[order], nodes)
    return np.bincount(row, minlength=last - first), column, step[order]


def _keys(matrix: sp.csr_matrix) -> np.ndarray:
    """Return one number per entry of a matrix, ascending by row and column."""
    entries = matrix.tocoo()
    return np.sort(entries.row.astype(np.int64) * matrix.shape[1] + entries.col)


def _sample_per_owner(owner: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of a uniform sample of at most ``most`` entries per owner."""
    order = np.lexsort((rng.random(owner.size), owner))
    sizes = np.bincount(owner, minlength=1)
    rank = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[rank < most]
