"""Graph.build, subgraphs and kept edges; sparse features give the same results as dense ones."""

import math
import re
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gdpnet.data.edge_weight import with_weights
from gdpnet.data.features import (
    SparseRows,
    mask_rows,
    normalise,
    project,
    slice_rows,
    take_rows,
    to_dense,
    to_sparse,
)
from gdpnet.data.graph import Graph
from gdpnet.data.io.pyg import from_scipy
from gdpnet.data.validation import id_text
from gdpnet.errors import GraphError
from helpers.graphs import edges_of

ONES = np.ones((4, 1))


# --- layout ---


def test_an_undirected_graph_lists_the_neighbours_of_each_node_in_ascending_order():
    graph = Graph.build([[3, 0, 1], [0, 1, 3]], ONES)
    assert graph.row_ptr.tolist() == [0, 2, 4, 4, 6]
    assert graph.neighbour.tolist() == [1, 3, 0, 3, 0, 1]
    assert graph.target.tolist() == [0, 0, 1, 1, 3, 3]
    assert graph.degree.tolist() == [2, 2, 0, 2]
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4, 6, 1)


def test_a_directed_edge_makes_its_source_a_neighbour_of_its_target_only():
    graph = Graph.build([[2, 0, 1], [0, 2, 0]], ONES, directed=True)
    assert graph.row_ptr.tolist() == [0, 2, 2, 3, 3]
    assert graph.neighbour.tolist() == [1, 2, 0]


def test_a_graph_is_directed_if_some_edge_has_no_reverse_edge(monkeypatch):
    monkeypatch.setattr("gdpnet.data.graph._EDGES", 2)
    assert Graph.build([[0, 1, 2], [1, 0, 3]], ONES, directed=True).is_directed
    assert not Graph.build([[0, 1, 2, 3], [1, 0, 3, 2]], ONES, directed=True).is_directed
    assert not Graph.build([], ONES).is_directed


def test_self_loops_are_removed_and_counted():
    graph = Graph.build([[0, 1, 1], [0, 1, 2]], np.ones((3, 1)))
    assert edges_of(graph) == {(1, 2), (2, 1)}
    assert any(note.startswith("2 self-loops") for note in graph.notes)


def test_duplicate_and_reciprocal_edges_are_merged_and_counted():
    graph = Graph.build([[0, 1, 0, 1], [1, 0, 1, 2]], np.ones((3, 1)))
    assert edges_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert "1 duplicate edge was merged" in graph.notes
    assert "1 edge is given in both directions and counts once" in graph.notes


def test_a_directed_graph_merges_duplicates_but_not_reciprocal_edges():
    graph = Graph.build([[0, 1, 0], [1, 0, 1]], np.ones((2, 1)), directed=True)
    assert edges_of(graph) == {(0, 1), (1, 0)}
    assert any(note.startswith("1 duplicate") for note in graph.notes)


def test_isolated_nodes_are_counted():
    graph = Graph.build([[0], [3]], ONES)
    assert any(note.startswith("2 nodes have no neighbour") for note in graph.notes)


def test_a_node_that_is_only_a_source_has_no_neighbour_and_is_counted():
    graph = Graph.build([[0], [1]], np.ones((2, 1)), directed=True)
    assert any(note.startswith("1 node has no neighbour") for note in graph.notes)


def test_a_clean_graph_has_no_notes():
    assert Graph.build([[0, 1], [1, 2]], np.ones((3, 1))).notes == ()


@pytest.mark.parametrize("edges", [[], [[], []], np.zeros((2, 0), dtype=int), torch.zeros(2, 0)])
def test_a_graph_without_edges_is_a_graph(edges):
    graph = Graph.build(edges, ONES)
    assert graph.row_ptr.tolist() == [0, 0, 0, 0, 0]
    assert graph.num_edges == 0
    assert graph.target.numel() == 0


def test_one_node_is_a_graph():
    graph = Graph.build([], [[5.0]])
    assert (graph.num_nodes, graph.num_edges) == (1, 0)


