"""Pseudo-labels: which nodes get one, what is never read, and that they help where labels are few."""

from dataclasses import replace

import pytest
import torch

from gdpnet import GDPNet
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.validation import UNKNOWN
from gdpnet.training import teacher
from gdpnet.training.callbacks import Steps
from gdpnet.training.checkpoint import Checkpoint
from gdpnet.training.data import TrainingData, make_training_data
from gdpnet.training.held_out import HeldOutNodes
from gdpnet.training.pseudo_labels import (
    confident_labels,
    is_worth_self_training,
    share_of_nodes,
    temperature_of,
    unlabelled_nodes,
    with_context_folds,
    with_pseudo_labels,
)
from gdpnet.training.run_folder import create_run
from gdpnet.training.self_training import SelfTraining
from gdpnet.training.teacher import Taught, fit_teacher, good_ones, rank_edges
from helpers.small import same_weights

pytestmark = pytest.mark.slow  # nearly every test trains a model

CPU = torch.device("cpu")
QUICK = Config().with_values(
    {
        "training": {"warmup": 4, "epochs": 7},
        "representation": {"width": 16, "learning_rate": 0.02, "batch_size": 64},
        "policy": {"hidden": [8, 6]},
        "inference": {"episodes": 2},
        "hopwise": {"use": False},
        "gcn": {"use": False},
        "all_edges": {"use": False},
        "trees": {"use": False},
        "linear": {"use": False},
        "task": {"refresh": 3},
    }
)
SETTINGS = QUICK.self_training


