"""The Triton kernel of pair features: one warp per edge finds common neighbours and inner products in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.data.pair_features import PairTables

_LANES = 32
"""Neighbours of the shorter list that are looked up at a time."""

COLUMNS = 6
"""Common neighbours, their Adamic-Adar sum, and the inner products cosine, near, far and between."""

_MOST_AT_ONCE = 1 << 30
"""Edges per launch: programs are numbered in 32 bits."""


def launch_pairs(
    tables: PairTables, rarity: Float[Tensor, "nodes"], target: Int[Tensor, "some"], first_edge: int
) -> tuple[Float[Tensor, "columns some"], Int[Tensor, "some"]]:
    """Return the raw pair features of the edges from ``first_edge`` on, and their reverse edges; rows are dense."""
    unit, neighbourhood = tables.unit, tables.neighbourhood
    assert isinstance(unit, Tensor)
    assert isinstance(neighbourhood, Tensor)
    count, width = target.numel(), unit.shape[1]
    out = unit.new_empty(COLUMNS, count)
    reverse_edge = torch.empty(count, dtype=torch.long, device=unit.device)
    for begin in range(0, count, _MOST_AT_ONCE):
        _pairs[(min(_MOST_AT_ONCE, count - begin),)](
            tables.row_ptr, tables.neighbour, unit, neighbourhood, rarity, target, out, reverse_edge,
            first_edge, begin, count,
            WIDTH=width, COLUMNS_P=min(128, max(_LANES, triton.next_power_of_2(width))), LANES=_LANES,
            num_warps=1,
        )  # fmt: skip
    return out, reverse_edge


@triton.jit
def _find(neighbour_ptr, low, end, wanted):
    """Return the position of each wanted number in an ascending row, -1 if absent."""
    high = end
    size = tl.max(end - low, axis=0)
    while size > 0:
        middle = (low + high) // 2
        open_ = low < high
        there = tl.load(neighbour_ptr + middle, mask=open_, other=0)
        below = open_ & (there < wanted)
        high = tl.where(open_ & (below == 0), middle, high)
        low = tl.where(below, middle + 1, low)
        size = size // 2
    there = tl.load(neighbour_ptr + low, mask=low < end, other=-1)
    return tl.where((low < end) & (there == wanted), low, -1)


# without this, Triton compiles again for arguments that are one or multiples of sixteen
@triton.jit(do_not_specialize=["first_edge", "begin", "count"])
def _pairs(
    row_ptr, neighbour_ptr, unit_ptr, neighbourhood_ptr, rarity_ptr, target_ptr, out_ptr, reverse_ptr,
    first_edge, begin, count,
    WIDTH: tl.constexpr, COLUMNS_P: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute the products of one edge."""
    place = tl.program_id(0).to(tl.int64) + begin
    target = tl.load(target_ptr + place)
    other = tl.load(neighbour_ptr + first_edge + place).to(tl.int64)
    target_first, target_end = tl.load(row_ptr + target), tl.load(row_ptr + target + 1)
    other_first, other_end = tl.load(row_ptr + other), tl.load(row_ptr + other + 1)

    # the first lane looks for the target among the neighbours of its neighbour
    lane = tl.arange(0, LANES).to(tl.int64)
    reverse_edge = _find(neighbour_ptr, other_first + lane * 0, other_end + lane * 0, target)
    tl.store(reverse_ptr + place, tl.max(reverse_edge, axis=0))

    target_is_short = target_end - target_first <= other_end - other_first
    few = tl.where(target_is_short, target_first, other_first)
    few_end = tl.where(target_is_short, target_end, other_end)
    many = tl.where(target_is_short, other_first, target_first)
    many_end = tl.where(target_is_short, other_end, target_end)
    common = tl.zeros((LANES,), tl.float32)
    rare = tl.zeros((LANES,), tl.float32)
    while few < few_end:
        inside = few + lane < few_end
        wanted = tl.load(neighbour_ptr + few + lane, mask=inside, other=0)
        found = _find(neighbour_ptr, many + lane * 0, tl.where(inside, many_end, many), wanted) >= 0
        common += found.to(tl.float32)
        rare += tl.load(rarity_ptr + wanted, mask=found, other=0.0)
        few += LANES
    out = out_ptr + place
    tl.store(out, tl.sum(common, axis=0))
    tl.store(out + count, tl.sum(rare, axis=0))
    out += count

    near = tl.zeros((COLUMNS_P,), tl.float32)
    far, cosine, between = near, near, near
    for start in range(0, WIDTH, COLUMNS_P):
        column = start + tl.arange(0, COLUMNS_P)
        in_row = column < WIDTH
        target_unit = tl.load(unit_ptr + target * WIDTH + column, mask=in_row, other=0.0)
        other_unit = tl.load(unit_ptr + other * WIDTH + column, mask=in_row, other=0.0)
        target_sum = tl.load(neighbourhood_ptr + target * WIDTH + column, mask=in_row, other=0.0)
        other_sum = tl.load(neighbourhood_ptr + other * WIDTH + column, mask=in_row, other=0.0)
        cosine += target_unit * other_unit
        near += target_unit * other_sum
        far += other_unit * target_sum
        between += target_sum * other_sum
    out += count
    tl.store(out, tl.sum(cosine, axis=0))
    out += count
    tl.store(out, tl.sum(near, axis=0))
    out += count
    tl.store(out, tl.sum(far, axis=0))
    out += count
    tl.store(out, tl.sum(between, axis=0))
