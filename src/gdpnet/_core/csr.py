"""Arithmetic on ragged rows in CSR layout: the values of all rows end to end, split by offsets."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

Each = Int[Tensor, "n"]
"""One number per search."""

_SUM_CHUNK = 1 << 22
"""Values that are added up at a time, which bounds the memory."""

_FIND_CHUNK = 1 << 15
"""Searches at a time on the CPU, so that their bounds stay in its cache."""


def offsets_of(lengths: Int[Tensor, "rows"]) -> Int[Tensor, "offsets"]:
    """Return the start of each row, and the end of the last one."""
    offsets = torch.zeros(lengths.numel() + 1, dtype=torch.long, device=lengths.device)
    torch.cumsum(lengths, dim=0, out=offsets[1:])
    return offsets


def owners_of(lengths: Int[Tensor, "rows"], total: int | None = None) -> Int[Tensor, "values"]:
    """Return the row of each value; if their number ``total`` is known, the host need not wait for the device."""
    rows = torch.arange(lengths.numel(), device=lengths.device)
    return torch.repeat_interleave(rows, lengths, output_size=total)


def ranges(
    start: Int[Tensor, "rows"], length: Int[Tensor, "rows"], total: int | None = None
) -> tuple[Int[Tensor, "values"], Int[Tensor, "values"]]:
    """Concatenate the ranges ``start[i] .. start[i] + length[i]``; return the row i and the value of each entry.

    As in `owners_of`, ``total`` is the number of entries if it is known.
    """
    owner = owners_of(length, total)
    shift = start - offsets_of(length)[:-1]
    return owner, torch.arange(owner.numel(), device=start.device) + shift[owner]


def cut_rows(row_ptr: Int[Tensor, "offsets"], most: int, total: int | None = None) -> list[tuple[int, int]]:
    """Split rows into ranges of at most ``most`` rows and values; a longer row is a range of its own.

    As in `owners_of`, ``total`` is the number of values if it is known.
    """
    rows, ranges_found, first = row_ptr.numel() - 1, [], 0
    if total is not None and max(rows, total) <= most:
        return [(0, rows)] if rows else []
    most = min(most, rows + int(row_ptr[-1]))  # a sum with any whole number would overflow
    while first < rows:
        end = torch.searchsorted(row_ptr, row_ptr[first : first + 1] + most, right=True)
        last = min(max(int(end) - 1, first + 1), first + most, rows)
        ranges_found.append((first, last))
        first = last
    return ranges_found


def find_in_rows(
    row_ptr: Int[Tensor, "offsets"], column: Int[Tensor, "columns"], row: Each, wanted: Each
) -> Each:
    """Return the position of each wanted column in its row, -1 if absent; columns of a row must ascend.

    All rows are bisected at once: this allocates nothing as long as ``column``, and no key can overflow.
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


def place_in(keys: Int[Tensor, "keys"], wanted: Each) -> Each:
    """Return the place of each wanted number among keys that ascend, -1 if it is not there."""
    if not keys.numel():
        return torch.full_like(wanted, -1)
    place = torch.searchsorted(keys, wanted).clamp(max=keys.numel() - 1)
    return torch.where(keys[place] == wanted, place, -1)


def sum_by_owner(
    values: Float[Tensor, "values *width"], owner: Int[Tensor, "values"], rows: int
) -> Float[Tensor, "rows *width"]:
    """Add up the values of each row."""
    return values.new_zeros(rows, *values.shape[1:]).index_add_(0, owner, values)


def sum_rows(values: Float[Tensor, "values"], row_ptr: Int[Tensor, "offsets"]) -> Float[Tensor, "rows"]:
    """Add up the values of each row in bounded memory; every value is in a row."""
    rows = row_ptr.numel() - 1
    if max(rows, values.numel()) <= _SUM_CHUNK:
        return sum_by_owner(values, owners_of(row_ptr.diff(), values.numel()), rows)
    total = values.new_zeros(rows)
    for first, last in cut_rows(row_ptr, _SUM_CHUNK):
        bounds = row_ptr[first : last + 1]
        part = values[int(bounds[0]) : int(bounds[-1])]
        total[first:last] = sum_by_owner(part, owners_of(bounds.diff()), last - first)
    return total


def running_sum_before(
    values: Float[Tensor, "values *width"], owner: Int[Tensor, "values"]
) -> Float[Tensor, "values *width"]:
    """Return for each value the sum of the values before it in its row; ``owner`` must ascend.

    One cumulative sum over all rows in double precision, less its value at each row's start.
    """
    if values.shape[0] == 0:
        return values
    total = values.double().cumsum(dim=0) - values.double()
    first = torch.ones_like(owner, dtype=torch.bool)
    first[1:] = owner[1:] != owner[:-1]
    row = first.long().cumsum(dim=0) - 1
    return (total - total[first][row]).to(values.dtype)


def symmetrise(
    value: Float[Tensor, "edges"], reverse_edge: Int[Tensor, "some"], first: int = 0
) -> Float[Tensor, "some"]:
    """Give both directions of an edge the mean of their values; an edge without a reverse edge (-1) keeps its own.

    ``reverse_edge`` and the result cover the edges from number ``first`` on. Adding halves rather than halving the
    sum makes both directions equal in the last bit.
    """
    own = value[first : first + reverse_edge.numel()]
    return torch.where(reverse_edge >= 0, own / 2 + value[reverse_edge.clamp(min=0)] / 2, own)