def test_labels_splits_ids_and_class_names_have_defaults():
    graph = Graph.build([], ONES)
    assert graph.labels.tolist() == [-1] * 4
    assert graph.split.tolist() == [0] * 4
    assert graph.node_ids.tolist() == [0, 1, 2, 3]
    assert graph.class_names == ()
    assert graph.truth is None


def test_classes_are_named_by_number_unless_named():
    assert Graph.build([], ONES, [0, 2, -1, 1]).class_names == ("0", "1", "2")
    assert Graph.build([], ONES, [0, 1, -1, 1], class_names=["a", "b", "c"]).num_classes == 3


def test_nodes_of_a_split_are_found():
    graph = Graph.build([], ONES, split=[1, 3, 0, 1])
    assert graph.nodes_in("train").tolist() == [0, 3]
    assert graph.nodes_in("validation").tolist() == []
    assert graph.nodes_in("test").tolist() == [1]
    assert graph.nodes_in("none").tolist() == [2]


def test_a_text_is_no_list_of_names_or_ids():
    graph = Graph.build([], np.ones((4, 4)), node_ids=list("four"))
    with pytest.raises(GraphError, match=r"^names of feature columns must be a list, found str$"):
        graph.with_feature_names("four")
    with pytest.raises(GraphError, match=r"^node ids must be a list, found str$"):
        graph.numbers_of("four")


def test_a_node_is_found_by_its_id_whether_text_or_number():
    assert Graph.build([], ONES, node_ids=["a", "b", "007", "7"]).node_number("007") == 2
    assert Graph.build([], ONES, node_ids=[10, 20, 30, 40]).node_number("30") == 2
    with pytest.raises(GraphError, match=r"^the graph has no node 'zz'$"):
        Graph.build([], ONES).node_number("zz")


def test_an_edge_is_spurious_only_if_every_copy_of_it_is():
    graph = Graph.build([[0, 1, 1], [1, 0, 2]], np.ones((3, 1)), spurious=[True, False, True])
    assert graph.truth is not None
    assert graph.neighbour.tolist() == [1, 0, 2, 1]
    assert graph.truth.spurious.tolist() == [False, False, True, True]
    assert graph.truth.corrupted.tolist() == [False, False, False]
    assert graph.truth.clean_labels.tolist() == graph.labels.tolist()


def test_known_noise_of_a_self_loop_is_removed_with_it():
    graph = Graph.build([[0, 0], [0, 1]], np.ones((2, 1)), spurious=[True, False])
    assert graph.truth is not None
    assert graph.truth.spurious.tolist() == [False, False]


def test_a_read_only_array_is_taken_without_a_warning():
    features = np.ones((2, 1), dtype=np.float32)
    features.flags.writeable = False
    assert Graph.build([], features).features.tolist() == [[1.0], [1.0]]


