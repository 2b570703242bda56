"""The products of `row_products` as loops that numba compiles: the same sums in the same order, without temporaries.

One row of a pair is laid out in scratch memory, and stays there while it is the same in the following pairs. The
other is read value by value. If it is much longer, the first row's values are looked up in it, so that a hub costs
no more.
"""

from __future__ import annotations

import numpy as np

from gdpnet._core.compiled import compiled

_LONGER = 8


@compiled
def _find(column, low, end, wanted):
    """Return the first place from ``low`` on whose column is not below the wanted one."""
    high = end
    while low < high:
        middle = (low + high) // 2
        if column[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def add_products(
    left_ptr, left_column, left_value, left_row, right_ptr, right_column, right_value, right_row, width, out
):
    """Write the inner product of each pair of sparse rows; columns of a row must ascend."""
    there = np.zeros(width, np.float32)
    first = last = 0
    for pair in range(left_row.size):
        row = left_row[pair]
        if pair == 0 or row != left_row[pair - 1]:
            there[left_column[first:last]] = 0.0
            first, last = left_ptr[row], left_ptr[row + 1]
            for place in range(first, last):
                there[left_column[place]] = left_value[place]
        low, end, total = right_ptr[right_row[pair]], right_ptr[right_row[pair] + 1], 0.0
        if end - low <= _LONGER * (last - first):
            for place in range(low, end):
                total += np.float64(there[right_column[place]] * right_value[place])
        else:
            for place in range(first, last):
                low = _find(right_column, low, end, left_column[place])
                if low < end and right_column[low] == left_column[place]:
                    total += np.float64(left_value[place] * right_value[low])
        out[pair] = total


@compiled
def count_common(row_ptr, column, rarity, left_row, right_row, common, rare):
    """Write how many columns each pair of rows shares, and the sum of their rarity; columns of a row must ascend."""
    there = np.zeros(rarity.size, np.float64)
    first = last = 0
    for pair in range(left_row.size):
        row = left_row[pair]
        if pair == 0 or row != left_row[pair - 1]:
            there[column[first:last]] = 0.0
            first, last = row_ptr[row], row_ptr[row + 1]
            there[column[first:last]] = 1.0
        low, end, count, total = row_ptr[right_row[pair]], row_ptr[right_row[pair] + 1], 0.0, 0.0
        if end - low <= _LONGER * (last - first):
            for place in range(low, end):
                count += there[column[place]]
                total += there[column[place]] * rarity[column[place]]
        else:
            for place in range(first, last):
                low = _find(column, low, end, column[place])
                if low < end and column[low] == column[place]:
                    count += 1.0
                    total += rarity[column[place]]
        common[pair], rare[pair] = count, total


@compiled
def add_weighted(
    own_ptr,
    own_column,
    own_value,
    own_weight,
    row_ptr,
    neighbour,
    weight,
    ptr,
    column,
    value,
    out_ptr,
    out_column,
    out_value,
    scratch,
    last_first,
):
    """Write the weighted sum of each target's own row and its neighbours' rows, the columns of a row ascending.

    The order of the neighbours, ``last_first`` or not, decides on the rounding.
    Values that add up to zero are left out. ``scratch`` has one zero per column, before and after.
    """
    filled = 0
    for target in range(own_weight.size):
        first, last = row_ptr[target], row_ptr[target + 1]
        for number in range(last - first):
            edge = last - 1 - number if last_first else first + number
            share, node = weight[edge], neighbour[edge]
            for place in range(ptr[node], ptr[node + 1]):
                scratch[column[place]] += share * value[place]
        share = own_weight[target]
        for place in range(own_ptr[target], own_ptr[target + 1]):
            scratch[own_column[place]] += share * own_value[place]
        for number in range(scratch.size):
            if scratch[number] != 0.0:
                out_column[filled], out_value[filled] = number, scratch[number]
                scratch[number] = 0.0
                filled += 1
        out_ptr[target + 1] = filled


@compiled
def transpose(row_ptr, column, value, out_ptr, out_column, out_value):
    """Write the transpose of a sparse matrix; ``out_ptr`` has zeros before."""
    for place in range(column.size):
        out_ptr[column[place] + 1] += 1
    for number in range(1, out_ptr.size):
        out_ptr[number] += out_ptr[number - 1]
    filled = out_ptr[:-1].copy()
    for row in range(row_ptr.size - 1):
        for place in range(row_ptr[row], row_ptr[row + 1]):
            there = filled[column[place]]
            filled[column[place]] = there + 1
            out_column[there], out_value[there] = row, value[place]


@compiled
def take_kept(row_ptr, column, value, rows, factor, out_ptr, out_column, out_value):
    """Write some rows without the values whose factor is zero, the others times it; return how many there are."""
    filled = read = 0
    for number in range(rows.size):
        for place in range(row_ptr[rows[number]], row_ptr[rows[number] + 1]):
            if factor[read] != 0.0:
                out_column[filled], out_value[filled] = column[place], value[place] * factor[read]
                filled += 1
            read += 1
        out_ptr[number + 1] = filled
    return filled


@compiled
def thin(row_ptr, column, value, kept, scale, out_ptr, out_column, out_value):
    """Write a sparse matrix without some of its values, the others times a number; return how many there are.

    Every value is written, and the next one over it unless it is kept: a branch that nothing predicts takes longer.
    So the arrays must have room for one value more than are kept.
    """
    filled = 0
    for row in range(row_ptr.size - 1):
        for place in range(row_ptr[row], row_ptr[row + 1]):
            out_column[filled], out_value[filled] = column[place], value[place] * scale
            filled += kept[place]
        out_ptr[row + 1] = filled
    return filled
