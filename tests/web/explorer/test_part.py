"""The part of a graph that a page shows, on a path of five nodes: 0 - 1 - 2 - 3 - 4."""

import numpy as np
import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.errors import GraphError
from gdpnet.web.explorer.part import part_of, part_of_all


@pytest.fixture
def path() -> Graph:
    return Graph.build([[0, 1, 2, 3], [1, 2, 3, 4]], np.eye(5), node_ids=list("abcde"))


def test_without_nodes_the_whole_graph_is_shown(path):
    part = part_of(path, None, hops=1)
    assert part.whole
    assert part.ids == list("abcde")
    assert part.edge.numel() == 8


def test_nodes_are_shown_with_those_around_them_and_the_edges_between(path):
    part = part_of(path, torch.tensor([1]), hops=1)
    assert (part.ids, part.whole, part.asked.tolist()) == (["a", "b", "c"], False, [1])
    assert list(zip(part.target.tolist(), part.neighbour.tolist(), strict=True)) == [
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 1),
    ]


def test_two_hops_reach_farther(path):
    assert part_of(path, torch.tensor([0]), hops=2).ids == ["a", "b", "c"]


def test_a_graph_that_is_too_large_is_refused_in_a_sentence_that_says_what_to_do(path):
    with pytest.raises(
        GraphError, match=r"at most 7 directed edges, found 8; .*--nodes, or use gdpnet serve"
    ):
        part_of(path, None, hops=1, most=7)
    assert part_of_all(path).edge.numel() == 8


def test_a_part_that_is_too_large_is_refused_too(path):
    with pytest.raises(GraphError, match="at most 3 directed edges, found 4; name fewer nodes"):
        part_of(path, torch.tensor([1]), hops=1, most=3)
