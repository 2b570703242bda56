"""Convolutions over the cleaned graph: numbers by hand and against another network, who hears whom, who votes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet import GDPNet
from gdpnet.benchmark.baselines.fitting import Settings, inputs_of, make_task
from gdpnet.benchmark.baselines.networks import gcn
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.inference.ensemble import represent
from gdpnet.inference.gcn_head import mixing_of, within_hearing
from gdpnet.inference.select import Selected, keep_all, select
from gdpnet.inference.threshold import Choice
from gdpnet.representation.gcn import Convolutions, Mixing
from gdpnet.representation.sparse import table_of
from gdpnet.training import finalise as concluding
from gdpnet.training import gcn_head as deep_reading
from gdpnet.training.data import make_scene
from gdpnet.training.gcn_head import DeepReading, fit_convolutions, is_worth_convolutions
from gdpnet.training.hopwise_head import Verdict, fit_reader
from helpers.small import FAST, fitted, noisy_graph, same_weights

CPU = torch.device("cpu")
READS = FAST.with_values({"reader": {"use": True, "steps": 20, "look_every": 10}})


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Fit for a moment, to few nodes, and clean with a threshold, so that decisions matter."""
    monkeypatch.setattr(deep_reading, "_EPOCHS", 8)
    monkeypatch.setattr(deep_reading, "LEAST_NODES", 5)
    monkeypatch.setattr(concluding, "choose_threshold", lambda *_, **__: Choice(0.5))


def always_welcome(monkeypatch, welcome: bool = True) -> list[DeepReading]:
    """Let convolutions vote, or not, whatever validation nodes say; return what was fitted, once it is."""
    every = []

    def fit(*arguments) -> DeepReading:
        every.append(fit_convolutions(*arguments))
        return replace(every[-1], gains=int(welcome), losses=int(not welcome), quality_before=-1.0)

    monkeypatch.setattr(concluding, "fit_convolutions", fit)
    return every


def path(nodes: int) -> Graph:
    """Return the path 0 - 1 - ... with a feature a node and two classes."""
    number = torch.arange(nodes)
    return Graph.build(torch.stack([number[:-1], number[1:]]), torch.eye(nodes), number % 2)


# --- the network ---


def test_nodes_hear_one_another_as_the_formula_says():
    row_ptr, neighbour = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])
    weight = torch.tensor([0.5, 0.5, 0.0, 0.0])
    adjacency = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scale = adjacency.sum(dim=1).rsqrt()
    expected = scale[:, None] * adjacency * scale
    found = Mixing.of(row_ptr, neighbour, weight)(torch.eye(3))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sparse", [True, False])
def test_with_everything_kept_it_is_the_gcn_of_the_baselines(sparse):
    graph = noisy_graph()
    if not sparse:
        rows = torch.from_numpy(graph.features.to_scipy().toarray())
        graph = replace(graph, features=rows)
    inputs = inputs_of(make_task(graph, 0), CPU)
    peer = gcn(inputs, Settings(width=7, layers=3)).eval()
    mine = Convolutions(inputs.num_features, 7, inputs.num_classes)
    with torch.no_grad():
        for number, layer in enumerate(peer.layers):
            mine.weights[number].copy_(layer.given)
            mine.biases[number].copy_(layer.bias.normal_())
        prepared = prepare(graph, READS, CPU)
        found = mine(table_of(prepared.features, CPU), mixing_of(keep_all(prepared), 0.0))
        torch.testing.assert_close(found, peer(inputs.whole))
        torch.testing.assert_close(
            mine.believe(table_of(prepared.features, CPU), mixing_of(keep_all(prepared), 0.0)).sum(dim=1),
            torch.ones(graph.num_nodes),
        )


def test_a_link_weighs_what_both_its_nodes_think_of_it_and_nothing_below_the_threshold():
    prepared = prepare(path(3), Config(), CPU)  # 0<-1, 1<-0, 1<-2, 2<-1
    chance = torch.tensor([0.9, 0.5, 0.3, 0.1])
    chosen = Selected(chance, chance > 0.5, chance > 0, prepared)
    half, everything, apart = mixing_of(chosen, 0.5), mixing_of(chosen, 0.0), mixing_of(chosen, 0.0, apart=0)
    torch.testing.assert_close(half.matrix.value, torch.tensor([0.7, 0.7]))
    assert half.matrix.rows.row_ptr.tolist() == [0, 1, 2, 2]
    assert everything.matrix.value.tolist() == [1.0] * 4
    assert apart.matrix.rows.column.tolist() == [2, 1]
    assert apart.matrix.rows.row_ptr.tolist() == [0, 0, 1, 2]


