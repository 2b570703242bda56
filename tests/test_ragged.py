"""Ragged rows: where they begin, whose a value is, and sums within a row."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.ragged import offsets_of, owners_of, ranges, running_sum_before, sum_by_owner

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


def test_the_running_sum_begins_anew_in_each_row_and_leaves_the_value_itself_out():
    before = running_sum_before(torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), torch.tensor([0, 0, 0, 3, 3]))
    assert before.tolist() == [0.0, 1.0, 3.0, 0.0, 8.0]


def test_the_running_sum_works_on_vectors_and_on_nothing():
    before = running_sum_before(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5, 5]))
    assert before.tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert running_sum_before(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).shape == (0, 3)


def test_the_running_sum_of_a_small_row_is_not_spoiled_by_a_large_row_before_it():
    values = torch.tensor([1e8, 1e8, 0.125, 0.25, 0.5])
    assert running_sum_before(values, torch.tensor([0, 0, 1, 1, 1]))[2:].tolist() == [0.0, 0.125, 0.375]


@given(LENGTHS, st.data())
def test_ranges_are_those_that_python_makes(lengths, data):
    starts = data.draw(st.lists(st.integers(0, 50), min_size=len(lengths), max_size=len(lengths)))
    owner, value = ranges(torch.tensor(starts, dtype=torch.long), torch.tensor(lengths, dtype=torch.long))
    rows = [range(start, start + length) for start, length in zip(starts, lengths, strict=True)]
    assert value.tolist() == [number for row in rows for number in row]
    assert owner.tolist() == [place for place, row in enumerate(rows) for _ in row]


@given(LENGTHS, st.data())
def test_running_sums_are_those_that_python_makes(lengths, data):
    number = sum(lengths)
    values = data.draw(st.lists(st.integers(-9, 9), min_size=number, max_size=number))
    owner = owners_of(torch.tensor(lengths, dtype=torch.long))
    expected, place = [], 0
    for length in lengths:
        row = values[place : place + length]
        expected += [float(sum(row[:end])) for end in range(length)]
        place += length
    assert running_sum_before(torch.tensor(values, dtype=torch.float32), owner).tolist() == expected
