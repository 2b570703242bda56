"""Arithmetic on ragged rows: values of many rows laid end to end, cut by offsets (CSR)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

_SUM_CHUNK = 1 << 22

_FIND_CHUNK = 1 << 15
"""Searches made at once on the CPU: their bounds then stay in its cache."""


def offsets_of(lengths: Int[Tensor, "rows"]) -> Int[Tensor, "offsets"]:
    """Return where each row begins, and after the last one where it ends."""
    offsets = torch.zeros(lengths.numel() + 1, dtype=torch.long, device=lengths.device)
    torch.cumsum(lengths, dim=0, out=offsets[1:])
    return offsets


def owners_of(lengths: Int[Tensor, "rows"]) -> Int[Tensor, "values"]:
    """Return for each value the row that it belongs to."""
    return torch.repeat_interleave(torch.arange(lengths.numel(), device=lengths.device), lengths)


def ranges(
    start: Int[Tensor, "rows"], length: Int[Tensor, "rows"]
) -> tuple[Int[Tensor, "values"], Int[Tensor, "values"]]:
    """Lay the ranges ``start[i] .. start[i] + length[i]`` end to end; return their owners and their values."""
    owner = owners_of(length)
    shift = start - offsets_of(length)[:-1]
    return owner, torch.arange(owner.numel(), device=start.device) + shift[owner]


def cut_rows(row_ptr: Int[Tensor, "offsets"], most: int) -> list[tuple[int, int]]:
    """Cut rows into ranges of ``most`` rows and values each at most; a longer row is a range by itself."""
    rows, ranges_found, first = row_ptr.numel() - 1, [], 0
    while first < rows:
        end = torch.searchsorted(row_ptr, row_ptr[first : first + 1] + most, right=True)
        last = min(max(int(end) - 1, first + 1), first + most, rows)
        ranges_found.append((first, last))
        first = last
    return ranges_found


def find_in_rows(
    row_ptr: Int[Tensor, "offsets"],
    column: Int[Tensor, "columns"],
    row: Int[Tensor, "n"],
    wanted: Int[Tensor, "n"],
) -> Int[Tensor, "n"]:
    """Return where each wanted column stands in its row, -1 where it does not; columns of a row must ascend.

    Rows are halved all at once, so that nothing as long as ``column`` is made and no key can overflow.
    """
    chunk = _FIND_CHUNK if row.device.type == "cpu" else max(row.numel(), 1)
    parts = [
        _find_in_rows(row_ptr, column, some, what)
        for some, what in zip(row.split(chunk), wanted.split(chunk), strict=True)
    ]
    return torch.cat(parts) if parts else row.new_empty(0, dtype=torch.long)


def _find_in_rows(row_ptr: Tensor, column: Tensor, row: Tensor, wanted: Tensor) -> Tensor:
    low, end = row_ptr.index_select(0, row), row_ptr.index_select(0, row + 1)
    if row.numel() == 0 or column.numel() == 0:
        return torch.full_like(low, -1)
    last, high, wanted = column.numel() - 1, end, wanted.to(column.dtype)
    for _ in range(int((end - low).max()).bit_length()):
        middle = (low + high) >> 1
        below = (column.index_select(0, middle.clamp(max=last)) < wanted) & (middle < high)
        low, high = torch.where(below, middle + 1, low), torch.where(below, high, middle)
    found = column.index_select(0, low.clamp(max=last)) == wanted
    return torch.where(found & (low < end), low, -1)


def sum_by_owner(
    values: Float[Tensor, "values *width"], owner: Int[Tensor, "values"], rows: int
) -> Float[Tensor, "rows *width"]:
    """Add up the values of each row."""
    return values.new_zeros(rows, *values.shape[1:]).index_add_(0, owner, values)


def sum_rows(values: Float[Tensor, "values"], row_ptr: Int[Tensor, "offsets"]) -> Float[Tensor, "rows"]:
    """Add up the values of each row, a range of rows at a time, so that no owner of each value is held."""
    total = values.new_zeros(row_ptr.numel() - 1)
    for first, last in cut_rows(row_ptr, _SUM_CHUNK):
        bounds = row_ptr[first : last + 1]
        total[first:last] = sum_by_owner(
            values[int(bounds[0]) : int(bounds[-1])], owners_of(bounds.diff()), last - first
        )
    return total


def running_sum_before(
    values: Float[Tensor, "values *width"], owner: Int[Tensor, "values"]
) -> Float[Tensor, "values *width"]:
    """Return for each value the sum of those before it in its row; ``owner`` must ascend.

    The sum runs over all rows in double precision and each row's start is taken off.
    """
    if values.shape[0] == 0:
        return values
    total = values.double().cumsum(dim=0) - values.double()
    first = torch.ones_like(owner, dtype=torch.bool)
    first[1:] = owner[1:] != owner[:-1]
    row = first.long().cumsum(dim=0) - 1
    return (total - total[first][row]).to(values.dtype)


def both_ways(
    value: Float[Tensor, "edges"], back: Int[Tensor, "some"], first: int = 0
) -> Float[Tensor, "some"]:
    """Give both directions of a link the mean of their values; ``back`` is the edge the other way, -1 for none.

    ``back`` is of the edges from number ``first`` on, and so is the result. Halves are added rather than a sum
    halved, so that both directions agree in the last bit.
    """
    own = value[first : first + back.numel()]
    return torch.where(back >= 0, own / 2 + value[back.clamp(min=0)] / 2, own)
