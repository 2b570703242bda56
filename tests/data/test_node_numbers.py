"""Nodes by id or by number."""

import numpy as np
import pytest
import torch
from pandas import DataFrame

from gdpnet.data.graph import Graph
from gdpnet.data.node_numbers import node_numbers, pair_numbers
from gdpnet.errors import GraphError


def graph_with_ids(ids: list) -> Graph:
    return Graph.build([[0], [1]], np.eye(len(ids)), node_ids=np.array(ids))


NAMED = graph_with_ids(["ann", "bob", "cid", "003"])
WHOLE = graph_with_ids([10, 2, 0, 1])
WHOLE_TEXT = graph_with_ids(["10", "2", "0", "1"])


@pytest.mark.parametrize(
    ("graph", "nodes", "numbers"),
    [
        (NAMED, None, [0, 1, 2, 3]),
        (NAMED, "bob", [1]),
        (NAMED, ["cid", "ann"], [2, 0]),
        (NAMED, ["003"], [3]),
        (NAMED, np.array(["cid"]), [2]),
        (NAMED, [3, 1], [3, 1]),
        (NAMED, 3, [3]),
        (NAMED, [], []),
        (NAMED, range(2), [0, 1]),
        (WHOLE, [10, 2], [0, 1]),
        (WHOLE, ["10"], [0]),
        (WHOLE, 1, [3]),
        (WHOLE_TEXT, [10, 2], [0, 1]),
        (WHOLE, torch.tensor([1, 2]), [1, 2]),
        (WHOLE, np.array([3]), [3]),
        (NAMED, np.array([3, 0]), [3, 0]),
        (NAMED, np.array([True, False, False, True]), [0, 3]),
        (NAMED, torch.tensor([False, True, False, False]), [1]),
    ],
)
def test_text_is_an_id_and_a_whole_number_is_an_id_where_ids_are_whole_numbers(graph, nodes, numbers):
    assert node_numbers(graph, nodes).tolist() == numbers


def test_rows_of_nodes_stay_rows():
    assert node_numbers(NAMED, [["ann", "bob"], ["cid", "ann"]]).tolist() == [[0, 1], [2, 0]]
    assert node_numbers(NAMED, torch.tensor([[0, 1], [2, 3]])).shape == (2, 2)


@pytest.mark.parametrize(
    ("graph", "nodes", "sentence"),
    [
        (NAMED, ["dan"], "the graph has no node 'dan'"),
        (WHOLE, [7], "the graph has no node '7'"),
        (NAMED, [4], "node numbers must lie between 0 and 3"),
        (WHOLE, np.array([10]), "node numbers must lie between 0 and 3; give ids as a list"),
        (NAMED, torch.tensor([0.5]), "nodes must be ids or whole numbers, found torch.float32"),
        (
            NAMED,
            np.array([True]),
            "a mask must hold true or false for each of 4 nodes, found shape (1,)",
        ),
        (
            WHOLE,
            np.array([2, 1]),
            "an array of whole numbers must name nodes in one way, found values that are node numbers and also ids "
            "of other nodes: give ids as a list, numbers as a tensor",
        ),
    ],
)
def test_a_node_that_cannot_be_told_is_refused(graph, nodes, sentence):
    with pytest.raises(GraphError) as refusal:
        node_numbers(graph, nodes)
    assert str(refusal.value) == sentence


def test_an_array_of_numbers_is_taken_where_ids_are_the_numbers_themselves():
    plain = Graph.build([[0], [1]], np.eye(4))
    assert node_numbers(plain, np.array([2, 1])).tolist() == [2, 1]


# --- pairs ---

PAIRS = [("b", "a"), ("c", "b"), ("a", "c")]
ROWS = [[1, 2, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        [["b", "c", "a"], ["a", "b", "c"]],
        (["b", "c", "a"], ["a", "b", "c"]),
        zip("bca", "abc", strict=True),
        torch.tensor(ROWS),
        torch.tensor(ROWS).T,
        np.array(ROWS).T,
        np.array(PAIRS),
        DataFrame(PAIRS, columns=["source", "target"]),
        [list(pair) for pair in PAIRS],
    ],
)
def test_pairs_are_tuples_rows_or_a_frame(pairs):
    graph = Graph.build([[0], [1]], np.eye(3), node_ids=["a", "b", "c"])
    assert pair_numbers(graph, pairs).tolist() == ROWS


def test_two_tuples_are_two_pairs_and_two_lists_are_two_rows():
    graph = Graph.build([[0], [1]], np.eye(3), node_ids=["a", "b", "c"])
    assert pair_numbers(graph, [("a", "b"), ("a", "c")]).tolist() == [[0, 0], [1, 2]]
    assert pair_numbers(graph, [["a", "b"], ["a", "c"]]).tolist() == [[0, 1], [0, 2]]
    assert pair_numbers(graph, ("a", "c")).tolist() == [[0], [2]]


@pytest.mark.parametrize(
    "pairs", [["a", "b", "c"], "ab", 7, [["a"], ["b", "c"]], [("a", "b", "c")], np.zeros((3, 3))]
)
def test_what_is_no_pair_is_refused(pairs):
    graph = Graph.build([[0], [1]], np.eye(3), node_ids=["a", "b", "c"])
    with pytest.raises(
        GraphError, match="pairs must be two rows of nodes, one row per pair, or a list of tuples"
    ):
        pair_numbers(graph, pairs)


def test_an_iterator_is_read_no_further_than_there_are_nodes():
    graph = Graph.build([[0], [1]], np.eye(4), node_ids=list("abcd"))
    assert node_numbers(graph, iter([2, 0])).tolist() == [2, 0]
    for endless in (iter(int, 1), range(10**12)):
        with pytest.raises(GraphError, match=r"there are 4 nodes, found a .* of more: give a list"):
            node_numbers(graph, endless)
    with pytest.raises(GraphError, match=r"there are 16 pairs, found a .* of more: give a list"):
        pair_numbers(graph, iter(lambda: (0, 1), None))
