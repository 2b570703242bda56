"""Columns of an edge table: numbers as they are, types one-hot, and what is left out."""

import numpy as np
import pyarrow as pa

from gdpnet.data.tables.edge_columns import MOST_TYPES, read_edge_columns


def test_numbers_stay_and_texts_become_one_feature_per_type():
    found = read_edge_columns(pa.table({"amount": [2.0, 4.0, 8.0], "relation": ["pays", "owes", "pays"]}))
    assert found.names == ("amount", "relation=pays", "relation=owes")
    assert found.values.tolist() == [[2.0, 1.0, 0.0], [4.0, 0.0, 1.0], [8.0, 1.0, 0.0]]
    assert found.notes == ("edge features: amount, relation (2 types)",)


def test_a_missing_number_is_the_median_and_marked_and_a_missing_type_is_none():
    found = read_edge_columns(pa.table({"amount": [1.0, None, 3.0, 9.0], "kind": ["a", "b", None, "a"]}))
    assert found.names == ("amount", "amount is missing", "kind=a", "kind=b")
    assert found.values[1, :2].tolist() == [3.0, 1.0]
    assert found.values[2, 2:].tolist() == [0.0, 0.0]


def test_whole_numbers_are_types_if_the_column_is_called_so():
    found = read_edge_columns(pa.table({"edge_type": [0, 2, 2], "count": [0, 2, 2]}))
    assert found.names == ("edge_type=2", "edge_type=0", "count")


def test_columns_with_one_value_stay_since_another_graph_may_have_others():
    found = read_edge_columns(pa.table({"relation": ["cites", "cites"], "year": [1999, 1999]}))
    assert found.names == ("relation=cites", "year")


def test_rare_types_share_a_feature():
    words = [f"r{place}" for place in range(MOST_TYPES + 5) for _ in range(2 if place < MOST_TYPES else 1)]
    found = read_edge_columns(pa.table({"relation": words}))
    assert len(found.names) == MOST_TYPES + 1
    assert found.names[-1] == "relation=other"
    assert found.values[:, -1].sum() == 5
    assert (found.values.sum(axis=1) == 1).all()


def test_many_distinct_texts_identifiers_and_columns_that_gdpnet_wrote_are_left_out_and_said():
    rows = 100
    table = pa.table(
        {
            "comment": [f"text {row}" for row in range(rows)],
            "edge_id": list(range(rows)),
            "spurious": [row % 2 == 0 for row in range(rows)],
            "nothing": [None] * rows,
            "__index_level_0__": list(range(rows)),
        }
    )
    found = read_edge_columns(table)
    assert found.values.shape == (rows, 0)
    assert found.notes == (
        "edge column comment is left out: 100 distinct texts are too many for types",
        "edge column edge_id is left out: an identifier: another whole number in every row",
        "edge column spurious is left out: gdpnet wrote it",
        "edge column nothing is left out: no value",
    )


def test_columns_with_another_use_are_not_read():
    table = pa.table({"source": ["a"], "target": ["b"], "hours": [1.5]})
    found = read_edge_columns(table, ("source", "target"))
    assert found.names == ("hours",)
    assert np.array_equal(found.values, [[1.5]])


def test_numbers_too_large_for_single_precision_are_said():
    found = read_edge_columns(pa.table({"w": [3.4e38, 1.0, 2.0], "v": [3.4e38, 3.4e38, 3.4e38]}))
    lost = "infinite or above 1.7e+38 in size and count"
    assert found.notes == (
        "edge features: w",
        f"edge column w: 1 value is {lost}s as missing",
        f"edge column v is left out: no usable value: 3 values are {lost} as missing",
    )


def test_a_column_without_rows_is_left_out():
    found = read_edge_columns(pa.table({"w": pa.array([], pa.float64())}))
    assert found.notes == ("edge column w is left out: no value",)