# --- bad input, one sentence each ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], np.ones((0, 3))), "the graph is empty: it has no node"),
        (([], sp.csr_matrix((0, 3))), "the graph is empty: it has no node"),
        (([], np.ones((3, 0))), "a node must have at least one feature, found none"),
        (([], np.ones(3)), "features must have one row per node, found an array of 1 dimensions"),
        (([], [["a"], ["b"]]), "features must be numbers, found text"),
        (([], [[None], [1.0]]), "features must be numbers, found other values"),
        (([], [[1.0], [1.0, 2.0]]), "features must be an array, found rows of different lengths"),
        (
            ([], [[1.0], [float("nan")]]),
            "features must be finite, found NaN or infinity in the row of node '1'",
        ),
        (
            ([], [[1.0], [float("inf")]]),
            "features must be finite, found NaN or infinity in the row of node '1'",
        ),
        (
            ([], sp.csr_matrix([[0.0, 1.0], [0.0, np.inf]])),
            "features must be finite, found NaN or infinity in the row of node '1'",
        ),
        (
            ([], sp.csr_matrix([[0.0, 1.0], [0.0, 1e300]])),
            "features must be finite, found NaN or infinity in the row of node '1'",
        ),
        (
            ([], SparseRows(torch.tensor([0, 1]), torch.tensor([2]), torch.ones(1), 2)),
            "sparse features must lie in columns 0 to 1, found one outside",
        ),
        (
            ([[0], [4]], ONES),
            "edge 0 to 4 names a node that does not exist: there are 4 nodes",
        ),
        (
            ([[-1], [2]], ONES),
            "edge -1 to 2 names a node that does not exist: there are 4 nodes",
        ),
        (([[0, 1, 2]], ONES), "edges must be two rows of node numbers, found an array of shape (1, 3)"),
        (([[0.0], [1.0]], ONES), "edges must be two rows of node numbers, found an array of shape (2, 1)"),
        (([["a"], ["b"]], ONES), "edges must be numbers, found text"),
        (([[True], [False]], ONES), "edges must be two rows of node numbers, found true and false"),
        (([], ONES, [0, 1]), "there must be one label per node (4), found an array of shape (2,)"),
        (
            ([], ONES, [0.0, 1.0, 1.0, 0.5]),
            "labels must be class numbers, with -1 for unknown, found torch.float64",
        ),
        (([], ONES, ["a", "b", "c", "d"]), "labels must be numbers, found text"),
        (([], ONES, [0, 1, -2, 0]), "labels must be class numbers from 0, with -1 for unknown, found -2"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(GraphError, match=f"^{re.escape(sentence)}$"):
        Graph.build(*arguments)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"node_ids": ["a", "b", "c"]}, "there must be one id per node (4), found an array of shape (3,)"),
        (
            {"node_ids": ["x", "b", "x", "c"]},
            "node ids must be unique, found 'x' 2 times: keep one row per node",
        ),
        (
            {"node_ids": ["y", "x", "y", "x"]},
            "node ids must be unique, found 'x' 2 times and 1 other id more than once: keep one row per node",
        ),
        (
            {"split": [0, 1, 2]},
            "the split must hold one code per node: 0 none, 1 train, 2 validation, 3 test",
        ),
        (
            {"split": [0, 1, 2, 4]},
            "the split must hold one code per node: 0 none, 1 train, 2 validation, 3 test",
        ),
        (
            {"split": [0, 1, 2, 257]},
            "the split must hold one code per node: 0 none, 1 train, 2 validation, 3 test",
        ),
        ({"split": ["train"] * 4}, "the split must be numbers, found text"),
        (
            {"split": [True, False] * 2},
            "the split must hold one code per node: 0 none, 1 train, 2 validation, 3 test; found true and false",
        ),
        ({"node_ids": [1, None, 2, 3]}, "every node must have an id, found None for node number 1"),
        ({"node_ids": [1, 2, math.nan, 3]}, "every node must have an id, found nan for node number 2"),
        (
            {"node_ids": np.array([1, 2, 3, math.nan])},
            "every node must have an id, found nan for node number 3",
        ),
        (
            {"node_ids": dict.fromkeys("abcd")},
            "node ids must be a list, in the order of the nodes, found dict",
        ),
        ({"node_ids": count()}, "there must be one id per node (4), found more"),
        (
            {"node_ids": range(10**12)},
            "there must be one id per node (4), found an array of shape (1000000000000,)",
        ),
        ({"class_names": "ab"}, "names of classes must be a list, in the order of classes, found str"),
        ({"spurious": [True]}, "spurious must hold one flag per given edge (0), found 1"),
        ({"corrupted": [True]}, "corrupted must hold one flag per given node (4), found 1"),
        ({"clean_labels": [0]}, "there must be one label per node (4), found an array of shape (1,)"),
    ],
)
def test_bad_descriptions_are_refused_in_one_sentence(named, sentence):
    with pytest.raises(GraphError, match=f"^{re.escape(sentence)}$"):
        Graph.build([], ONES, **named)


@pytest.mark.parametrize("ids", [[2**63, -1, 5], [2**53 + 1, 2**53, 0.5], [2**64, 1, 2]])
def test_ids_that_no_array_of_numbers_can_hold_stay_exact(ids):
    graph = Graph.build([[0], [1]], np.eye(3), node_ids=ids)
    assert id_text(graph.node_ids).tolist() == [str(one) for one in ids]
    assert graph.numbers_of(ids).tolist() == [0, 1, 2]