def test_a_link_weighs_its_share_of_what_it_weighed_and_nobody_is_heard_from_afar():
    graph = replace(path(3), edge_weight=torch.tensor([2.0, 2.0, 4.0, 4.0]))
    far = Config().with_values({"policy": {"hops": 2}})
    for config in (Config(), far):
        prepared = prepare(graph, config, CPU)
        chance = torch.full((prepared.neighbour.numel(),), 0.75)
        mix = mixing_of(Selected(chance, chance > 0.5, chance > 0, prepared), 0.5)
        assert mix.matrix.rows.column.tolist() == [1, 0, 2, 1]
        assert mix.matrix.value.tolist() == [1.5, 1.5, 3.0, 3.0]
    assert prepared.neighbour.numel() == 6


# --- who votes ---


def test_half_of_the_vote_is_theirs(monkeypatch):
    graph = noisy_graph()
    always_welcome(monkeypatch)
    model = fitted(graph, READS)
    both = model.predict_proba(graph)
    network, model.convolutions_ = model.convolutions_, None
    without = model.predict_proba(graph)
    prepared = prepare(graph, READS, CPU)
    chosen = model._select(graph, torch.arange(graph.num_nodes))
    mix = mixing_of(chosen, model.threshold_.threshold)
    with torch.no_grad():
        theirs = network.believe(table_of(prepared.features, CPU), mix).numpy()
    assert np.abs(without - theirs).max() > 0.01
    np.testing.assert_allclose(both, (without + theirs) / 2, atol=1e-6)


def test_they_vote_where_that_is_no_worse_and_the_model_says_how_it_does_with_them(monkeypatch):
    graph = noisy_graph()
    always_welcome(monkeypatch, welcome=False)
    assert fitted(graph, READS).convolutions_ is None
    every = always_welcome(monkeypatch)
    model = fitted(graph, READS)
    assert model.convolutions_ is every[0].network
    assert model.validation_f1_ == every[0].validation_f1
    network = model.convolutions_
    settled = [DeepReading(network, *pair, 0.5, 0.5).is_welcome for pair in ((2, 2), (3, 2), (2, 3))]
    assert settled == [True, True, False]
    assert not DeepReading(network, 3, 2, quality_before=0.6, validation_f1=0.5).is_welcome


def fit_all(scene, said: torch.Tensor, config: Config = READS, threshold: float = 0.0) -> DeepReading:
    """Fit convolutions to everything there is."""
    chosen = [keep_all(one) for one in (scene.train, scene.whole)]
    return fit_convolutions(scene, *chosen, threshold, said, config, 0)


def test_gains_are_where_the_vote_is_right_and_losses_where_those_before_it_were(monkeypatch):
    scene = make_scene(noisy_graph(), READS, 0, CPU)
    truth = torch.nn.functional.one_hot(scene.validation_labels, 3).float()
    monkeypatch.setattr(deep_reading, "SHARE", 1.0)
    right, wrong = fit_all(scene, truth), fit_all(scene, truth.roll(1, dims=1))
    assert (right.gains, right.quality_before) == (0, 1.0)
    assert (wrong.losses, wrong.quality_before) == (0, 0.0)
    assert right.losses > 0
    assert wrong.gains > 0
    assert right.validation_f1 == 1.0 - right.losses / scene.validation.numel()


