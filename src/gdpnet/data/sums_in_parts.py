"""Sums and means over neighbours whose rows are read, some edges at a time, as no table of all nodes is at hand.

A row of neighbours that is longer than `EDGES_AT_ONCE` is added up in parts, each of which begins with the sum of the
parts before it. So sums of dense rows round as if they were added up at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, sum_by_owner
from gdpnet.data.features import Features, SparseRows, add_up, slice_rows, stack_rows, to_dense, to_sparse
from gdpnet.data.neighbour_sums import mix_into

EDGES_AT_ONCE = 1 << 18
"""Edges whose neighbours' rows are read at a time, which bounds the memory."""

RowsOf = Callable[[Tensor], Features]
"""Return the rows of some nodes, which ascend."""


def add_in_parts(
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"] | None,
    rows_of: RowsOf,
    width: int,
) -> Float[Tensor, "rows width"]:
    """Return for each node the sum of its neighbours' dense rows, weighted or not."""
    total = torch.zeros(row_ptr.numel() - 1, width)
    for first, last in cut_rows(row_ptr, EDGES_AT_ONCE):
        start, stop = int(row_ptr[first]), int(row_ptr[last])
        some, share = neighbour[start:stop], None if weight is None else weight[start:stop]
        if stop - start > EDGES_AT_ONCE:
            total[first] = add_long_row(some, share, rows_of)[0]
            continue
        around, place = torch.unique(some, return_inverse=True)
        rows = rows_of(around)
        assert isinstance(rows, Tensor), "the sum is dense"
        total[first:last] = add_up(rows, row_ptr[first : last + 1] - start, place, share)
    return total


def add_long_row(
    neighbour: Int[Tensor, "edges"], weight: Float[Tensor, "edges"] | None, rows_of: RowsOf
) -> Float[Tensor, "1 width"]:
    """Return the sum of the rows of one node's neighbours, dense or sparse, which are read in parts."""
    total: Tensor | None = None
    for start in range(0, neighbour.numel(), EDGES_AT_ONCE):
        part = slice(start, start + EDGES_AT_ONCE)
        around, place = torch.unique(neighbour[part], return_inverse=True)
        rows, share = rows_of(around), None if weight is None else weight[part]
        if total is None:
            total = torch.zeros(1, rows.shape[1], device=rows.device)
        total = _added(total, rows, place, share)
    assert total is not None, "a long row has neighbours"
    return total


def _added(
    total: Float[Tensor, "1 width"],
    rows: Features,
    place: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"] | None,
) -> Float[Tensor, "1 width"]:
    """Return a sum with further rows, each added to what was added up before it."""
    if isinstance(rows, SparseRows):
        taken = rows.take(place)
        value = taken.value if weight is None else taken.value * weight[taken.row]
        return total[0].index_add(0, taken.column, value)[None]
    table, bounds = torch.cat([total, rows]), torch.tensor([0, place.numel() + 1], device=rows.device)
    share = None if weight is None else F.pad(weight, (1, 0), value=1.0)
    return add_up(table, bounds, F.pad(place + 1, (1, 0)), share)


def mix_in_parts(
    own: Features,
    rows_of: RowsOf,
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"],
) -> Features:
    """Return `mix_into` of messages that are read: the mean of own rows and neighbours' weighted messages."""
    parts: list[Features] = []
    for first, last in cut_rows(row_ptr, EDGES_AT_ONCE):
        start, stop = int(row_ptr[first]), int(row_ptr[last])
        row, some, share = slice_rows(own, slice(first, last)), neighbour[start:stop], weight[start:stop]
        if stop - start > EDGES_AT_ONCE:
            parts.append(_mix_long_row(row, some, share, rows_of))
            continue
        around, place = torch.unique(some, return_inverse=True)
        parts.append(mix_into(row, rows_of(around), row_ptr[first : last + 1] - start, place, share))
    return stack_rows(parts) if parts else own


def _mix_long_row(own: Features, neighbour: Tensor, weight: Tensor, rows_of: RowsOf) -> Features:
    received = add_long_row(neighbour, weight, rows_of)
    total = 1.0 + sum_by_owner(weight, torch.zeros_like(neighbour), 1)
    mixed = (to_dense(own).to(received.device) + received) / total[:, None]
    return to_sparse(mixed).to(received.device) if isinstance(own, SparseRows) else mixed
