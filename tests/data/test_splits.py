"""A split is made by class where a graph has none."""

import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.splits import cross_validation_splits, parse_shares, with_split
from gdpnet.errors import ConfigError, GraphError


def _graph(labels: list[int]) -> Graph:
    return Graph.build([[0], [1]], torch.eye(len(labels)), labels)


def test_every_class_is_divided_by_itself() -> None:
    graph = with_split(_graph([0] * 50 + [1] * 10 + [-1] * 5))
    sizes = [
        [int((graph.split[graph.labels == label] == code).sum()) for code in (1, 2, 3)] for label in (0, 1)
    ]
    assert sizes == [[30, 10, 10], [6, 2, 2]]
    assert graph.split[graph.labels == -1].tolist() == [0] * 5


@pytest.mark.parametrize(("count", "sizes"), [(1, [1, 0, 0]), (2, [1, 0, 1]), (3, [1, 1, 1]), (5, [3, 1, 1])])
def test_a_tiny_class_trains_then_tests_then_validates(count: int, sizes: list[int]) -> None:
    split = with_split(_graph([0] * count + [1] * 20)).split[:count]
    assert [int((split == code).sum()) for code in (1, 2, 3)] == sizes


def test_one_seed_gives_one_split() -> None:
    graph = _graph([0, 1] * 30)
    assert torch.equal(with_split(graph, seed=3).split, with_split(graph, seed=3).split)
    assert not torch.equal(with_split(graph, seed=3).split, with_split(graph, seed=4).split)


def test_every_labelled_node_tests_in_one_fold_of_a_cross_validation() -> None:
    graph = _graph([0] * 11 + [1] * 7 + [-1] * 2)
    splits = torch.stack(cross_validation_splits(graph, 5))
    assert (splits == 3).sum(dim=0).tolist() == [1] * 18 + [0] * 2
    assert (splits == 2).sum(dim=0).tolist() == [1] * 18 + [0] * 2


def test_more_folds_than_nodes_are_refused() -> None:
    with pytest.raises(GraphError, match="at least 5 labelled nodes of some class, found 2"):
        cross_validation_splits(_graph([0, 0, 1]), 5)


def test_shares_are_read_from_percent() -> None:
    assert parse_shares("60/20/20") == (0.6, 0.2, 0.2)
    for wrong in ("60/20", "60/20/30", "a/b/c", "120/-40/20"):
        with pytest.raises(ConfigError):
            parse_shares(wrong)
