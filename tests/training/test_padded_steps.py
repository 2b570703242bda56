"""Steps of the aggregators with fixed shapes give what the steps on ragged batches give."""

from dataclasses import replace

import pytest
import torch

from gdpnet._core.random import Key
from gdpnet._core.replay import Replays
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.features import SparseRows, to_dense
from gdpnet.data.graph import Graph
from gdpnet.inference.objective import classification_by
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.data import make_training_data
from gdpnet.training.padded_steps import PaddedSteps, can_pad, padded_steps
from gdpnet.training.representation_phase import representation_phase
from gdpnet.training.state import begin_training
from gdpnet.training.trainer import train_epochs
from helpers.setups import CPU

BASE = {
    "training": {"epochs": 2, "warmup": 1, "patience": 100},
    "representation": {"width": 8, "dropout": 0.0, "batch_size": 16},
    "policy": {"hidden": [8, 6]},
    "inference": {"episodes": 2},
    "ppo": {"batch_size": 16},
}
GRAPH = SyntheticSettings(nodes=120, classes=3, words=100, links_per_node=3.0)


def dense_graph(weighted: bool = False) -> Graph:
    graph = synthetic_graph(GRAPH, seed=0)
    graph = replace(graph, features=to_dense(graph.features))
    if not weighted:
        return graph
    draws = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1))
    return replace(graph, edge_weight=draws + 0.5)


def setup(graph, config, *, padded, task=None):
    data = make_training_data(graph, config, 0, CPU)
    data = data if task is None else replace(data, task=task)
    state = begin_training(data, graph.num_classes, config, Key.of(0), CPU)
    state.replays = Replays() if padded else None
    return state, data


def numbers(state):
    """Return the weights of the aggregators and their moments, in one vector."""
    weights = list(state.aggregators.parameters())
    known = [state.optimiser.state[weight] for weight in weights if weight in state.optimiser.state]
    moments = [each[name] for each in known for name in sorted(each)]  # a checkpoint changes their order
    return torch.cat([value.detach().flatten() for value in [*weights, *moments]])


@pytest.mark.parametrize("selecting", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("self_weight", [False, True])
def test_padded_steps_give_the_same_weights_and_losses(self_weight, hops, weighted, selecting):
    config = (
        Config().with_values(BASE).with_values({"representation": {"self_weight": self_weight, "hops": hops}})
    )
    told = []
    for padded in (False, True):
        state, data = setup(dense_graph(weighted), config, padded=padded)
        before = numbers(state)
        outcome = representation_phase(state, data, config, Key.of(3), selecting)
        told.append((numbers(state), *map(float, outcome)))
        assert not torch.allclose(before, told[-1][0][: before.numel()])
        assert (state.replays is not None) == padded
    assert data.targets.numel() % 16 != 0  # the last batch of a pass is padded
    torch.testing.assert_close(told[0][0], told[1][0], atol=2e-5, rtol=1e-4)
    assert told[0][1:] == pytest.approx(told[1][1:], abs=1e-5)


def test_class_weights_count_in_padded_steps():
    config = Config().with_values(BASE)
    told = []
    for padded in (False, True):
        task = classification_by("micro_f1", (0.5, 1.0, 3.0))
        state, data = setup(dense_graph(), config, padded=padded, task=task)
        representation_phase(state, data, config, Key.of(3), False)
        told.append(numbers(state))
    torch.testing.assert_close(*told, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("most", [1, 3, 100])
def test_batches_of_one_pass_or_several_are_trained_on(most):
    config = Config().with_values(BASE).with_values({"representation": {"max_steps": most}})
    told = []
    for padded in (False, True):
        state, data = setup(dense_graph(), config, padded=padded)
        told.append((representation_phase(state, data, config, Key.of(3), True), numbers(state)))
    torch.testing.assert_close(told[0][1], told[1][1], atol=2e-5, rtol=1e-4)
    assert float(told[0][0][1]) == float(told[1][0][1])


def test_sparse_features_and_unknown_tasks_are_not_padded():
    config = Config().with_values(BASE)
    _, data = setup(dense_graph(), config, padded=True)
    assert can_pad(data, 10)
    assert not can_pad(data, 1 << 30)

    class Own(type(data.task)):
        pass

    assert not can_pad(replace(data, task=Own()), 10)
    sparse = synthetic_graph(GRAPH, seed=0)
    assert isinstance(sparse.features, SparseRows)
    assert not can_pad(setup(sparse, config, padded=True)[1], 10)


def test_epochs_use_the_same_step_again():
    config = Config().with_values(BASE)
    state, data = setup(dense_graph(), config, padded=True)
    train_epochs(state, data, config, Key.of(0))
    assert len(state.replays._kept[PaddedSteps]) == 1


def test_a_padded_run_that_was_resumed_ends_as_one_that_was_not(tmp_path):
    config = Config().with_values(BASE).with_values({"representation": {"dropout": 0.5}})
    ends = []
    for name, stops in (("whole", [3]), ("again", [3]), ("resumed", [2, 3])):
        for epochs in stops:
            state, data = setup(dense_graph(), config, padded=True)
            (tmp_path / name).mkdir(exist_ok=True)
            settings = config.with_values({"training": {"epochs": epochs}})
            train_epochs(state, data, settings, Key.of(0), [Checkpoint(tmp_path / name)])
        ends.append(
            torch.cat([numbers(state), *(value.flatten() for value in state.policy.state_dict().values())])
        )
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_captured_steps_resume_and_repeat_on_a_gpu(tmp_path):
    config = Config().with_values(BASE).with_values({"representation": {"dropout": 0.5}})
    device, ends = torch.device("cuda"), []
    for name, stops in (("whole", [4]), ("again", [4]), ("resumed", [2, 4])):
        for epochs in stops:
            data = make_training_data(dense_graph(), config, 0, device)
            state = begin_training(data, 3, config, Key.of(0), device)
            (tmp_path / name).mkdir(exist_ok=True)
            settings = config.with_values({"training": {"epochs": epochs, "selection": False}})
            train_epochs(state, data, settings, Key.of(0), [Checkpoint(tmp_path / name)])
        assert state.replays._kept[PaddedSteps][0].step.graph is not None
        ends.append(numbers(state))
    torch.testing.assert_close(ends[0], ends[1], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ends[0], ends[2], atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_captured_steps_give_what_the_host_computes():
    config = Config().with_values(BASE)
    told = []
    for name in ("cpu", "cuda"):
        device = torch.device(name)
        data = make_training_data(dense_graph(), config, 0, device)
        state = begin_training(data, 3, config, Key.of(0), device)
        state.replays = Replays()
        data_order = data.targets.split(16)
        for _ in range(3):
            padded_steps(
                state,
                data,
                config.representation,
                Key.of(1),
                data.targets.sort().values,
                data.train.linked > 0,
                data_order,
            )
        told.append(numbers(state).cpu())
    assert state.replays._kept[PaddedSteps][0].step.graph is not None
    torch.testing.assert_close(*told, atol=1e-4, rtol=1e-3)
