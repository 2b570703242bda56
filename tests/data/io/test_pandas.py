"""Graphs from and to pandas frames."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph
from gdpnet.data.io.pandas import from_pandas, to_pandas
from gdpnet.errors import GraphError
from gdpnet.inference.denoised import clean_graph

pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'gdpnet[pandas]'")


def frames() -> tuple:
    nodes = pandas.DataFrame(
        {
            "id": ["ann", "bob", "cid"],
            "label": ["red", None, "blue"],
            "split": ["train", None, "test"],
            "age": [31, 33, 64],
            "income": [1.5, 1.2, 0.2],
        }
    )
    return nodes, pandas.DataFrame({"source": ["ann", "cid"], "target": ["bob", "bob"], "weight": [1.0, 2.0]})


def test_frames_become_a_graph():
    graph = from_pandas(*frames())
    assert graph.node_ids.tolist() == ["ann", "bob", "cid"]
    assert (graph.class_names, graph.labels.tolist()) == (("blue", "red"), [1, -1, 0])
    assert (graph.feature_names, graph.split.tolist()) == (("age", "income"), [1, 0, 3])
    assert graph.edge_weight.tolist() == [1.0, 1.0, 2.0, 2.0]


def test_the_index_names_nodes_if_no_column_does():
    nodes, edges = frames()
    assert from_pandas(nodes.set_index("id"), edges).node_ids.tolist() == ["ann", "bob", "cid"]


def test_frames_are_checked_as_tables_are():
    nodes, edges = frames()
    with pytest.raises(GraphError) as refusal:
        from_pandas(nodes, edges.replace("cid", "dan"))
    assert str(refusal.value).startswith(
        "both ends of every edge in the edges frame must be nodes of the nodes frame, found 1 edge with 1 unknown "
        "id, such as 'dan' (first in row 2)"
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_comes_back_from_its_frames(sparse):
    values = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    graph = Graph.build(
        [[0, 1], [1, 2]],
        sp.csr_matrix(values) if sparse else values,
        [0, 1, -1],
        split=[1, 2, 0],
        node_ids=np.array([7, 8, 9]),
        class_names=["a", "b"],
    )
    found = to_pandas(graph)
    assert list(found.nodes.columns) == ["id", "label", "split", "f0", "f1"]
    again = from_pandas(*found)
    assert again.node_ids.tolist() == [7, 8, 9]
    assert torch.equal(again.neighbour, graph.neighbour)
    assert torch.equal(again.labels, graph.labels)
    assert to_pandas(again).nodes[["f0", "f1"]].to_numpy().tolist() == values.tolist()


def test_a_graph_without_features_has_frames_without_features():
    graph = from_pandas(frames()[0][["id"]], frames()[1])
    assert not graph.has_features
    assert list(to_pandas(graph).nodes.columns) == ["id"]
    assert list(to_pandas(graph).edges.columns) == ["source", "target", "weight"]


def test_decisions_on_edges_become_a_frame():
    graph = from_pandas(*frames())
    found = clean_graph(
        graph, torch.tensor([0.9, 0.9, 0.2, 0.2]), 0.5, "as asked for", chosen=False
    ).to_pandas()
    assert list(found.columns) == ["source", "target", "keep_probability", "kept"]
    assert found[["source", "target"]].to_numpy().tolist() == [
        ["bob", "ann"],
        ["ann", "bob"],
        ["cid", "bob"],
        ["bob", "cid"],
    ]
    assert found["kept"].tolist() == [True, True, False, False]


def test_frames_keep_edge_features_and_types():
    nodes, edges = frames()
    edges = edges.assign(relation=["friend", "colleague"], hours=[2.5, 7.0])
    graph = from_pandas(nodes, edges)
    again = from_pandas(*to_pandas(graph))
    assert graph.edge_feature_names == ("relation=colleague", "relation=friend", "hours")
    assert (again.edge_feature_names, again.edge_weight.tolist()) == (
        graph.edge_feature_names,
        graph.edge_weight.tolist(),
    )
    assert torch.equal(again.edge_features, graph.edge_features)


@pytest.mark.parametrize("wrong", [{"id": ["ann"]}, [["ann"]], None, np.zeros((2, 2)), "nodes.csv"])
@pytest.mark.parametrize("role", ["nodes", "edges"])
def test_what_is_no_frame_is_refused_in_one_sentence(wrong, role):
    nodes, edges = frames()
    given = (wrong, edges) if role == "nodes" else (nodes, wrong)
    with pytest.raises(GraphError, match=f"{role} must be a pandas DataFrame, found {type(wrong).__name__}"):
        from_pandas(*given)


def test_a_frame_of_edges_without_rows_gives_nodes_alone():
    nodes = frames()[0]
    for edges in ({"source": [], "target": []}, {"source": [], "target": [], "weight": [], "amount": []}):
        graph = from_pandas(nodes, pandas.DataFrame(edges))
        assert (graph.num_nodes, graph.num_edges) == (3, 0)


def holding_itself(kind):
    found = np.empty(1, dtype=object) if kind is np.ndarray else kind()
    if kind is list:
        found.append(found)
    else:
        found[0] = found
    return found


@pytest.mark.parametrize(
    "value", [holding_itself(list), holding_itself(dict), holding_itself(np.ndarray), [[1]]]
)
@pytest.mark.parametrize("place", [0, 1])
def test_cells_that_hold_collections_of_collections_are_refused_with_column_and_row(value, place):
    both = list(frames())
    cells = np.empty(len(both[place]), dtype=object)
    cells[1] = value
    both[place] = both[place].assign(x=cells)
    name = ("nodes", "edges")[place]
    with pytest.raises(GraphError, match=f"column 'x' of the {name} frame must hold plain .* in row 2"):
        from_pandas(*both)


def test_flat_lists_of_numbers_become_columns():
    nodes, edges = frames()
    nodes["x"] = [[1, 2.5], (3, 4), np.array([5, 6])]
    assert from_pandas(nodes[["id", "x"]], edges).feature_names == ("x[0]", "x[1]")


@pytest.mark.parametrize(
    "values",
    [
        pandas.to_timedelta([1, 2, 3]),
        pandas.period_range("2020", periods=3),
        pandas.interval_range(0, 3),
        [{"a": 1}, {"a": 2}, {"a": 3}],
    ],
    ids=["timedelta", "period", "interval", "dictionary"],
)
@pytest.mark.parametrize("others", [["id"], ["id", "age", "income"]])
def test_a_column_of_a_type_that_is_not_read_is_named_in_a_note(values, others):
    nodes, edges = frames()
    notes = from_pandas(nodes[others].assign(x=values), edges).notes
    assert any(note.startswith("column x is left out: values of type ") for note in notes)


def test_numbers_too_large_for_single_precision_are_counted_in_a_note():
    nodes, edges = frames()
    graph = from_pandas(nodes[["id"]].assign(x=[1e308, np.inf, 2.0], y=[3e38, -3e38, 3e38]), edges)
    assert "column x: 2 values are infinite or above 1.7e+38 in size and count as missing" in graph.notes
    lost = "3 values are infinite or above 1.7e+38 in size and count as missing"
    assert f"column y is left out: no usable value: {lost}" in graph.notes


def test_at_most_five_columns_with_lost_values_are_named():
    nodes, edges = frames()
    many = {f"c{place}": [np.inf, 1.0, 2.0 + place] for place in range(8)}
    notes = from_pandas(nodes[["id"]].assign(**many), edges).notes
    assert sum(note.startswith("column c") for note in notes) == 5
    assert "3 more columns like these" in notes


def test_a_column_whose_training_nodes_have_no_finite_number_is_left_out_with_that_reason():
    nodes, edges = frames()
    notes = from_pandas(nodes.assign(x=[np.inf, 1.0, 2.0]), edges).notes
    reason = "1 value is infinite or above 1.7e+38 in size and counts as missing"
    assert f"column x is left out: no usable value among the training nodes: {reason}" in notes


def sparse_of(values: list, fill: float = np.nan):
    return pandas.arrays.SparseArray(values, fill_value=fill)


def test_what_a_sparse_column_with_a_role_does_not_store_is_missing():
    nodes, edges = frames()
    graph = from_pandas(nodes.assign(label=sparse_of([0.0, np.nan, 1.0])), edges)
    assert graph.labels.tolist() == [0, -1, 1]
    with pytest.raises(GraphError, match="must name a node in every row, found nothing in row 2"):
        from_pandas(nodes.assign(id=sparse_of([0.0, np.nan, 1.0])), edges)


def test_a_missing_value_of_a_sparse_feature_that_stores_zeros_otherwise_is_missing():
    nodes, edges = frames()
    graph = from_pandas(nodes.assign(v=sparse_of([0.0, np.nan, 1.0], fill=0.0)), edges)
    assert "v is missing" in graph.feature_names
    absent = from_pandas(nodes.assign(v=sparse_of([3.0, np.nan, 1.0])), edges)
    assert "v is missing" not in absent.feature_names


@pytest.mark.parametrize("name", ["node_id", "ID", "name", "Node"])
def test_ids_are_in_a_column_that_a_table_may_have_them_in(name):
    nodes, edges = frames()
    graph = from_pandas(nodes.rename(columns={"id": name}), edges)
    assert graph.node_ids.tolist() == ["ann", "bob", "cid"]
    assert any(f"column '{name}' of the nodes frame is read as the id" in note for note in graph.notes)


def test_a_note_says_that_the_index_names_nodes():
    nodes, edges = frames()
    numbered = pandas.DataFrame({"source": [0, 2], "target": [1, 1]})
    graph = from_pandas(nodes.drop(columns="id"), numbered)
    assert "ids of nodes are the index of the nodes frame, as it has no column 'id'" in graph.notes
    named = from_pandas(nodes.assign(name=["x", "y", "z"]).set_index("id"), edges)
    assert named.node_ids.tolist() == ["ann", "bob", "cid"]  # an index of that name comes first


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"task": "regresion"}, "there is no task 'regresion'; did you mean 'regression'?"),
    ],
)
def test_a_task_that_there_is_none_of_is_refused(named, sentence, tmp_path):
    for read in (lambda: from_pandas(*frames(), **named), lambda: read_graph(tmp_path, **named)):
        with pytest.raises(GraphError) as refusal:
            read()
        assert str(refusal.value) == sentence


def test_ids_are_checked_before_the_edges_that_name_them():
    nodes, edges = frames()
    with pytest.raises(GraphError, match="node ids must be unique, found 'ann' 2 times"):
        from_pandas(nodes.replace("bob", "ann"), edges)
    with pytest.raises(GraphError, match="the graph is empty: it has no node"):
        from_pandas(nodes.iloc[:0], edges)