def test_they_learn_what_is_three_hops_away(monkeypatch):
    # chains of four nodes: the class of the first shows in the features of the last alone
    number = torch.arange(400)
    label, place = (number // 4) % 2, number % 4
    features = torch.nn.functional.one_hot(label, 2).float() * (place == 3)[:, None]
    features = torch.cat([features, torch.nn.functional.one_hot(place, 4).float()], dim=1)
    inner = number[place < 3]
    split = torch.where(place > 0, 0, torch.where(number < 280, 1, 2))
    graph = Graph.build(
        torch.stack([inner, inner + 1]),
        features,
        torch.where(place == 0, label, -1),
        split=split,
        class_names=("a", "b"),
    )
    config = Config().with_values({"representation": {"width": 32}, "reader": {"dropout": 0.0}})
    monkeypatch.setattr(deep_reading, "_EPOCHS", 200)
    scene = make_scene(graph, config, 0, CPU)
    found = fit_all(scene, torch.full((scene.validation.numel(), 2), 0.5), config)
    assert found.validation_f1 == 1.0


def test_dropout_and_the_penalty_have_a_part_in_the_fit(monkeypatch):
    scene = make_scene(noisy_graph(), READS, 0, CPU)
    said = torch.full((scene.validation.numel(), 3), 1 / 3)
    base = fit_all(scene, said).network.weights[0]
    without = fit_all(scene, said, READS.with_values({"reader": {"dropout": 0.0}})).network.weights[0]
    monkeypatch.setattr(deep_reading, "_PENALTY", 0.0)
    unbound = fit_all(scene, said).network.weights[0]
    assert not torch.allclose(base, without)
    assert not torch.allclose(base, unbound)


def test_what_is_cut_away_is_not_heard_while_they_are_fitted_or_judged():
    scene = make_scene(noisy_graph(), READS, 0, CPU)
    said = torch.full((scene.validation.numel(), 3), 1 / 3)

    def fit(low: tuple[float, float]) -> DeepReading:
        chosen = []
        for one, chance in zip((scene.train, scene.whole), low, strict=True):
            all_of_it = torch.full((one.neighbour.numel(),), chance)
            chosen.append(Selected(all_of_it, all_of_it > 0.5, all_of_it > 0, one))
        return fit_convolutions(scene, *chosen, 0.5, said, READS, 0)

    heard, unheard, unheard_then = fit((1.0, 1.0)), fit((0.1, 1.0)), fit((1.0, 0.1))
    assert not torch.equal(heard.network.weights[0], unheard.network.weights[0])
    assert heard.validation_f1 != unheard_then.validation_f1


def test_the_vote_is_judged_against_all_who_had_the_say(monkeypatch):
    def surely(*arguments):
        return replace(fit_reader(*arguments), verdicts=(Verdict(1.0, 9, 0, 0.5),))

    asked = []

    def counted(*arguments):
        asked.append(arguments[-1])
        return represent(*arguments)

    monkeypatch.setattr(concluding, "fit_reader", surely)
    monkeypatch.setattr(concluding, "represent", counted)
    model = fitted(noisy_graph(), READS)
    assert model.reader_ is not None
    assert asked == [model.reader_]


@pytest.mark.parametrize(
    "changes", [{"reader": {"deep": False}}, {"reader": {"use": False}}], ids=["not deep", "no reader"]
)
def test_who_does_not_want_them_has_none(changes):
    config = READS.with_values(changes)
    assert not is_worth_convolutions(make_scene(noisy_graph(), config, 0, CPU), config)


def test_they_are_not_fitted_without_validation_nodes_or_to_a_graph_of_too_many_edges(monkeypatch):
    graph = noisy_graph()
    scene = make_scene(graph, READS, 0, CPU)
    assert is_worth_convolutions(scene, READS)
    assert not is_worth_convolutions(replace(scene, validation=scene.validation[:0]), READS)
    far = READS.with_values({"policy": {"hops": 2}})
    monkeypatch.setattr(deep_reading, "MOST_EDGES", graph.num_edges)
    assert is_worth_convolutions(make_scene(graph, far, 0, CPU), far)  # candidates from afar are no edges
    monkeypatch.setattr(deep_reading, "MOST_EDGES", graph.num_edges - 1)
    assert not is_worth_convolutions(scene, READS)
    monkeypatch.setattr(deep_reading, "MOST_EDGES", graph.num_edges)
    monkeypatch.setattr(deep_reading, "MOST_WEIGHTS", graph.num_features * 8 - 1)
    assert not is_worth_convolutions(scene, READS)
    monkeypatch.setattr(deep_reading, "MOST_WEIGHTS", graph.num_features * 8)
    monkeypatch.setattr(deep_reading, "LEAST_NODES", scene.validation.numel() + 1)
    assert not is_worth_convolutions(scene, READS)


def test_the_best_epoch_on_validation_nodes_counts_and_patience_ends_the_fit(monkeypatch):
    monkeypatch.setattr(deep_reading, "_EPOCHS", 200)
    monkeypatch.setattr(deep_reading, "_PATIENCE", 20)
    graph, seen = noisy_graph(), []
    scene = make_scene(graph, READS, 0, CPU)

    class Fading(type(scene.task)):
        def quality(self, beliefs, truth):
            seen.append(len(seen))
            return -abs(len(seen) - 7.0)

    said = torch.full((scene.validation.numel(), 3), 1 / 3)
    found = fit_all(replace(scene, task=Fading()), said)
    assert len(seen) == 32  # epochs up to 30, the first look at patience after the seventh, and both votes
    monkeypatch.setattr(deep_reading, "_EPOCHS", 7)
    seen.clear()
    again = fit_all(replace(scene, task=Fading()), said)
    for mine, other in zip(found.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(mine, other)


# --- who is heard ---


def test_they_hear_a_hop_a_layer_and_one_more():
    prepared = prepare(path(12), Config(), CPU)
    assert within_hearing(prepared, torch.tensor([5])).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert within_hearing(prepared, torch.arange(12)).tolist() == list(range(12))


def test_a_node_asked_about_alone_gets_what_it_gets_among_all(monkeypatch):
    graph = noisy_graph(nodes=150, links_per_node=1.2)
    always_welcome(monkeypatch)
    model = fitted(graph, READS)
    everyone = model.predict_proba(graph)
    for node in (3, 77, 149):
        around = within_hearing(prepare(graph, READS, CPU), torch.tensor([node]))
        alone = model.predict_proba(graph, torch.tensor([node]))[0]
        np.testing.assert_allclose(alone, everyone[node], atol=1e-6)
        assert around.numel() < graph.num_nodes


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_decisions_farther_away_are_made_only_where_they_are_read(monkeypatch, threshold):
    graph = noisy_graph(nodes=150, links_per_node=1.2)
    always_welcome(monkeypatch)
    model = fitted(graph, READS)
    model.threshold_ = Choice(threshold)
    asked = []
    plain = select

    def counted(policy, aggregators, prepared, targets, *rest):
        asked.append(targets.numel())
        return plain(policy, aggregators, prepared, targets, *rest)

    monkeypatch.setattr("gdpnet.estimator.select", counted)
    model.predict_proba(graph, torch.tensor([3]))
    assert (asked[0] == 1) == (threshold == 0.0)


def test_an_explanation_counts_their_vote_with_links_and_without(monkeypatch):
    graph = noisy_graph()
    always_welcome(monkeypatch)
    model = fitted(graph, READS)
    story = model.explain(graph, "007")
    alone, final = model._read_deeply(graph, 7)
    cut = graph.keep_edges((graph.target != 7) & (graph.neighbour != 7))
    threshold, model.threshold_ = model.threshold_, replace(model.threshold_, threshold=0.0)
    theirs = model._read_deeply(cut, 7)[1]
    assert torch.allclose(model._read_deeply(graph, 7)[0], theirs, atol=1e-6)
    model.threshold_, model.convolutions_ = threshold, None
    before = model.explain(graph, "007")
    number = model.classes_.tolist().index(story.predicted)
    assert story.predicted == before.predicted
    assert story.probability == pytest.approx((before.probability + float(final[number])) / 2, abs=1e-6)
    assert story.probability_alone == pytest.approx(
        (before.probability_alone + float(alone[number])) / 2, abs=1e-6
    )


# --- files ---


def test_they_are_saved_and_loaded_with_the_model(monkeypatch, tmp_path):
    graph = noisy_graph()
    always_welcome(monkeypatch)
    model = fitted(graph, READS)
    model.save(tmp_path / "model")
    loaded = GDPNet.load(tmp_path / "model", device="cpu")
    assert same_weights(model, loaded)
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))


def test_several_labels_a_node_are_voted_on_label_by_label(monkeypatch, tmp_path):
    graph = noisy_graph()
    graph = replace(graph, class_names=("red", "red|round", "round"))
    always_welcome(monkeypatch)
    model = fitted(graph, READS.with_values({"task": {"kind": "multi-label"}}))
    assert model.convolutions_ is not None
    chances = model.predict_proba(graph)
    assert chances.shape == (graph.num_nodes, 2)
    assert 0.0 <= chances.min() <= chances.max() <= 1.0
    assert np.abs(chances.sum(axis=1) - 1.0).max() > 0.01
    model.save(tmp_path / "model")
    assert np.array_equal(GDPNet.load(tmp_path / "model", device="cpu").predict_proba(graph), chances)
