"""Spectral columns: what they tell apart, and the rows of nodes that are not in the training graph."""

from itertools import combinations, product

import pytest
import torch

from gdpnet.config import Config
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.training.data import TrainingData, make_training_data
from gdpnet.training.spectral import SpectralColumns, spectral_columns

WITHOUT_POLICY = Config().with_values({"training": {"selection": False}})
FIRST, SECOND = range(6), range(6, 12)
GROUPS = [*combinations(FIRST, 2), *combinations(SECOND, 2), (0, 6)]


def data_of(links: list[tuple[int, int]], *, transductive: bool = True) -> TrainingData:
    """Return twelve nodes of two classes, of which one in each trains and one validates."""
    label, split = torch.arange(12) // 6, torch.full((12,), 3)
    split[[1, 7]], split[[2, 8]] = 1, 2
    if not transductive:
        split[split == 3] = 0  # context nodes are in the training graph, validation nodes are not
    ends = torch.tensor(links).T
    graph = Graph.build(ends, SparseRows.identity(12), label, split=split, transductive=transductive)
    return make_training_data(graph, WITHOUT_POLICY, 0, torch.device("cpu"))


def columns_of(data: TrainingData, count: int = 2) -> SpectralColumns | None:
    return spectral_columns(data, data.train.linked, data.whole.linked, count)


def test_second_column_divides_two_groups() -> None:
    columns = columns_of(data_of(GROUPS))
    assert columns is not None
    side = columns.train[:, 1] > 0
    assert bool((side[:6] == side[0]).all())
    assert bool((side[6:] != side[0]).all())


def test_links_between_two_groups_alone_divide_them_too() -> None:
    links = [(one, other) for one, other in product(FIRST, SECOND) if (one + other) % 3]
    columns = columns_of(data_of(links))
    assert columns is not None
    rows = columns.leading(2).train  # the eigenvalues are as far above zero as below, in either order
    assert torch.allclose(rows[:6] @ rows[:6].T, torch.ones(6, 6), atol=1e-3)
    assert torch.allclose(rows[:6] @ rows[6:].T, torch.zeros(6, 6), atol=1e-3)


def test_validation_nodes_of_a_transductive_graph_have_their_own_rows() -> None:
    data = data_of(GROUPS)
    columns = columns_of(data)
    assert columns is not None
    assert torch.allclose(columns.validation, columns.train[data.validation], atol=1e-4)


def test_validation_nodes_outside_the_training_graph_are_placed_by_their_neighbours() -> None:
    data = data_of(GROUPS, transductive=False)
    columns = columns_of(data)
    assert columns is not None
    assert len(columns.train) == 10  # without the two validation nodes
    found, near = columns.leading(2).validation, columns.leading(2).train[[1, 6]]  # a node of each group
    assert torch.allclose(found, near, atol=0.05)


def test_edges_that_are_not_kept_have_no_part() -> None:
    data = data_of(GROUPS)
    kept = data.train.linked.clone()
    kept[(data.train.block_target < 6) != (data.train.neighbour < 6)] = 0.0
    columns = spectral_columns(data, kept, kept, 2)
    assert columns is not None
    assert columns.train[0].dot(columns.train[6]) == pytest.approx(0.0, abs=1e-4)


def test_first_columns_are_rows_of_length_one() -> None:
    columns = columns_of(data_of(GROUPS), 3)
    assert columns is not None
    first = columns.leading(2)
    assert first.train.shape == (12, 2)
    assert torch.allclose(first.train.norm(dim=1), torch.ones(12))


def test_a_graph_of_few_nodes_has_no_columns() -> None:
    assert columns_of(data_of(GROUPS), 6) is None
