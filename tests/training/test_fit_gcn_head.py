"""The GCN head: numbers by hand and against another network, its receptive field, and when it joins the ensemble."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet import GDPNet
from gdpnet._core.random import Key
from gdpnet.benchmark.baselines.fitting import Settings, inputs_of, make_task
from gdpnet.benchmark.baselines.networks import gcn
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.inference.ensemble import Ensemble, HeadWeights, cleaned_adjacency, receptive_field
from gdpnet.inference.select import Selected, keep_all, select
from gdpnet.inference.threshold import Choice
from gdpnet.representation.gcn import GCN, NormalisedAdjacency
from gdpnet.representation.sparse import table_of
from gdpnet.training import heads
from gdpnet.training.data import make_training_data
from gdpnet.training.fit_gcn_head import FittedGCN, fit_convolutions, is_worth_gcn, weigh_gcn
from gdpnet.training.fit_hopwise_head import HeadScore, fit_hopwise
from helpers.small import FAST, fitted, noisy_graph, same_weights

pytestmark = pytest.mark.slow  # nearly every test trains a model

CPU = torch.device("cpu")
HEADS = FAST.with_values(
    {
        "hopwise": {"use": True, "steps": 20, "evaluate_every": 10},
        "gcn": {"use": True, "epochs": 8, "min_validation": 5},
    }
)
KEY = Key.of(0)


@pytest.fixture(autouse=True)
def cleans(monkeypatch):
    """Clean with a threshold, so that decisions matter."""
    monkeypatch.setattr(heads, "choose_threshold", lambda *_, **__: Choice(0.5))


def always_accepted(monkeypatch, accepted: bool = True) -> list[FittedGCN]:
    """Accept the head, or not, whatever its validation score; return the list that fitted heads are added to."""
    every = []

    def weigh(*arguments) -> FittedGCN:
        every.append(weigh_gcn(*arguments))
        return replace(every[-1], gains=int(accepted), losses=int(not accepted), quality_before=-1.0)

    monkeypatch.setattr(heads, "weigh_gcn", weigh)
    return every


def without_gcn(model: GDPNet) -> GDPNet:
    """Return a model whose other heads predict without the GCN head."""
    left = model.trained_.weights
    rest = left.aggregator + left.hopwise
    found = GDPNet.from_config(model.config_, device="cpu")
    weights = HeadWeights(left.aggregator / rest, left.hopwise / rest)
    found._set_trained(replace(model.trained_, weights=weights))
    return found


def with_threshold(model: GDPNet, threshold: float) -> GDPNet:
    """Return the model with another threshold of the cleaned graph."""
    found = GDPNet.from_config(model.config_, device="cpu")
    found._set_trained(replace(model.trained_, threshold=Choice(threshold)))
    return found


@torch.no_grad()
def gcn_probabilities(network: GCN, chosen: Selected, threshold: float, nodes: torch.Tensor) -> torch.Tensor:
    """Return the class probabilities of some nodes by the GCN alone."""
    adjacency = cleaned_adjacency(chosen, threshold)
    return network.to_probabilities(chosen.prepared.features, adjacency)[nodes]


def path(nodes: int) -> Graph:
    """Return the path 0 - 1 - ... with a feature a node and two classes."""
    number = torch.arange(nodes)
    return Graph.build(torch.stack([number[:-1], number[1:]]), torch.eye(nodes), number % 2)


# --- the network ---


def test_the_adjacency_is_normalised_symmetrically_with_self_loops():
    row_ptr, neighbour = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])
    weight = torch.tensor([0.5, 0.5, 0.0, 0.0])
    adjacency = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scale = adjacency.sum(dim=1).rsqrt()
    expected = scale[:, None] * adjacency * scale
    found = NormalisedAdjacency.of(row_ptr, neighbour, weight)(torch.eye(3))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sparse", [True, False])
def test_with_all_edges_kept_the_head_equals_the_gcn_of_the_baselines(sparse):
    graph = noisy_graph()
    if not sparse:
        rows = torch.from_numpy(graph.features.to_scipy().toarray())
        graph = replace(graph, features=rows)
    inputs = inputs_of(make_task(graph, 0), CPU)
    peer = gcn(inputs, Settings(width=7, layers=3)).eval()
    mine = GCN(inputs.num_features, 7, inputs.num_classes)
    with torch.no_grad():
        for number, layer in enumerate(peer.layers):
            mine.weights[number].copy_(layer.message)
            mine.biases[number].copy_(layer.bias.normal_())
        prepared = prepare(graph, HEADS, CPU)
        found = mine(table_of(prepared.features, CPU), cleaned_adjacency(keep_all(prepared), 0.0))
        torch.testing.assert_close(found, peer(inputs.whole))
        torch.testing.assert_close(
            mine.to_probabilities(
                table_of(prepared.features, CPU), cleaned_adjacency(keep_all(prepared), 0.0)
            ).sum(dim=1),
            torch.ones(graph.num_nodes),
        )


def weights_before_scaling(adjacency: NormalisedAdjacency) -> torch.Tensor:
    """Return the weights of the edges, without the normalisation by degree."""
    rows, scale = adjacency.matrix.rows, adjacency.diagonal[:, 0].sqrt()
    return rows.value / (scale[rows.row] * scale[rows.column])


def test_an_edge_is_weighted_by_its_symmetrised_probability_and_dropped_below_the_threshold():
    prepared = prepare(path(3), Config(), CPU)  # 0<-1, 1<-0, 1<-2, 2<-1
    chance = torch.tensor([0.9, 0.5, 0.3, 0.1])
    chosen = Selected(chance, chance > 0.5, chance > 0, prepared)
    half, everything = cleaned_adjacency(chosen, 0.5), cleaned_adjacency(chosen, 0.0)
    torch.testing.assert_close(weights_before_scaling(half), torch.tensor([0.7, 0.7]))
    assert half.matrix.rows.row_ptr.tolist() == [0, 1, 2, 2]
    torch.testing.assert_close(weights_before_scaling(everything), torch.ones(4))


def test_edge_weights_of_the_graph_are_multiplied_and_candidates_beyond_neighbours_left_out():
    graph = replace(path(3), edge_weight=torch.tensor([2.0, 2.0, 4.0, 4.0]))
    far = Config().with_values({"policy": {"hops": 2}})
    for config in (Config(), far):
        prepared = prepare(graph, config, CPU)
        chance = torch.full((prepared.neighbour.numel(),), 0.75)
        mix = cleaned_adjacency(Selected(chance, chance > 0.5, chance > 0, prepared), 0.5)
        assert mix.matrix.rows.column.tolist() == [1, 0, 2, 1]
        torch.testing.assert_close(weights_before_scaling(mix), torch.tensor([1.5, 1.5, 3.0, 3.0]))
    assert prepared.neighbour.numel() == 6


# --- its part in the ensemble ---


def test_the_head_has_half_of_the_ensemble_weight(monkeypatch):
    graph = noisy_graph()
    always_accepted(monkeypatch)
    model = fitted(graph, HEADS)
    both, without = model.predict_proba(graph), without_gcn(model).predict_proba(graph)
    prepared = prepare(graph, HEADS, CPU)
    adjacency = cleaned_adjacency(model.predictor(graph).select(), model.threshold_.threshold)
    with torch.no_grad():
        alone = model.networks_.gcn.to_probabilities(table_of(prepared.features, CPU), adjacency).numpy()
    assert np.abs(without - alone).max() > 0.01
    np.testing.assert_allclose(both, (without + alone) / 2, atol=1e-6)


def test_the_head_joins_the_ensemble_if_it_does_not_get_worse_and_the_new_score_is_reported(monkeypatch):
    graph = noisy_graph()
    always_accepted(monkeypatch, accepted=False)
    assert fitted(graph, HEADS).networks_.gcn is None
    every = always_accepted(monkeypatch)
    model = fitted(graph, HEADS)
    assert model.networks_.gcn is every[0].network
    assert model.validation_f1_ == every[0].validation_f1
    network = model.networks_.gcn
    settled = [FittedGCN(network, *pair, 0.5, 0.5).is_accepted for pair in ((2, 2), (3, 2), (2, 3))]
    assert settled == [True, True, False]
    assert not FittedGCN(network, 3, 2, quality_before=0.6, validation_f1=0.5).is_accepted


def fit_all(data, before: torch.Tensor, config: Config = HEADS) -> FittedGCN:
    """Fit the head to all edges."""
    chosen = [keep_all(one) for one in (data.train, data.whole)]
    return weigh_gcn(fit_convolutions(data, *chosen, 0.0, before.shape[1], config, KEY), before, data, config)


def test_gains_and_losses_count_nodes_that_only_one_ensemble_predicts_right():
    data = make_training_data(noisy_graph(), HEADS, 0, CPU)
    truth = torch.nn.functional.one_hot(data.validation_labels, 3).float()
    alone = HEADS.with_values({"gcn": {"weight": 1.0}})
    right, wrong = fit_all(data, truth, alone), fit_all(data, truth.roll(1, dims=1), alone)
    assert (right.gains, right.quality_before) == (0, 1.0)
    assert (wrong.losses, wrong.quality_before) == (0, 0.0)
    assert right.losses > 0
    assert wrong.gains > 0
    assert right.validation_f1 == 1.0 - right.losses / data.validation.numel()


def test_the_head_learns_from_features_three_hops_away():
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
    config = Config().with_values({"representation": {"width": 32}, "gcn": {"dropout": 0.0, "epochs": 200}})
    data = make_training_data(graph, config, 0, CPU)
    found = fit_all(data, torch.full((data.validation.numel(), 2), 0.5), config)
    assert found.validation_f1 == 1.0


def test_dropout_and_weight_decay_change_the_fit():
    data = make_training_data(noisy_graph(), HEADS, 0, CPU)
    before = torch.full((data.validation.numel(), 3), 1 / 3)
    base = fit_all(data, before).network.weights[0]
    without = fit_all(data, before, HEADS.with_values({"gcn": {"dropout": 0.0}})).network.weights[0]
    unbound = fit_all(data, before, HEADS.with_values({"gcn": {"weight_decay": 0.0}})).network.weights[0]
    assert not torch.allclose(base, without)
    assert not torch.allclose(base, unbound)


def test_edges_below_the_threshold_are_used_neither_in_training_nor_in_evaluation():
    data = make_training_data(noisy_graph(), HEADS, 0, CPU)
    before = torch.full((data.validation.numel(), 3), 1 / 3)
    longer = HEADS.with_values({"gcn": {"epochs": 60}})

    def fit(low: tuple[float, float]) -> FittedGCN:
        chosen = []
        for one, chance in zip((data.train, data.whole), low, strict=True):
            all_of_it = torch.full((one.neighbour.numel(),), chance)
            chosen.append(Selected(all_of_it, all_of_it > 0.5, all_of_it > 0, one))
        return weigh_gcn(fit_convolutions(data, *chosen, 0.5, 3, longer, KEY), before, data, longer)

    kept, cut_in_training, cut_in_evaluation = fit((1.0, 1.0)), fit((0.1, 1.0)), fit((1.0, 0.1))
    assert not torch.equal(kept.network.weights[0], cut_in_training.network.weights[0])
    assert kept.gains != cut_in_evaluation.gains


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_head_is_compared_with_the_ensemble_of_the_other_heads(monkeypatch, share):
    def accepted(*arguments):
        return replace(fit_hopwise(*arguments), scores=(HeadScore(share, 9, 0, 0.5, margin=0.0),))

    seen, asked = [], []

    def recorded(data, train, whole, *others):
        seen.append(whole)
        return fit_convolutions(data, train, whole, *others)

    def compared(fitted, before, data, config, weigh):
        asked.append((data, before))
        assert not weigh  # there is no other head
        return weigh_gcn(fitted, before, data, config, weigh)

    monkeypatch.setattr(heads, "fit_hopwise", accepted)
    monkeypatch.setattr(heads, "fit_convolutions", recorded)
    monkeypatch.setattr(heads, "weigh_gcn", compared)
    model = fitted(noisy_graph(), HEADS)
    assert model.networks_.hopwise is not None
    ((data, before),), (whole,) = asked, seen
    both = Ensemble(model.networks_, HeadWeights(1.0 - share, share), 0.5)
    expected = both.local(whole.prepared, data.validation, whole.weight("sampled"))[1]
    torch.testing.assert_close(before, expected)
    alone = Ensemble(model.networks_, HeadWeights(), 0.5)
    other = alone.local(whole.prepared, data.validation, whole.weight("sampled"))[1]
    assert not torch.allclose(before, other, atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [{"gcn": {"use": False}}, {"hopwise": {"use": False}, "gcn": {"use": False}}],
    ids=["no GCN", "no head"],
)
def test_the_head_is_not_fitted_if_switched_off(changes):
    config = HEADS.with_values(changes)
    data = make_training_data(noisy_graph(), config, 0, CPU)
    assert not is_worth_gcn(data, config)
    assert is_worth_gcn(data, config.with_values({"gcn": {"use": True}}))


def test_the_head_is_not_fitted_without_validation_nodes_or_if_it_is_too_costly():
    graph = noisy_graph()
    data = make_training_data(graph, HEADS, 0, CPU)
    assert is_worth_gcn(data, HEADS)
    nobody = replace(data, validation=data.validation[:0], validation_labels=data.validation_labels[:0])
    assert not is_worth_gcn(nobody, HEADS)
    exact = HEADS.with_values(
        {
            "gcn": {
                "max_edges": graph.num_edges,
                "max_weights": graph.num_features * 8,
                "min_validation": data.validation.numel(),
            }
        }
    )
    assert is_worth_gcn(data, exact)
    far = exact.with_values({"policy": {"hops": 2}})
    assert is_worth_gcn(
        make_training_data(graph, far, 0, CPU), far
    )  # candidates beyond neighbours are no edges
    for changed in (
        {"max_edges": graph.num_edges - 1},
        {"max_weights": graph.num_features * 8 - 1},
        {"min_validation": data.validation.numel() + 1},
    ):
        assert not is_worth_gcn(data, exact.with_values({"gcn": changed}))


def test_the_best_epoch_on_validation_nodes_is_used_and_patience_ends_the_fit():
    graph, seen = noisy_graph(), []
    patient = HEADS.with_values({"gcn": {"epochs": 200, "patience": 20, "score_every": 1}})
    data = make_training_data(graph, HEADS, 0, CPU)

    class Fading(type(data.task)):
        def quality(self, probabilities, truth):
            seen.append(len(seen))
            return -abs(len(seen) - 7.0)

    before = torch.full((data.validation.numel(), 3), 1 / 3)
    found = fit_all(replace(data, task=Fading()), before, patient)
    # epoch 30 is the first that is checked after a patience of 20 from the seventh; two more scores with and without
    assert len(seen) == 32
    seen.clear()
    again = fit_all(replace(data, task=Fading()), before, patient.with_values({"gcn": {"epochs": 7}}))
    for mine, other in zip(found.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(mine, other)


# --- the receptive field ---


def test_the_receptive_field_is_one_hop_per_layer_and_one_more():
    prepared = prepare(path(12), Config(), CPU)
    assert receptive_field(prepared, torch.tensor([5]), 3).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert receptive_field(prepared, torch.tensor([5]), 2).tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert receptive_field(prepared, torch.arange(12), 3).tolist() == list(range(12))


def test_the_prediction_of_a_node_does_not_depend_on_which_others_are_asked_for(monkeypatch):
    graph = noisy_graph(nodes=150, links_per_node=1.2)
    always_accepted(monkeypatch)
    model = fitted(graph, HEADS)
    everyone = model.predict_proba(graph)
    for node in (3, 77, 149):
        around = receptive_field(prepare(graph, HEADS, CPU), torch.tensor([node]), HEADS.gcn.layers)
        alone = model.predict_proba(graph, torch.tensor([node]))[0]
        np.testing.assert_allclose(alone, everyone[node], atol=1e-6)
        assert around.numel() < graph.num_nodes


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_edges_of_the_receptive_field_are_decided_on_only_if_the_cleaned_graph_drops_edges(
    monkeypatch, threshold
):
    graph = noisy_graph(nodes=150, links_per_node=1.2)
    always_accepted(monkeypatch)
    model = with_threshold(fitted(graph, HEADS), threshold)
    asked = []
    plain = select

    def counted(policy, aggregators, prepared, targets, *rest):
        asked.append(targets.numel())
        return plain(policy, aggregators, prepared, targets, *rest)

    monkeypatch.setattr("gdpnet.inference.predictor.select", counted)
    model.predict_proba(graph, torch.tensor([3]))
    assert (asked[0] == 1) == (threshold == 0.0)


def test_an_explanation_includes_the_head_with_edges_and_without(monkeypatch):
    graph = noisy_graph()
    always_accepted(monkeypatch)
    model = fitted(graph, HEADS)
    network, node = model.networks_.gcn, torch.tensor([7])
    selected = model.predictor(graph).select()
    cut = graph.keep_edges((graph.target != 7) & (graph.neighbour != 7))
    alone = gcn_probabilities(network, keep_all(prepare(cut, HEADS, CPU)), 0.5, node)[0]
    final = gcn_probabilities(network, selected, 0.5, node)[0]
    story, others = model.explain(graph, "007"), without_gcn(model)
    before, bare = others.predict_proba(graph)[7], others.predict_proba(cut)[7]
    number = model.classes_.tolist().index(story.predicted)
    assert story.probability == pytest.approx(float(before[number] + final[number]) / 2, abs=1e-6)
    assert story.probability_alone == pytest.approx(float(bare[number] + alone[number]) / 2, abs=1e-6)


# --- files ---


def test_the_head_is_saved_and_loaded_with_the_model(monkeypatch, tmp_path):
    graph = noisy_graph()
    always_accepted(monkeypatch)
    model = fitted(graph, HEADS)
    model.save(tmp_path / "model")
    loaded = GDPNet.load(tmp_path / "model", device="cpu")
    assert same_weights(model, loaded)
    assert np.array_equal(loaded.predict_proba(graph), model.predict_proba(graph))


def test_with_several_labels_per_node_each_label_has_its_own_probability(monkeypatch, tmp_path):
    graph = noisy_graph()
    graph = replace(graph, class_names=("red", "red|round", "round"))
    always_accepted(monkeypatch)
    model = fitted(graph, HEADS.with_values({"task": {"kind": "multi-label"}}))
    assert model.networks_.gcn is not None
    chances = model.predict_proba(graph)
    assert chances.shape == (graph.num_nodes, 2)
    assert 0.0 <= chances.min() <= chances.max() <= 1.0
    assert np.abs(chances.sum(axis=1) - 1.0).max() > 0.01
    model.save(tmp_path / "model")
    assert np.array_equal(GDPNet.load(tmp_path / "model", device="cpu").predict_proba(graph), chances)
