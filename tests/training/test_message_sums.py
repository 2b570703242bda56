"""The sums of messages before projection are the sums of messages one by one."""

from dataclasses import replace

import pytest
import torch

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data import neighbour_sums
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows, take_rows, to_dense
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare, with_neighbourhoods
from gdpnet.training import message_sums
from gdpnet.training.data import make_training_data
from gdpnet.training.message_sums import mixing_of, rows_of, sum_messages
from gdpnet.training.representation_phase import representation_phase
from gdpnet.training.state import begin_training
from helpers.setups import CPU

GRAPH = SyntheticSettings(nodes=120, classes=3, words=100, links_per_node=3.0)


def example(dense: bool, weighted: bool) -> Graph:
    graph = synthetic_graph(GRAPH, seed=0)
    graph = replace(graph, features=to_dense(graph.features)) if dense else graph
    draws = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1))
    return replace(graph, edge_weight=draws + 0.5) if weighted else graph


def one_by_one(prepared, target, selected):
    """Return the sum of the messages (W mean - k target) / (W - k) of one target, and of their weights."""
    rows, means = to_dense(prepared.features).double(), to_dense(prepared.neighbourhood).double()
    total, whole = torch.zeros(rows.shape[1], dtype=torch.double), 0.0
    for edge in range(int(prepared.row_ptr[target]), int(prepared.row_ptr[target + 1])):
        if not selected[edge]:
            continue
        node = int(prepared.neighbour[edge])
        message = means[node]
        if prepared.mean_weight is not None:
            back, heavy = int(prepared.reverse_edge[edge]), prepared.neighbourhood_weight[node].double()
            own = prepared.mean_weight[back].double() if back >= 0 else 0.0
            message = (heavy * message - own * rows[target]) / max(heavy - own, 0.5)
        weight = 1.0 if prepared.graph_weight is None else float(prepared.graph_weight[edge])
        total, whole = total + weight * message, whole + weight
    return total, whole


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hops", [1, 2])
def test_sums_are_those_of_the_messages_one_by_one(hops, weighted, dense, loops, monkeypatch):
    if loops:  # as for large graphs
        monkeypatch.setattr(neighbour_sums, "_in_loops", lambda rows, neighbour: True)
    config = Config().with_values({"representation": {"hops": hops}})
    prepared = prepare(example(dense, weighted), config, CPU)
    draws = torch.rand(prepared.neighbour.numel(), generator=torch.Generator().manual_seed(2))
    if hops == 2:  # edges that the neighbours have dropped, or kept in part
        prepared = with_neighbourhoods(prepared, torch.where(draws < 0.2, 0.0, draws))
    selected, targets = draws > 0.3, torch.tensor([3, 7, 8, 40, 119])
    mixing, weight = mixing_of(prepared, targets, selected)
    sums = sum_messages(prepared, take_rows(prepared.features, targets), mixing)
    assert dense or hops == 2 or isinstance(sums, SparseRows)
    for place, target in enumerate(targets.tolist()):
        expected, whole = one_by_one(prepared, target, selected)
        torch.testing.assert_close(to_dense(sums)[place].double(), expected, atol=1e-6, rtol=1e-5)
        assert float(weight[place]) == pytest.approx(whole, rel=1e-6)


def test_a_target_without_selected_neighbours_gets_nothing():
    prepared = prepare(example(dense=False, weighted=False), Config(), CPU)
    nothing = torch.zeros(prepared.neighbour.numel(), dtype=torch.bool)
    targets = torch.tensor([0, 1])
    mixing, weight = mixing_of(prepared, targets, nothing)
    sums = sum_messages(prepared, take_rows(prepared.features, targets), mixing)
    assert not to_dense(sums).any()
    assert weight.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hops", [1, 2])
def test_training_with_messages_that_are_projected_first_gives_the_same_weights(hops, weighted, monkeypatch):
    """As around a hub, where the sums would be large."""
    config = Config().with_values(
        {"representation": {"hops": hops, "width": 8, "batch_size": 16}, "policy": {"hidden": [8, 6]}}
    )
    graph, told = example(dense=False, weighted=weighted), []
    for most in (message_sums._MOST_VALUES, 0):
        monkeypatch.setattr(message_sums, "_MOST_VALUES", most)
        data = make_training_data(graph, config, 0, CPU)
        state = begin_training(data, graph.num_classes, config, Key.of(0), CPU)
        rows = rows_of(data, data.targets, data.train.linked > 0, state.aggregators.fold_models)
        assert (rows.sums is None) == (most == 0)
        representation_phase(state, data, config, Key.of(3), False)
        told.append(torch.cat([weight.detach().flatten() for weight in state.aggregators.parameters()]))
    torch.testing.assert_close(*told, atol=2e-5, rtol=1e-4)
