"""The kind of a column is found from its values, and values are read in the form of that kind."""

import datetime

import pyarrow as pa
import pytest

from gdpnet.data.tables.columns import (
    BOOLEAN,
    CATEGORY,
    DATE,
    LEFT_OUT,
    NUMERIC,
    expand_vectors,
    find_kind,
    read_as,
)
from gdpnet.errors import GraphError


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 5, 2], NUMERIC),
        ([0.5, None, 2.0], NUMERIC),
        ([True, False, None], BOOLEAN),
        (["1.5", " 2 ", "-3e2"], NUMERIC),
        (["1,5", "2,25", "3,0"], NUMERIC),
        (["yes", "No", "yes"], BOOLEAN),
        (["red", "blue", "red"], CATEGORY),
        (["2024-01-31", "2023-12-01", None], DATE),
        (["31/01/2024", "15/12/2023", "01/02/2024"], DATE),
        ([datetime.date(2024, 1, 31), datetime.date(2023, 1, 1)], DATE),
        (["?", "NA", ""], LEFT_OUT),
        ([3, 3, 3], LEFT_OUT),
        ([None, None], LEFT_OUT),
        ([b"x", b"y"], LEFT_OUT),
        ([f"title number {number}" for number in range(40)], LEFT_OUT),
        (list(range(100, 140)), LEFT_OUT),
    ],
)
def test_the_kind_of_a_column_follows_from_its_values(values: list[object], kind: str) -> None:
    assert find_kind("column", pa.array(values)).kind == kind


def test_a_whole_number_in_every_row_is_an_identifier_if_its_name_says_so() -> None:
    numbers = pa.array([7 * number % 1009 for number in range(50)])
    assert find_kind("customer_id", numbers).kind == LEFT_OUT
    assert find_kind("income", numbers).kind == NUMERIC


def test_a_stray_text_among_numbers_counts_as_missing_and_is_said() -> None:
    column = find_kind("age", pa.array([str(number) for number in range(40)] + ["abc"]))
    assert column.kind == NUMERIC
    assert column.values.null_count == 1
    assert column.remark == "1 value cannot be read and counts as missing"


def test_infinite_numbers_count_as_missing_and_nan_is_missing() -> None:
    column = find_kind("x", pa.array([1.0, float("inf"), float("nan"), 2.0]))
    assert column.values.to_pylist() == [1.0, None, None, 2.0]
    assert column.remark == "1 value is infinite or above 1.7e+38 in size and counts as missing"


def test_numbers_in_text_that_are_too_large_are_still_numbers() -> None:
    column = find_kind("x", pa.array(["1e308", "2", "3"]))
    assert (column.kind, column.values.to_pylist()) == (NUMERIC, [None, 2.0, 3.0])
    assert column.remark == "1 value is infinite or above 1.7e+38 in size and counts as missing"


def test_a_long_text_column_names_the_option_that_reads_it() -> None:
    column = find_kind("title", pa.array([f"paper {number}" for number in range(40)]))
    assert column.remark == "40 distinct texts; --text title uses their words"


def test_dates_are_days_since_1970() -> None:
    assert read_as(DATE, pa.array(["1970-01-02", "1970-01-01 12:00:00", "no date"])).to_pylist()[0] == 1.0
    assert read_as(DATE, pa.array([datetime.datetime(1970, 1, 1, 12)])).to_pylist() == [0.5]


def test_numbers_can_be_read_as_categories() -> None:
    assert read_as(CATEGORY, pa.array([1, None, 2])).to_pylist() == ["1", None, "2"]


def test_a_column_of_vectors_becomes_a_column_per_place() -> None:
    table = pa.table({"a": [1, 2], "embedding": [[0.5, 1.0], [2.0, 3.0]]})
    assert expand_vectors(table).to_pydict() == {
        "a": [1, 2],
        "embedding[0]": [0.5, 2.0],
        "embedding[1]": [1.0, 3.0],
    }


@pytest.mark.parametrize("names", [["v", "v[0]"], ["v[0]", "v"], ["v", "v[1]"]])
def test_a_column_of_vectors_replaces_no_other_column(names: list[str]) -> None:
    table = pa.table({name: [[1.0, 2.0]] if name == "v" else [9.0] for name in names})
    with pytest.raises(GraphError, match=r"become columns 'v\[0\]' and so on, found another column 'v\["):
        expand_vectors(table)