def test_pandas_marks_of_a_missing_id_are_refused():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(GraphError, match="every node must have an id, found <NA> for node number 1"):
        Graph.build([], ONES, node_ids=["a", pandas.NA, "b", "c"])


def test_the_error_on_a_repeated_id_has_its_own_count():
    with pytest.raises(GraphError, match="found 'a' 2 times"):
        Graph.build([], np.ones((5, 1)), node_ids=["b", "a", "b", "a", "b"])


def test_a_class_without_a_name_is_refused():
    with pytest.raises(GraphError, match=r"^there must be a name for each of 2 classes, found 1$"):
        Graph.build([], ONES, [0, 1, 0, 1], class_names=["only"])


def test_a_name_of_two_classes_is_refused():
    with pytest.raises(GraphError, match=r"^names of classes must be unique, found 'a' 2 times$"):
        Graph.build([], ONES, [0, 1, 0, 1], class_names=["a", "b", "a"])


def test_an_unusable_feature_is_named_by_the_id_of_its_node():
    with pytest.raises(GraphError, match="in the row of node 'bee'"):
        Graph.build([], [[1.0], [float("nan")]], node_ids=["ant", "bee"])


# --- parts of a graph ---


def six_nodes() -> Graph:
    return Graph.build(
        [[0, 0, 1, 2, 4], [1, 2, 2, 3, 5]],
        np.arange(12).reshape(6, 2),
        [0, 1, 0, -1, 1, 0],
        split=[1, 1, 2, 3, 0, 3],
        node_ids=list("abcdef"),
        class_names=["x", "y"],
        spurious=[False, True, False, False, True],
        corrupted=[False, False, True, False, False, True],
        clean_labels=[0, 0, 0, 0, 1, 0],
    )


def test_an_induced_subgraph_keeps_everything_about_its_nodes():
    whole = six_nodes()
    part = whole.keep_edges(torch.ones(10, dtype=torch.bool), torch.arange(10.0)).induced(
        torch.tensor([0, 2, 3, 5])
    )
    assert part.row_ptr.tolist() == [0, 1, 3, 4, 4]
    assert part.neighbour.tolist() == [1, 0, 2, 1]  # a-c, c-a, c-d, d-c
    assert part.edge_weight is not None
    assert part.edge_weight.tolist() == [1.0, 4.0, 6.0, 7.0]
    assert part.node_ids.tolist() == ["a", "c", "d", "f"]
    assert part.features.tolist() == [[0, 1], [4, 5], [6, 7], [10, 11]]
    assert part.labels.tolist() == [0, 0, -1, 0]
    assert part.split.tolist() == [1, 2, 3, 3]
    assert part.truth is not None
    assert part.truth.spurious.tolist() == [True, True, False, False]
    assert part.truth.corrupted.tolist() == [False, True, False, True]
    assert part.truth.clean_labels.tolist() == [0, 0, 0, 0]
    assert part.class_names == whole.class_names


def test_the_subgraph_of_no_edge_has_no_edge():
    assert six_nodes().induced(torch.tensor([3, 4])).row_ptr.tolist() == [0, 0, 0]


def test_keeping_edges_drops_the_others_and_their_truth_and_weight():
    whole = six_nodes()
    kept = torch.tensor([True, False, True, False, True, True, False, False, False, True])
    part = whole.keep_edges(kept, torch.arange(10.0))
    assert whole.neighbour.tolist() == [1, 2, 0, 2, 0, 1, 3, 2, 5, 4]
    assert part.row_ptr.tolist() == [0, 1, 2, 4, 4, 4, 5]
    assert part.neighbour.tolist() == [1, 0, 0, 1, 4]
    assert part.edge_weight is not None
    assert part.edge_weight.tolist() == [0.0, 2.0, 4.0, 5.0, 9.0]
    assert part.truth is not None
    assert part.truth.spurious.tolist() == [False, False, True, False, True]
    again = part.keep_edges(torch.tensor([False, True, False, False, True]))
    assert again.edge_weight is not None
    assert again.edge_weight.tolist() == [2.0, 9.0]


