"""The columns that two rows share, and inner products of rows, for many pairs of rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, ranges
from gdpnet._core.device import has_numba
from gdpnet.data.features import Features, SparseRows

_CHUNK = 1 << 20
"""Values that are processed at a time, which bounds the memory."""

MOST_LAID_OUT = 1 << 25
"""Sparse rows of up to this many values, zeros included, are also kept dense: a value is then found by one read."""


LEAST_IN_LOOPS = 1 << 11
"""Pairs from which on compiled loops are used; for fewer, loading them takes longer than they save."""


Edges = Int[Tensor, "edges"]
"""One row per edge."""


class Rows(NamedTuple):
    """Rows of ascending columns."""

    row_ptr: Int[Tensor, "offsets"]
    column: Int[Tensor, "values"]


def matches(
    left: Rows, left_row: Edges, right: Rows, right_row: Edges
) -> Iterator[tuple[Int[Tensor, "m"], Int[Tensor, "m"], Int[Tensor, "m"]]]:
    """Yield each column that both rows of an edge hold: the edge, and its positions on the left and on the right."""
    for swapped, part, edge, few_place in _shorter_rows(left.row_ptr, left_row, right.row_ptr, right_row):
        few, many, many_row = (right, left, left_row) if swapped else (left, right, right_row)
        many_place = find_in_rows(*many, many_row[part][edge], few.column[few_place])
        found = (many_place >= 0).nonzero().flatten()
        places = (many_place[found], few_place[found])
        yield part[edge[found]], *(places if swapped else places[::-1])


@dataclass(frozen=True)
class SparseSide:
    """Sparse rows as one side of inner products, with a dense copy if it is small enough."""

    rows: SparseRows

    @cached_property
    def dense(self) -> Float[Tensor, "all"] | None:
        """Return all values, zeros included, if they are not too many."""
        features, size = self.rows, self.rows.shape[0] * self.rows.width
        if size > MOST_LAID_OUT or features.value.numel() == 0:
            return None
        place = features.row * features.width + features.column
        return features.value.new_zeros(size).index_copy_(0, place, features.value)

    def at(self, row: Int[Tensor, "n"], column: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """Return the values at some rows and columns, zero if none is stored."""
        if self.dense is not None:
            return self.dense.index_select(0, row * self.rows.width + column)
        place = self.rows.find(row, column)
        return torch.where(place >= 0, self.rows.value[place.clamp(min=0)], 0.0)


Side = Tensor | SparseSide


def side_of(features: Features) -> Side:
    """Prepare feature rows for inner products."""
    return SparseSide(features) if isinstance(features, SparseRows) else features


def row_dots(left: Side, left_row: Edges, right: Side, right_row: Edges) -> Float[Tensor, "edges"]:
    """Return the inner product of ``left[left_row[i]]`` and ``right[right_row[i]]`` for each i."""
    if isinstance(left, SparseSide) and isinstance(right, SparseSide):
        return _sparse_row_dots(left, left_row, right, right_row)
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    step = max(1, _CHUNK * 4 // max(1, left.shape[1]))
    parts = [
        (left.index_select(0, some) * right.index_select(0, other)).sum(dim=1)
        for some, other in zip(left_row.split(step), right_row.split(step), strict=True)
    ]
    return torch.cat(parts) if parts else left.new_zeros(0)


def _sparse_row_dots(
    left: SparseSide, left_row: Edges, right: SparseSide, right_row: Edges
) -> Float[Tensor, "edges"]:
    """Multiply each value of the shorter row by the longer row's value there; add up in double precision."""
    if in_loops(left_row):
        return _looped_row_dots(left.rows, left_row, right.rows, right_row)
    result = torch.zeros(left_row.numel(), dtype=torch.double, device=left_row.device)
    pointers = (left.rows.row_ptr, left_row, right.rows.row_ptr, right_row)
    for swapped, part, edge, place in _shorter_rows(*pointers):
        few, many, many_row = (right, left, left_row) if swapped else (left, right, right_row)
        other = many.at(many_row[part].index_select(0, edge), few.rows.column.index_select(0, place))
        product = few.rows.value.index_select(0, place) * other
        total = torch.zeros(part.numel(), dtype=torch.double, device=result.device)
        result[part] = total.index_add_(0, edge, product.double())
    return result.float()


def in_loops(pair: Edges) -> bool:
    """Return whether compiled loops compute the products of some pairs: of many, on the host, with numba."""
    return pair.device.type == "cpu" and pair.numel() >= LEAST_IN_LOOPS and has_numba()


def _looped_row_dots(
    left: SparseRows, left_row: Edges, right: SparseRows, right_row: Edges
) -> Float[Tensor, "edges"]:
    from gdpnet.data.row_kernel import add_products

    result = torch.empty(left_row.numel())
    sides = [
        part.numpy()
        for rows, row in ((left, left_row), (right, right_row))
        for part in (rows.row_ptr, rows.column, rows.value, row)
    ]
    add_products(*sides, left.width, result.numpy())
    return result


def common_columns(
    rows: Rows, rarity: Float[Tensor, "columns"], left_row: Edges, right_row: Edges
) -> tuple[Float[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Return how many columns the two rows of each edge share, and the sum of these columns' rarity."""
    if in_loops(left_row):
        from gdpnet.data.row_kernel import count_common

        counts = torch.empty(left_row.numel()), torch.empty(left_row.numel())
        count_common(*(part.numpy() for part in (*rows, rarity, left_row, right_row, *counts)))
        return counts
    common = torch.zeros(left_row.numel(), dtype=torch.double, device=left_row.device)
    rare = torch.zeros_like(common)
    for edge, place, _ in matches(rows, left_row, rows, right_row):
        common.index_add_(0, edge, common.new_ones(1).expand_as(edge))
        rare.index_add_(0, edge, rarity[rows.column[place]].double())
    return common.float(), rare.float()


def _shorter_rows(
    left_ptr: Int[Tensor, "left"], left_row: Edges, right_ptr: Int[Tensor, "right"], right_row: Edges
) -> Iterator[tuple[bool, Int[Tensor, "part"], Int[Tensor, "values"], Int[Tensor, "values"]]]:
    """Yield the values of each edge's shorter row, about a million at a time, so that a hub costs no more.

    Each item has: whether the right rows are the shorter ones, some edges, and for each value the index of its edge
    among those and its position.
    """
    sides = [
        (ptr[row], ptr[row + 1] - ptr[row]) for ptr, row in ((left_ptr, left_row), (right_ptr, right_row))
    ]
    left_is_short = sides[0][1] <= sides[1][1]
    for swapped in (False, True):
        start, length = sides[swapped]
        edges = (left_is_short != swapped).nonzero().flatten()
        for part in _parts_of(edges, length[edges]):
            yield swapped, part, *ranges(start[part], length[part])


def _parts_of(edges: Edges, length: Edges) -> list[Int[Tensor, "part"]]:
    """Split edges into parts whose rows hold about a million values each."""
    sizes = torch.unique_consecutive(length.cumsum(0) // _CHUNK, return_counts=True)[1].tolist()
    return list(torch.split(edges, sizes)) if sizes else []