def few_labels(labelled: int = 5, noise: float = 0.5, nodes: int = 450) -> Graph:
    """Return a graph of three classes with few training labels, as many context nodes, and spurious links."""
    draws = torch.Generator().manual_seed(0)
    label = torch.arange(nodes) % 3
    source = torch.arange(3 * nodes) % nodes
    partner = 3 * torch.randint(nodes // 3, (3 * nodes,), generator=draws) + source % 3
    words = torch.nn.functional.one_hot(label, 3).repeat(1, 6) + 0.9 * torch.randn(nodes, 18, generator=draws)
    split = torch.zeros(nodes, dtype=torch.long)
    split[: 3 * labelled], split[-120:-60], split[-60:] = 1, 2, 3
    graph = Graph.build(torch.stack([source, partner]), words.clamp(min=0.0), label, split=split)
    return corrupt(graph, "random-links", noise, 0).graph if noise else graph


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return make_training_data(few_labels(), QUICK, 0, CPU)


def sure_of(data: TrainingData) -> torch.Tensor:
    """Return class probabilities that are mostly right, the surer the higher a node's number."""
    nodes = data.train.num_nodes
    confidence = torch.linspace(0.4, 0.95, nodes)[:, None]
    right = torch.nn.functional.one_hot(data.labels, 3)
    return right * confidence + (1 - right) * (1 - confidence) / 2


def test_worth_it_only_where_labels_are_few_and_validation_nodes_calibrate(data: TrainingData) -> None:
    assert is_worth_self_training(data, QUICK)
    every = make_training_data(few_labels(labelled=100), QUICK, 0, CPU)
    assert every.targets.numel() > 0.5 * every.train.num_nodes
    assert not is_worth_self_training(every, QUICK)
    fewer = replace(data, validation=data.validation[:5], validation_labels=data.validation_labels[:5])
    assert not is_worth_self_training(fewer, QUICK)
    for values in ({"self_training": {"use": False}}, {"training": {"selection": False}}):
        assert not is_worth_self_training(data, QUICK.with_values(values))


def test_confident_nodes_are_chosen_class_by_class(data: TrainingData) -> None:
    probabilities, validation = sure_of(data), torch.eye(3)[data.validation_labels] * 0.97 + 0.01
    found = confident_labels(data, probabilities, validation, 0.5, replace(SETTINGS, min_confidence=0.0))
    nodes = unlabelled_nodes(data)
    chosen = (found != UNKNOWN).nonzero().flatten()
    assert set(chosen.tolist()) <= set(nodes.tolist())
    predicted = probabilities[nodes].argmax(dim=1)
    for label in range(3):
        of_class = nodes[predicted == label]
        got = chosen[found[chosen] == label]
        assert got.numel() == -(-of_class.numel() // 2)
        rest = of_class[~torch.isin(of_class, got)]
        assert probabilities[got, label].min() >= probabilities[rest, label].max()


def test_without_features_more_nodes_get_a_label(data: TrainingData) -> None:
    bare = make_training_data(links_between_two_classes(), QUICK, 0, CPU)
    assert share_of_nodes(data, SETTINGS) == 0.8
    assert share_of_nodes(bare, SETTINGS) == 1.0
    found = SelfTraining(bare, QUICK, 0).begin(2, Key.of(0), Steps([]))
    assert found is not None
    assert (found != UNKNOWN).sum() > 0.8 * unlabelled_nodes(bare).numel()


def test_no_label_below_the_least_confidence(data: TrainingData) -> None:
    probabilities = sure_of(data)
    right = torch.eye(3)[data.validation_labels] * 0.7 + 0.1
    right[:12] = right[:12].roll(1, dims=1)
    temperature = temperature_of(right, data.validation_labels)
    least = replace(SETTINGS, min_confidence=0.9)
    found = confident_labels(data, probabilities, right, 1.0, least)
    calibrated = torch.softmax(probabilities.log() / temperature, dim=1).max(dim=1).values
    chosen = found != UNKNOWN
    assert 0 < int(chosen.sum()) < unlabelled_nodes(data).numel()
    assert calibrated[chosen].min() >= 0.9


def test_temperature_is_above_one_for_predictions_that_are_too_sure() -> None:
    labels = torch.arange(90) % 3
    wrong = torch.where(torch.arange(90) < 45, labels, (labels + 1) % 3)
    assert temperature_of(torch.eye(3)[wrong] * 0.98 + 0.0066, labels) > 1.5


def test_pseudo_labelled_nodes_become_targets_but_decide_nothing(data: TrainingData) -> None:
    data = with_context_folds(data, Key.of(0))
    assert int(data.fold.min()) >= 0
    pseudo = torch.full((data.train.num_nodes,), UNKNOWN)
    nodes = unlabelled_nodes(data)[:40]
    pseudo[nodes] = (data.labels[nodes] + 1) % 3
    pseudo[data.targets[0]] = (data.labels[data.targets[0]] + 1) % 3  # a given label stays
    found = with_pseudo_labels(data, pseudo)
    assert set(found.targets.tolist()) == {*data.targets.tolist(), *nodes.tolist()}
    assert found.labels[data.targets].equal(data.labels[data.targets])
    assert found.labels[nodes].equal(pseudo[nodes])
    assert HeldOutNodes.of(found).nodes.equal(HeldOutNodes.of(data).nodes)


def test_edges_are_ranked_without_labels(data: TrainingData) -> None:
    scores = rank_edges(data, 0)
    assert scores is not None
    assert scores[0].shape == data.train.neighbour.shape
    assert scores[1].shape == data.whole.neighbour.shape
    other = rank_edges(replace(data, labels=data.labels.flip(0)), 0)
    assert other is not None
    assert scores[1].equal(other[1])


def test_teacher_is_right_about_unlabelled_nodes_more_often_than_chance(data: TrainingData) -> None:
    taught = fit_teacher(data, 3, QUICK, Key.of(0))
    nodes = unlabelled_nodes(data)
    right = taught.nodes[nodes].argmax(dim=1) == data.labels[nodes]
    assert right.float().mean() > 0.6
    assert {one.share for one in taught.kept} <= set(QUICK.self_training.shares)


def test_teacher_is_the_mean_of_several_networks(data: TrainingData) -> None:
    alone = QUICK.with_values({"self_training": {"teachers": 1, "shares": (0.8,), "teacher_rounds": 0}})
    both = alone.with_values({"self_training": {"teachers": 2}})
    one, mean = (fit_teacher(data, 3, config, Key.of(0)).nodes for config in (alone, both))
    second = 2.0 * mean - one
    assert not torch.allclose(second, one, atol=1e-3)
    assert bool((second >= -1e-5).all())
    assert torch.allclose(second.sum(dim=1), torch.ones(len(second)), atol=1e-4)


def test_teacher_of_misleading_links_reads_features_alone() -> None:
    graph = few_labels(noise=0.0)
    rng = torch.Generator().manual_seed(3)
    ends = torch.randint(graph.num_nodes, (2, 20 * graph.num_nodes), generator=rng)
    graph = Graph.build(ends, graph.features, graph.labels, split=graph.split)
    taught = fit_teacher(make_training_data(graph, QUICK, 0, CPU), 3, QUICK, Key.of(0))
    assert {one.share for one in taught.kept} == {0.0}
    assert not any(bool(one.train.any()) or bool(one.whole.any()) for one in taught.kept)


def links_between_two_classes(nodes: int = 300) -> Graph:
    """Return a graph without features whose links join nodes of different classes, but for one in five."""
    draws = torch.Generator().manual_seed(2)
    label = torch.arange(nodes) % 2
    source = torch.arange(4 * nodes) % nodes
    other = (torch.rand(4 * nodes, generator=draws) > 0.2).long()
    partner = 2 * torch.randint(nodes // 2, (4 * nodes,), generator=draws) + (source + other) % 2
    split = torch.full((nodes,), 3)
    split[:30], split[30:80] = 1, 2
    ends = torch.stack([source, partner])[:, source != partner]
    return Graph.build(ends, SparseRows.identity(nodes), label, split=split, transductive=True)


def test_teacher_reads_spectral_columns_where_links_join_different_classes() -> None:
    graph = links_between_two_classes()
    data, asked = make_training_data(graph, QUICK, 0, CPU), graph.nodes_in("test")

    def fitted(**settings: object) -> tuple[Taught, float]:
        taught = fit_teacher(data, 2, QUICK.with_values({"self_training": settings}), Key.of(0))
        return taught, float((taught.nodes.argmax(dim=1) == graph.labels)[asked].float().mean())

    (taught, accuracy), (without, before) = fitted(), fitted(spectral=())
    assert any(one.spectral is not None for one in taught.kept)
    assert "spectral columns of" in taught.about
    assert "spectral columns" not in without.about
    assert accuracy > before + 0.05
    bounded = fitted(max_spectral_edges=graph.num_edges - 1)[0]
    assert bounded.nodes.equal(without.nodes)


def test_pseudo_labels_that_do_harm_on_validation_nodes_are_not_used(data: TrainingData, monkeypatch) -> None:
    usual = teacher.confident_labels

    def wrong(*given) -> torch.Tensor:
        found = usual(*given)
        return torch.where(found == UNKNOWN, found, (found + 1) % 3)

    assert fit_teacher(data, 3, QUICK, Key.of(0)).helps
    monkeypatch.setattr(teacher, "confident_labels", wrong)
    assert not fit_teacher(data, 3, QUICK, Key.of(0)).helps
    assert SelfTraining(data, QUICK, 0).begin(3, Key.of(0), Steps([])) is None


def test_teachers_clearly_behind_the_best_are_left_out() -> None:
    def taught(score: float) -> Taught:
        nothing = torch.zeros(1, 2)
        return Taught(nothing, nothing, (), (score, 0.0))

    # with 100 validation nodes half a standard deviation of 0.8 is 0.02
    kept = good_ones([taught(0.77), taught(0.8), taught(0.785)], 100)
    assert [one.score[0] for one in kept] == [0.8, 0.785]


def test_labels_of_context_and_test_nodes_are_never_read() -> None:
    graph = few_labels()
    hidden = graph.labels.clone()
    unseen = (graph.split == 0) | (graph.split == 3)
    hidden[unseen] = (hidden[unseen] + 1) % 3
    one, other = (
        GDPNet.from_config(QUICK, device="cpu").fit(some) for some in (graph, replace(graph, labels=hidden))
    )
    assert one.trained_.config.training.settle == QUICK.self_training.settle  # pseudo-labels were used
    assert same_weights(one, other)


def test_pseudo_labels_help_where_labels_are_few() -> None:
    graph = few_labels(labelled=4, noise=1.0)
    asked = (graph.split != 1) & (graph.split != 2)

    def accuracy(use: bool) -> float:
        config = QUICK.with_values({"self_training": {"use": use}})
        found = [
            torch.from_numpy(
                GDPNet.from_config(config, seed=seed, device="cpu").fit(graph).predict_proba(graph)
            )
            for seed in range(3)
        ]
        return sum(float((one.argmax(1) == graph.labels)[asked].float().mean()) for one in found) / 3

    assert accuracy(use=True) > accuracy(use=False)


def test_resumed_run_ends_like_an_uninterrupted_one(tmp_path) -> None:
    graph = few_labels()
    whole = GDPNet.from_config(QUICK, device="cpu").fit(graph)
    run = create_run(tmp_path / "run", QUICK, "mine", graph, seed=0)

    def stop(epoch) -> None:
        if epoch.epoch == 8:  # after the first pseudo-labels of its own
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GDPNet.from_config(QUICK, device="cpu").fit(graph, callbacks=[Checkpoint(run), stop])
    resumed = GDPNet.from_config(QUICK, device="cpu").fit(graph, callbacks=[Checkpoint(run)])
    assert same_weights(whole, resumed)


def test_useless_features_and_links_give_no_pseudo_labels() -> None:
    graph = few_labels(labelled=4, noise=0.0)
    draws = torch.Generator().manual_seed(1)
    order = torch.randperm(graph.num_nodes, generator=draws)
    graph = replace(
        graph, features=torch.rand(graph.num_nodes, 18, generator=draws), labels=graph.labels[order]
    )
    model = GDPNet.from_config(QUICK, device="cpu").fit(graph)
    assert model.trained_.config.training.settle == 0  # training went on without them
