"""Suspected label errors: which training labels, when they are looked for, and how they are reported."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet import GDPNet
from gdpnet._core.random import Key
from gdpnet.cli import main
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.inference.ensemble import embed_fold_models
from gdpnet.inference.select import keep_all
from gdpnet.training import label_noise
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.data import TrainingData, make_training_data
from gdpnet.training.fit_hopwise_head import HeldOutNodes
from gdpnet.training.label_noise import (
    TRUSTED,
    is_time_to_check_labels,
    name_suspected,
    suggested_labels,
    suspect_labels,
    without_suspected,
)
from gdpnet.training.run_folder import create_run
from gdpnet.training.state import Epoch, TrainingState, begin_training
from gdpnet.training.trainer import train_epochs
from helpers.small import FAST, write_folder

pytestmark = pytest.mark.slow  # nearly every test trains a model

CPU = torch.device("cpu")
WARM = Config().with_values(
    {
        "training": {"warmup": 10, "epochs": 1, "injected": 0.0},
        "representation": {"width": 16, "learning_rate": 0.02, "batch_size": 32},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
        "hopwise": {"use": False},
        "gcn": {"use": False},
    }
)


def flipped(rate: float, seed: int = 0) -> Graph:
    """Return a graph of three classes that features and links tell well, some of its training labels flipped."""
    draws = torch.Generator().manual_seed(seed)
    label = torch.arange(600) % 3
    partner = 3 * torch.randint(200, (2, 1800), generator=draws)
    source = torch.arange(1800) % 600
    edges = torch.stack([source, (partner[0] + source % 3) % 600])
    features = torch.nn.functional.one_hot(label, 3) + 0.7 * torch.randn(600, 3, generator=draws)
    split = torch.where(torch.arange(600) < 360, 1, 2 + (torch.arange(600) >= 480).long())
    graph = Graph.build(edges, features.abs(), label, split=split)
    return corrupt(graph, "flipped-labels", rate, seed).graph if rate else graph


def after_warm_up(graph, config: Config = WARM):
    data = make_training_data(graph, config, 0, CPU)
    state = begin_training(data, graph.num_classes, config, Key.of(0), CPU)
    train_epochs(state, data, config, Key.of(0))
    return data, state


# --- which labels ---


def test_a_label_is_suspected_if_another_class_reaches_its_usual_probability():
    label = torch.tensor([0, 0, 1, 1, 0, 1])
    chance = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [0.2, 0.8], [0.45, 0.55]])
    # usual of class 0: (.9 + .7 + .2) / 3 = .6; of class 1: (.8 + .6 + .55) / 3 = .65
    assert suggested_labels(chance, label).tolist() == [-1, -1, -1, -1, 1, -1]


def test_a_class_that_is_a_little_more_likely_than_the_label_is_not_enough():
    label = torch.tensor([0, 1, 1])
    chance = torch.tensor([[0.45, 0.55], [0.1, 0.9], [0.1, 0.9]])
    assert suggested_labels(chance, label).tolist() == [TRUSTED] * 3


def test_the_most_probable_of_several_other_classes_is_suggested():
    label = torch.tensor([0, 0, 1, 2])
    chance = torch.tensor([[0.1, 0.4, 0.5], [0.9, 0.05, 0.05], [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]])
    assert suggested_labels(chance, label).tolist()[0] == 2


def test_a_class_keeps_its_labels_if_all_would_be_suspected():
    label = torch.tensor([0, 1, 1, 0])
    chance = torch.tensor([[0.2, 0.8], [0.3, 0.7], [0.1, 0.9], [0.1, 0.9]])
    assert suggested_labels(chance, label).tolist() == [TRUSTED] * 4


def test_a_class_without_training_nodes_is_never_suggested():
    chance = torch.tensor([[0.2, 0.1, 0.7], [0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
    assert suggested_labels(chance, torch.tensor([0, 0, 1])).tolist() == [TRUSTED] * 3


# --- when ---


@pytest.mark.parametrize(
    ("epoch", "has_suspected", "due"),
    [
        (10, False, False),
        (11, False, True),
        (16, False, False),
        (16, True, True),
        (17, True, False),
        (6, True, False),
    ],
)
def test_labels_are_checked_after_the_warm_up_and_again_only_if_some_are_suspected(epoch, has_suspected, due):
    suggested = torch.zeros(3) if has_suspected else None
    assert is_time_to_check_labels(epoch, suggested, WARM) is due


def test_without_a_warm_up_labels_are_never_checked():
    config = WARM.with_values({"training": {"warmup": 0}})
    assert not any(is_time_to_check_labels(epoch, None, config) for epoch in range(1, 10))


def test_true_labels_are_trusted_and_flipped_ones_suspected():
    data, state = after_warm_up(flipped(0.0))
    assert state.suggested is None
    graph = flipped(0.4)
    data, state = after_warm_up(graph)
    assert state.suggested is not None
    wrong = (graph.truth.clean_labels != graph.labels)[data.seen[data.targets]]
    suspected = state.suggested != TRUSTED
    assert wrong[suspected].float().mean() > 0.7
    assert suspected[wrong].float().mean() > 0.7
    suggested = state.suggested[suspected & wrong]
    assert (
        suggested == graph.truth.clean_labels[data.seen[data.targets]][suspected & wrong]
    ).float().mean() > 0.8
    left = without_suspected(data, state.suggested)
    assert left.targets.numel() == int((~suspected).sum())
    assert set(left.targets.tolist()) <= set(data.targets.tolist())


@pytest.mark.parametrize(
    "values",
    [{"training": {"label_error_gap": 1.0}}, {"reward": {"folds": 1}}],
    ids=["switched off", "no fold model leaves labels out"],
)
def test_labels_are_not_suspected(values):
    assert after_warm_up(flipped(0.4), WARM.with_values(values))[1].suggested is None


def test_without_validation_nodes_nothing_says_that_labels_are_wrong():
    data, state = after_warm_up(flipped(0.4, seed=3))
    assert suspect_labels(state.aggregators, data, WARM) is not None
    blind = replace(data, validation=data.validation[:0], validation_labels=data.validation_labels[:0])
    assert suspect_labels(state.aggregators, blind, WARM) is None


def test_a_handful_of_validation_nodes_is_too_few_to_suspect_labels():
    data, state = after_warm_up(flipped(0.1))
    right = [node for node in data.validation.tolist() if is_right(data, state, node)][:4]
    few = torch.tensor(right)
    labels = torch.tensor([int(data.validation_labels[data.validation == node]) for node in right])
    assert (
        suspect_labels(state.aggregators, replace(data, validation=few, validation_labels=labels), WARM)
        is None
    )


def is_right(data: TrainingData, state: TrainingState, node: int) -> bool:
    """Say whether every fold model is right about a validation node."""
    fold_probabilities = embed_fold_models(
        state.aggregators, data.whole, torch.tensor([node]), keep_all(data.whole).probability
    )[1]
    return bool(
        (fold_probabilities[0].argmax(dim=1) == data.validation_labels[data.validation == node]).all()
    )


def test_few_labels_per_class_are_all_trusted(monkeypatch):
    graph = flipped(0.4)
    hidden = torch.where(torch.arange(600) % 360 < 59, graph.labels, -1)
    data, state = after_warm_up(replace(graph, labels=torch.where(graph.split == 1, hidden, graph.labels)))
    assert data.targets.numel() == 59  # of three classes
    assert state.suggested is None
    monkeypatch.setattr(label_noise, "_score", lambda right: (float(right.mean()), 0.0))
    always = WARM.with_values({"training": {"label_error_gap": 0.0}})
    labels = data.labels.clone()
    labels[data.targets] = (labels[data.targets] + 1) % 3
    wrong = replace(data, labels=labels)
    assert suspect_labels(state.aggregators, wrong, always) is None
    fewer = always.with_values({"training": {"label_error_min_per_class": 19}})
    assert suspect_labels(state.aggregators, wrong, fewer) is not None


def test_if_labels_are_suspected_the_hopwise_head_is_evaluated_on_validation_nodes_only():
    data, state = after_warm_up(flipped(0.4))
    assert HeldOutNodes.of(data).nodes.numel() == data.validation.numel() + data.targets.numel()
    left = without_suspected(data, state.suggested)
    assert torch.equal(HeldOutNodes.of(left).nodes, data.validation)


def test_a_resumed_run_suspects_the_same_labels(tmp_path):
    graph, config = flipped(0.4), WARM.with_values({"training": {"epochs": 8, "patience": 8}})
    whole = GDPNet.from_config(config, seed=0, device="cpu").fit(graph)

    class StopError(Exception):
        pass

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == 14:
            raise StopError

    run = create_run(tmp_path / "run", config, "mine", graph, 0, "paper", {})
    with pytest.raises(StopError):
        GDPNet.from_config(config, seed=0, device="cpu").fit(graph, callbacks=[Checkpoint(run), stop])
    again = GDPNet.from_config(config, seed=0, device="cpu").fit(graph, callbacks=[Checkpoint(run)])
    assert again.suspected_labels_ == whole.suspected_labels_ != ()
    assert torch.equal(again.networks_.aggregators.weight, whole.networks_.aggregators.weight)


# --- reports ---


def test_suspected_nodes_are_named_as_in_the_graph_and_saved_with_the_model(tmp_path):
    graph = flipped(0.4)
    graph = replace(graph, node_ids=np.array([f"n{number}" for number in range(graph.num_nodes)]))
    model = GDPNet.from_config(WARM, seed=0, device="cpu").fit(graph)
    assert model.suspected_labels_
    names = list(graph.class_names)
    for one in model.suspected_labels_:
        number = int(one.node.removeprefix("n"))
        assert one.label == names[graph.labels[number]]
        assert one.suggested in names
        assert one.suggested != one.label
    model.save(tmp_path / "model.safetensors")
    assert GDPNet.load(tmp_path / "model.safetensors").suspected_labels_ == model.suspected_labels_
    assert name_suspected(graph, make_training_data(graph, WARM, 0, CPU), None) == ()


def test_train_writes_a_table_of_suspected_labels_and_says_so(tmp_path, capsys):
    folder = write_folder(tmp_path / "mine", flipped(0.4))
    out = tmp_path / "run"
    (tmp_path / "warm.toml").write_text(WARM.to_toml())
    assert main(["train", str(folder), "--out", str(out), "--config", str(tmp_path / "warm.toml")]) == 0
    said = capsys.readouterr().err
    lines = (out / "suspected_labels.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "node,label,suggested"
    assert f"note: {len(lines) - 1} training labels are suspected to be wrong and were not used" in said


def test_a_run_with_trusted_labels_has_no_such_file(tmp_path, capsys):
    folder, out = write_folder(tmp_path / "mine"), tmp_path / "run"
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    assert main(["train", str(folder), "--out", str(out), "--config", str(tmp_path / "fast.toml")]) == 0
    assert not (out / "suspected_labels.csv").exists()
    assert "suspected" not in capsys.readouterr().err
