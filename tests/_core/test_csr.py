"""Ragged rows: offsets, owners, ranges, searches and sums."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet._core import csr as ragged
from gdpnet._core.csr import (
    cut_rows,
    find_in_rows,
    offsets_of,
    owners_of,
    place_in,
    ranges,
    running_sum_before,
    sum_by_owner,
    sum_rows,
    symmetrise,
)

LENGTHS = st.lists(st.integers(0, 5), max_size=8)


def test_offsets_begin_at_zero_and_end_at_the_number_of_values():
    assert offsets_of(torch.tensor([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert offsets_of(torch.tensor([], dtype=torch.long)).tolist() == [0]


def test_owners_skip_rows_without_values():
    assert owners_of(torch.tensor([2, 0, 3])).tolist() == [0, 0, 2, 2, 2]


def test_ranges_lie_end_to_end_each_from_its_own_start():
    owner, value = ranges(torch.tensor([7, 1, 4]), torch.tensor([2, 0, 3]))
    assert owner.tolist() == [0, 0, 2, 2, 2]
    assert value.tolist() == [7, 8, 4, 5, 6]


def test_values_are_added_up_by_owner_in_whatever_order_they_come():
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    total = sum_by_owner(values, torch.tensor([2, 0, 2]), 4)
    assert total.tolist() == [[2.0, 20.0], [0.0, 0.0], [5.0, 50.0], [0.0, 0.0]]


def test_the_running_sum_restarts_in_each_row_and_excludes_the_value_itself():
    before = running_sum_before(torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), torch.tensor([0, 0, 0, 3, 3]))
    assert before.tolist() == [0.0, 1.0, 3.0, 0.0, 8.0]


def test_the_running_sum_works_on_vectors_and_empty_input():
    before = running_sum_before(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5, 5]))
    assert before.tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert running_sum_before(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).shape == (0, 3)


def test_the_running_sum_of_a_small_row_is_not_spoiled_by_a_large_row_before_it():
    values = torch.tensor([1e8, 1e8, 0.125, 0.25, 0.5])
    assert running_sum_before(values, torch.tensor([0, 0, 1, 1, 1]))[2:].tolist() == [0.0, 0.125, 0.375]


@given(LENGTHS, st.data())
def test_ranges_equal_those_of_python(lengths, data):
    starts = data.draw(st.lists(st.integers(0, 50), min_size=len(lengths), max_size=len(lengths)))
    owner, value = ranges(torch.tensor(starts, dtype=torch.long), torch.tensor(lengths, dtype=torch.long))
    rows = [range(start, start + length) for start, length in zip(starts, lengths, strict=True)]
    assert value.tolist() == [number for row in rows for number in row]
    assert owner.tolist() == [place for place, row in enumerate(rows) for _ in row]


@given(LENGTHS, st.data())
def test_running_sums_equal_those_of_python(lengths, data):
    number = sum(lengths)
    values = data.draw(st.lists(st.integers(-9, 9), min_size=number, max_size=number))
    owner = owners_of(torch.tensor(lengths, dtype=torch.long))
    expected, place = [], 0
    for length in lengths:
        row = values[place : place + length]
        expected += [float(sum(row[:end])) for end in range(length)]
        place += length
    assert running_sum_before(torch.tensor(values, dtype=torch.float32), owner).tolist() == expected


def test_rows_are_split_into_ranges_and_a_long_row_is_its_own_range():
    row_ptr = offsets_of(torch.tensor([2, 2, 9, 0, 1, 3]))
    assert cut_rows(row_ptr, 4) == [(0, 2), (2, 3), (3, 6)]
    assert cut_rows(row_ptr, 1) == [(number, number + 1) for number in range(6)]
    assert cut_rows(row_ptr, 100) == [(0, 6)]
    assert cut_rows(row_ptr, 2**63 - 1) == cut_rows(row_ptr, 2**64) == [(0, 6)]
    assert cut_rows(torch.tensor([0]), 4) == cut_rows(torch.tensor([0]), 4, 0) == []


@given(LENGTHS, st.integers(1, 9))
def test_ranges_of_rows_cover_each_row_once_and_respect_the_bound(lengths, most):
    row_ptr = offsets_of(torch.tensor(lengths, dtype=torch.long))
    found = cut_rows(row_ptr, most)
    assert cut_rows(row_ptr, most, sum(lengths)) == found
    assert [row for first, last in found for row in range(first, last)] == list(range(len(lengths)))
    for first, last in found:
        assert last - first <= most
        assert last - first == 1 or sum(lengths[first:last]) <= most


@given(st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=6), st.integers(0, 12), st.booleans())
def test_a_column_is_found_in_its_row_or_not_at_all(rows, wanted, narrow):
    column = torch.tensor([value for row in rows for value in sorted(row)], dtype=torch.long)
    row_ptr = offsets_of(torch.tensor([len(row) for row in rows]))
    everyone = torch.arange(len(rows))
    place = find_in_rows(
        row_ptr, column.int() if narrow else column, everyone, torch.full_like(everyone, wanted)
    )
    for row, values in enumerate(rows):
        expected = int(row_ptr[row]) + sorted(values).index(wanted) if wanted in values else -1
        assert int(place[row]) == expected


def test_searches_in_small_parts_find_the_same(monkeypatch):
    row_ptr, column = torch.tensor([0, 3, 3, 5]), torch.tensor([1, 4, 9, 0, 4])
    row, wanted = torch.tensor([0, 1, 2, 2, 0]), torch.tensor([9, 4, 4, 5, 0])
    assert find_in_rows(row_ptr, column, row, wanted).tolist() == [2, -1, 4, -1, -1]
    monkeypatch.setattr(ragged, "_FIND_CHUNK", 2)
    assert find_in_rows(row_ptr, column, row, wanted).tolist() == [2, -1, 4, -1, -1]
    assert find_in_rows(row_ptr, column, row[:0], wanted[:0]).tolist() == []


def test_rows_are_added_up_in_ranges_as_in_one_step(monkeypatch):
    row_ptr, values = torch.tensor([0, 2, 2, 5]), torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    assert sum_rows(values, row_ptr).tolist() == [3.0, 0.0, 28.0]
    monkeypatch.setattr(ragged, "_SUM_CHUNK", 1)
    assert sum_rows(values, row_ptr).tolist() == [3.0, 0.0, 28.0]


def test_some_edges_get_the_mean_of_both_directions():
    value, reverse_edge = torch.tensor([0.2, 0.6, 0.9, 0.4]), torch.tensor([1, 0, -1, 2])
    assert torch.equal(symmetrise(value, reverse_edge[1:3], 1), symmetrise(value, reverse_edge)[1:3])


def test_places_among_ascending_keys():
    keys = torch.tensor([2, 5, 9])
    assert place_in(keys, torch.tensor([9, 1, 5, 10, 2])).tolist() == [2, -1, 1, -1, 0]
    assert place_in(keys[:0], torch.tensor([3])).tolist() == [-1]