def test_weights_follow_the_edges_into_the_order_of_the_graph():
    given = np.array([[2, 1, 0, 0], [0, 1, 1, 2]])
    weight = np.array([0.5, 9.0, 0.25, 0.75], dtype=np.float32)
    both = with_weights(Graph.build(given, np.ones((3, 1))), given, weight, directed=False)
    assert both.neighbour.tolist() == [1, 2, 0, 0]
    assert both.edge_weight is not None
    assert both.edge_weight.tolist() == [0.25, 0.5, 0.25, 0.75]
    one_way = with_weights(Graph.build(given, np.ones((3, 1)), directed=True), given, weight, directed=True)
    assert one_way.edge_weight is not None
    assert one_way.neighbour.tolist() == [2, 0, 0]
    assert one_way.edge_weight.tolist() == [0.5, 0.25, 0.75]


def test_a_weight_that_is_not_finite_is_refused():
    given = np.array([[0, 1], [1, 2]])
    weight = np.array([1.0, np.nan], dtype=np.float32)
    with pytest.raises(GraphError, match=r"^edge weights must be finite, found nan on edge number 2$"):
        with_weights(Graph.build(given, np.ones((3, 1))), given, weight, directed=False)


# --- sparse features ---

DENSE = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, -3.0], [0.0, 0.0, 0.0], [4.0, 0.0, 0.0]])


def sparse(dense: torch.Tensor) -> SparseRows:
    return SparseRows.from_scipy(sp.csr_matrix(dense.numpy()))


def test_sparse_rows_store_only_non_zero_values():
    rows = sparse(DENSE)
    assert rows.shape == (4, 3)
    assert rows.row_ptr.tolist() == [0, 1, 3, 3, 4]
    assert rows.column.tolist() == [1, 0, 2, 0]
    assert rows.row.tolist() == [0, 1, 1, 3]
    assert rows.value.tolist() == [2.0, 1.0, -3.0, 4.0]


def test_converting_a_scipy_matrix_does_not_change_it():
    matrix = sp.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 4))
    assert to_dense(SparseRows.from_scipy(matrix)).tolist() == [[2.0, 0.0, 4.0, 0.0]]
    assert matrix.indices.tolist() == [2, 0, 2]
    assert matrix.data.tolist() == [1.0, 2.0, 3.0]


def test_rows_are_taken_in_the_order_given():
    order = torch.tensor([3, 1, 1, 2])
    assert torch.equal(to_dense(sparse(DENSE).take(order)), DENSE[order])
    taken = take_rows(sparse(DENSE), order)
    assert isinstance(taken, SparseRows)
    assert torch.equal(to_dense(taken), take_rows(DENSE, order))


def test_ranges_and_masks_of_sparse_rows_are_those_of_dense_ones():
    kept = torch.tensor([True, False, True, True])
    assert torch.equal(to_dense(slice_rows(sparse(DENSE), slice(1, 3))), DENSE[1:3])
    assert torch.equal(to_dense(mask_rows(sparse(DENSE), kept)), mask_rows(DENSE, kept))
    assert mask_rows(DENSE, kept)[1].tolist() == [0.0, 0.0, 0.0]


def test_features_become_sparse_without_stored_zeros_and_with_ascending_columns():
    stored = SparseRows(torch.tensor([0, 3]), torch.tensor([2, 0, 1]), torch.tensor([5.0, 0.0, 4.0]), 3)
    for features in (stored, torch.tensor([[0.0, 4.0, 5.0]])):
        rows = to_sparse(features)
        assert rows.column.tolist() == [1, 2]
        assert rows.value.tolist() == [4.0, 5.0]


def test_the_identity_gives_each_node_its_own_column():
    assert torch.equal(to_dense(SparseRows.identity(4)), torch.eye(4))
    assert SparseRows.identity(1_000_000).value.numel() == 1_000_000


