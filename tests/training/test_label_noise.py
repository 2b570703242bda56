"""Training labels that are doubted, and when none are."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet import GDPNet
from gdpnet.cli import main
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.inference.ensemble import see
from gdpnet.inference.select import keep_all
from gdpnet.training import label_noise as doubting
from gdpnet.training.checkpoint import create_run
from gdpnet.training.data import Scene, make_scene
from gdpnet.training.hopwise_head import _Unseen
from gdpnet.training.label_noise import (
    TRUSTED,
    believed_instead,
    doubt_labels,
    is_time_to_doubt,
    name_doubted,
    without_doubted,
)
from gdpnet.training.trainer import Epoch, TrainingState, begin_training, train_epochs
from helpers.small import FAST, write_folder

CPU = torch.device("cpu")
WARM = Config().with_values(
    {
        "training": {"warmup": 10, "epochs": 1, "injected": 0.0},
        "representation": {"width": 16, "learning_rate": 0.02, "batch_size": 32},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
        "reader": {"use": False},
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
    scene = make_scene(graph, config, 0, CPU)
    state = begin_training(graph, scene, config, 0, CPU)
    train_epochs(state, scene, config, 0, lambda _: None)
    return scene, state


# --- which labels ---


def test_a_label_is_doubted_where_another_class_is_believed_as_much_as_is_usual_for_it():
    label = torch.tensor([0, 0, 1, 1, 0, 1])
    chance = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [0.2, 0.8], [0.45, 0.55]])
    # usual of class 0: (.9 + .7 + .2) / 3 = .6; of class 1: (.8 + .6 + .55) / 3 = .65
    assert believed_instead(chance, label).tolist() == [-1, -1, -1, -1, 1, -1]


def test_a_class_that_is_a_little_more_likely_than_the_label_is_not_enough():
    label = torch.tensor([0, 1, 1])
    chance = torch.tensor([[0.45, 0.55], [0.1, 0.9], [0.1, 0.9]])
    assert believed_instead(chance, label).tolist() == [TRUSTED] * 3


def test_of_several_classes_the_likeliest_is_believed():
    label = torch.tensor([0, 0, 1, 2])
    chance = torch.tensor([[0.1, 0.4, 0.5], [0.9, 0.05, 0.05], [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]])
    assert believed_instead(chance, label).tolist()[0] == 2


def test_a_class_keeps_its_labels_where_all_would_be_doubted():
    label = torch.tensor([0, 1, 1, 0])
    chance = torch.tensor([[0.2, 0.8], [0.3, 0.7], [0.1, 0.9], [0.1, 0.9]])
    assert believed_instead(chance, label).tolist() == [TRUSTED] * 4


def test_a_class_that_no_training_node_bears_is_never_believed():
    chance = torch.tensor([[0.2, 0.1, 0.7], [0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
    assert believed_instead(chance, torch.tensor([0, 0, 1])).tolist() == [TRUSTED] * 3


# --- when ---


@pytest.mark.parametrize(
    ("epoch", "doubting", "due"),
    [
        (10, False, False),
        (11, False, True),
        (16, False, False),
        (16, True, True),
        (17, True, False),
        (6, True, False),
    ],
)
def test_labels_are_looked_at_after_the_warm_up_and_again_only_if_some_are_doubted(epoch, doubting, due):
    believed = torch.zeros(3) if doubting else None
    assert is_time_to_doubt(epoch, believed, WARM) is due


def test_without_a_warm_up_nobody_can_doubt():
    config = WARM.with_values({"training": {"warmup": 0}})
    assert not any(is_time_to_doubt(epoch, None, config) for epoch in range(1, 10))


def test_true_labels_are_trusted_and_flipped_ones_doubted():
    scene, state = after_warm_up(flipped(0.0))
    assert state.believed is None
    graph = flipped(0.4)
    scene, state = after_warm_up(graph)
    assert state.believed is not None
    wrong = (graph.truth.clean_labels != graph.labels)[scene.seen[scene.targets]]
    doubted = state.believed != TRUSTED
    assert wrong[doubted].float().mean() > 0.7
    assert doubted[wrong].float().mean() > 0.7
    believed = state.believed[doubted & wrong]
    assert (
        believed == graph.truth.clean_labels[scene.seen[scene.targets]][doubted & wrong]
    ).float().mean() > 0.8
    left = without_doubted(scene, state.believed)
    assert left.targets.numel() == int((~doubted).sum())
    assert set(left.targets.tolist()) <= set(scene.targets.tolist())


@pytest.mark.parametrize(
    "values",
    [{"training": {"doubt": 1.0}}, {"reward": {"folds": 1}}],
    ids=["asked not to", "nobody left the labels out"],
)
def test_labels_are_not_doubted(values):
    assert after_warm_up(flipped(0.4), WARM.with_values(values))[1].believed is None


def test_without_validation_nodes_nothing_says_that_labels_are_wrong():
    graph = flipped(0.4)
    scene, state = after_warm_up(graph)
    assert doubt_labels(state.aggregators, scene, WARM) is not None
    blind = replace(scene, validation=scene.validation[:0], validation_labels=scene.validation_labels[:0])
    assert doubt_labels(state.aggregators, blind, WARM) is None


def test_a_handful_of_validation_nodes_is_too_few_to_doubt_by():
    scene, state = after_warm_up(flipped(0.1))
    right = [node for node in scene.validation.tolist() if is_right(scene, state, node)][:4]
    few = torch.tensor(right)
    labels = torch.tensor([int(scene.validation_labels[scene.validation == node]) for node in right])
    assert (
        doubt_labels(state.aggregators, replace(scene, validation=few, validation_labels=labels), WARM)
        is None
    )


def is_right(scene: Scene, state: TrainingState, node: int) -> bool:
    """Say whether every member is right about a validation node."""
    votes = see(state.aggregators, scene.whole, torch.tensor([node]), keep_all(scene.whole).probability)[1]
    return bool((votes[0].argmax(dim=1) == scene.validation_labels[scene.validation == node]).all())


def test_few_labels_a_class_are_all_trusted(monkeypatch):
    graph = flipped(0.4)
    hidden = torch.where(torch.arange(600) % 360 < 59, graph.labels, -1)
    scene, state = after_warm_up(replace(graph, labels=torch.where(graph.split == 1, hidden, graph.labels)))
    assert scene.targets.numel() == 59  # of three classes
    assert state.believed is None
    monkeypatch.setattr(doubting, "_score", lambda right: (float(right.mean()), 0.0))
    always = WARM.with_values({"training": {"doubt": 0.0}})
    labels = scene.labels.clone()
    labels[scene.targets] = (labels[scene.targets] + 1) % 3
    wrong = replace(scene, labels=labels)
    assert doubt_labels(state.aggregators, wrong, always) is None
    monkeypatch.setattr(doubting, "_LEAST", 19)
    assert doubt_labels(state.aggregators, wrong, always) is not None


def test_where_labels_are_doubted_the_reader_is_judged_by_validation_nodes_alone():
    scene, state = after_warm_up(flipped(0.4))
    assert _Unseen.of(scene).nodes.numel() == scene.validation.numel() + scene.targets.numel()
    left = without_doubted(scene, state.believed)
    assert torch.equal(_Unseen.of(left).nodes, scene.validation)


def test_a_run_that_was_stopped_doubts_the_same_labels(tmp_path):
    graph, config = flipped(0.4), WARM.with_values({"training": {"epochs": 8, "patience": 8}})
    whole = GDPNet.from_config(config, seed=0, device="cpu").fit(graph)

    class StopError(Exception):
        pass

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == 14:
            raise StopError

    run = create_run(tmp_path / "run", config, "mine", graph, 0, "paper", {})
    with pytest.raises(StopError):
        GDPNet.from_config(config, seed=0, device="cpu").fit(graph, run=run, on_epoch=stop)
    again = GDPNet.from_config(config, seed=0, device="cpu").fit(graph, run=run)
    assert again.doubted_ == whole.doubted_ != ()
    assert torch.equal(again.aggregators_.weight, whole.aggregators_.weight)


# --- what is told of it ---


def test_doubted_nodes_are_named_as_the_graph_names_them_and_saved_with_the_model(tmp_path):
    graph = flipped(0.4)
    graph = replace(graph, node_ids=np.array([f"n{number}" for number in range(graph.num_nodes)]))
    model = GDPNet.from_config(WARM, seed=0, device="cpu").fit(graph)
    assert model.doubted_
    names = list(graph.class_names)
    for one in model.doubted_:
        number = int(one.node.removeprefix("n"))
        assert one.label == names[graph.labels[number]]
        assert one.believed in names
        assert one.believed != one.label
    model.save(tmp_path / "model.safetensors")
    assert GDPNet.load(tmp_path / "model.safetensors").doubted_ == model.doubted_
    assert name_doubted(graph, make_scene(graph, WARM, 0, CPU), None) == ()


def test_train_writes_the_doubted_labels_and_says_so(tmp_path, capsys):
    folder = write_folder(tmp_path / "mine", flipped(0.4))
    out = tmp_path / "run"
    (tmp_path / "warm.toml").write_text(WARM.to_toml())
    assert main(["train", str(folder), "--out", str(out), "--config", str(tmp_path / "warm.toml")]) == 0
    said = capsys.readouterr().out
    lines = (out / "doubted.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "node,label,believed"
    assert f"note: {len(lines) - 1} training labels are doubted and were set aside after the warm-up" in said


def test_a_run_with_trusted_labels_has_no_such_file(tmp_path, capsys):
    folder, out = write_folder(tmp_path / "mine"), tmp_path / "run"
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    assert main(["train", str(folder), "--out", str(out), "--config", str(tmp_path / "fast.toml")]) == 0
    assert not (out / "doubted.csv").exists()
    assert "doubted" not in capsys.readouterr().out