@pytest.mark.parametrize("kind", ["none", "row", "l2"])
def test_sparse_rows_are_normalised_as_dense_ones(kind):
    scaled = normalise(sparse(DENSE), kind)
    assert isinstance(scaled, SparseRows)
    torch.testing.assert_close(to_dense(scaled), normalise(DENSE, kind))


def test_rows_are_normalised_to_the_requested_length():
    expected_row = torch.tensor([[0.0, 1.0, 0.0], [0.25, 0.0, -0.75], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(normalise(DENSE, "row"), expected_row)
    unit = normalise(torch.tensor([[3.0, 4.0]]), "l2")
    torch.testing.assert_close(unit, torch.tensor([[0.6, 0.8]]))


def test_sparse_rows_are_projected_as_dense_ones_with_the_same_gradient():
    weight = torch.arange(6.0).reshape(3, 2).requires_grad_()
    result = project(sparse(DENSE), weight)
    torch.testing.assert_close(result, torch.tensor([[4.0, 6.0], [-12.0, -14.0], [0.0, 0.0], [0.0, 4.0]]))
    (slope,) = torch.autograd.grad(result.square().sum(), weight)
    (expected,) = torch.autograd.grad(project(DENSE, weight).square().sum(), weight)
    torch.testing.assert_close(slope, expected)


def test_rows_without_any_value_are_projected_to_zero():
    empty = SparseRows.from_scipy(sp.csr_matrix((2, 3)))
    assert project(empty, torch.ones(3, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


# --- properties ---

ADJACENCIES = st.integers(1, 6).flatmap(lambda nodes: hnp.arrays(np.bool_, (nodes, nodes)))


@given(ADJACENCIES)
@settings(max_examples=60, deadline=None)
def test_a_directed_graph_has_exactly_the_edges_of_its_matrix_without_loops(adjacency):
    graph = from_scipy(sp.csr_matrix(adjacency), np.ones((len(adjacency), 1)), directed=True)
    back = np.zeros_like(adjacency)
    back[graph.neighbour.numpy(), graph.target.numpy()] = True
    expected = adjacency & ~np.eye(len(adjacency), dtype=bool)
    assert np.array_equal(back, expected)
    assert graph.num_edges == expected.sum()


@given(ADJACENCIES)
@settings(max_examples=60, deadline=None)
def test_an_undirected_graph_is_symmetric_and_sorted(adjacency):
    graph = from_scipy(sp.csr_matrix(adjacency), np.ones((len(adjacency), 1)))
    expected = (adjacency | adjacency.T) & ~np.eye(len(adjacency), dtype=bool)
    target, source = np.nonzero(expected)
    assert graph.target.tolist() == target.tolist()
    assert graph.neighbour.tolist() == source.tolist()


@given(ADJACENCIES, st.data())
@settings(max_examples=60, deadline=None)
def test_an_induced_subgraph_has_exactly_the_edges_among_its_nodes(adjacency, data):
    nodes = data.draw(hnp.arrays(np.bool_, len(adjacency)).filter(np.any)).nonzero()[0]
    graph = from_scipy(sp.csr_matrix(adjacency), np.ones((len(adjacency), 1)), directed=True)
    part = graph.induced(torch.from_numpy(nodes))
    back = {(int(nodes[source]), int(nodes[target])) for source, target in edges_of(part)}
    assert back == {edge for edge in edges_of(graph) if set(edge) <= set(nodes.tolist())}
    assert part.num_edges == len(back)


@given(
    hnp.arrays(np.float32, (4, 3), elements=st.sampled_from([0.0, 1.0, -2.5])), st.lists(st.integers(0, 3))
)
@settings(max_examples=60, deadline=None)
def test_sparse_features_make_the_same_round_trip_as_dense_ones(values, order):
    rows = SparseRows.from_scipy(sp.csr_matrix(values))
    taken = rows.take(torch.tensor(order, dtype=torch.long))
    assert np.array_equal(taken.to_scipy().toarray(), values[order])
