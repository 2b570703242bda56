"""The hop-wise head: numbers by hand, what it learns, and its weight in the ensemble."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gdpnet import GDPNet
from gdpnet._core.fit import fit
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data import features
from gdpnet.data.features import SparseRows, to_sparse
from gdpnet.data.graph import Graph
from gdpnet.data.neighbour_sums import mix_dense, mix_into
from gdpnet.data.prepare import prepare, with_neighbourhoods
from gdpnet.inference.ensemble import HeadWeights, embed_fold_models, hop_features
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import Aggregators, HopwiseNetwork
from gdpnet.training import fit_hopwise_head as hopwise_head
from gdpnet.training.data import make_training_data
from gdpnet.training.fit_hopwise_head import (
    FittedHopwise,
    HeadScore,
    HeldOutNodes,
    fit_hopwise,
    is_worth_hopwise,
)
from helpers.small import FAST, fitted, noisy_graph, same_weights

pytestmark = pytest.mark.slow  # nearly every test trains a model

CPU = torch.device("cpu")
PLAIN = Config().with_values({"features": {"normalise": "none"}})
HEAD = FAST.with_values({"hopwise": {"use": True, "steps": 40, "evaluate_every": 10}, "gcn": {"use": False}})
ONE_HOP = PLAIN.with_values({"representation": {"hops": 1}})


def path(features: torch.Tensor | SparseRows | None = None) -> Graph:
    """Return the path 0 - 1 - 2 with one feature, the number of the node squared."""
    rows = torch.tensor([[0.0], [1.0], [4.0]]) if features is None else features
    return Graph.build(torch.tensor([[0, 1], [1, 2]]), rows, torch.tensor([0, 1, 1]))


# --- the hops ---


def test_hops_are_the_features_their_mean_and_the_mean_of_means_by_hand():
    prepared = prepare(path(), PLAIN, CPU)
    own, first, second = hop_features(prepared, torch.tensor([1, 0]), torch.ones(4))
    assert own.tolist() == [[1.0], [0.0]]
    assert first.flatten().tolist() == pytest.approx([5 / 3, 1 / 2])
    # the neighbourhood means of nodes 0, 1 and 2: 1/2, 5/3 and 5/2
    assert second.flatten().tolist() == pytest.approx([(5 / 3 + 1 / 2 + 5 / 2) / 3, (1 / 2 + 5 / 3) / 2])


def test_the_mean_over_a_hop_is_weighted_and_ignores_edges_of_weight_zero():
    prepared = prepare(path(), PLAIN, CPU)
    weight = torch.tensor([1.0, 0.5, 0.0, 1.0])  # 0<-1, 1<-0, 1<-2, 2<-1
    prepared = with_neighbourhoods(prepared, weight)
    _, first, second = hop_features(prepared, torch.tensor([1]), weight)
    assert first.item() == pytest.approx(1.0 / 1.5)
    assert second.item() == pytest.approx((1.0 / 1.5 + 0.5 * 0.5) / 1.5)


def test_one_hop_neighbourhoods_have_two_inputs_and_an_isolated_node_only_itself():
    hops = hop_features(prepare(path(), ONE_HOP, CPU), torch.tensor([2]), torch.zeros(4))
    assert [hop.tolist() for hop in hops] == [[[4.0]], [[4.0]]]


def test_hops_of_sparse_features_equal_those_of_dense_ones():
    dense = torch.rand(3, 40, generator=torch.Generator().manual_seed(0)) * (torch.arange(40) % 13 == 0)
    weight = torch.tensor([0.3, 0.5, 0.7, 1.0])
    sparse = SparseRows.from_scipy(sp.csr_matrix(dense.numpy()))
    expected = hop_features(prepare(path(dense), PLAIN, CPU), torch.arange(3), weight)
    found = hop_features(prepare(path(sparse), PLAIN, CPU), torch.arange(3), weight)
    for hop, other in zip(expected, found, strict=True):
        assert isinstance(other, SparseRows)
        assert other.to_scipy().toarray() == pytest.approx(hop.numpy(), abs=1e-6)


def test_a_mean_may_take_its_own_rows_and_the_messages_from_different_tables():
    own, given = torch.tensor([[2.0]]), torch.tensor([[10.0], [20.0]])
    mixed = mix_into(own, given, torch.tensor([0, 2]), torch.tensor([0, 1]), torch.tensor([1.0, 2.0]))
    assert mixed.item() == pytest.approx((2 + 10 + 40) / 4)


def test_a_device_mixes_dense_rows_as_the_host_does():
    generator = torch.Generator().manual_seed(0)
    own, given = torch.randn(3, 4, generator=generator), torch.randn(5, 4, generator=generator)
    links = torch.tensor([0, 2, 2, 5]), torch.tensor([4, 1, 0, 2, 3]), torch.rand(5, generator=generator)
    sparse = mix_into(features.to_sparse(own), features.to_sparse(given), *links)
    torch.testing.assert_close(mix_dense(own, given, *links), features.to_dense(sparse))


def test_on_a_device_sparse_rows_are_dense_where_they_fit(monkeypatch):
    rows = SparseRows.from_scipy(
        sp.csr_matrix(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], dtype=np.float32))
    )
    assert features.on_device(rows, CPU).shape == (2, 3)
    assert isinstance(features.on_device(rows, CPU), SparseRows)
    meta = torch.device("meta")
    assert isinstance(features.on_device(rows, meta), torch.Tensor)
    monkeypatch.setattr(features, "MOST_DENSE", 5)
    assert isinstance(features.on_device(rows, meta), SparseRows)


# --- the network ---


def test_each_hop_has_its_own_matrix_and_fold_models_are_averaged():
    hopwise = HopwiseNetwork(1, 1, 2, fold_models=2, hops=2)
    with torch.no_grad():
        hopwise.weight.copy_(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]]))
        hopwise.bias.copy_(torch.tensor([[0.5], [-1.0]]))
        hopwise.head_weight.copy_(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))
    hidden = hopwise.embed([torch.tensor([[2.0]]), torch.tensor([[4.0]])])
    assert hidden.tolist() == [[[2.5], [11.0]]]
    chance = torch.softmax(torch.tensor([[2.5, 0.0], [0.0, 11.0]]), dim=1).mean(dim=0)
    assert hopwise.fold_probabilities(hidden).mean(dim=1)[0].tolist() == pytest.approx(chance.tolist())


def test_fold_models_start_with_different_weights():
    hopwise = HopwiseNetwork(5, 3, 2, fold_models=2, hops=2)
    hopwise.initialise(torch.Generator().manual_seed(0))
    assert not torch.equal(hopwise.weight[:, :, :3], hopwise.weight[:, :, 3:])
    assert not torch.equal(hopwise.head_weight[0], hopwise.head_weight[1])


# --- fitting ---


def keep_all(prepared) -> Selected:
    """Return a selection of everything."""
    ones = torch.ones(prepared.neighbour.numel())
    return Selected(ones, ones > 0, ones > 0, prepared)


def own_or_others(own: bool) -> Graph:
    """Return pairs of nodes; the class of a node shows in its own features, or only in those of its partner."""
    number = torch.arange(120)
    label = (number // 2) % 2
    shows = number % 2 == 0 if own else number % 2 == 1
    features = torch.nn.functional.one_hot(label, 2).float() * shows[:, None]
    # the other features show the wrong class half the time, so that a mean over both says little
    noise = torch.nn.functional.one_hot((number // 4) % 2, 2).float() * ~shows[:, None]
    split = torch.where(number % 2 == 1, 0, torch.where(number < 80, 1, 2))
    label = torch.where(number % 2 == 0, label, torch.full_like(label, -1))
    links = torch.stack([number[::2], number[1::2]])
    return Graph.build(links, features + 2 * noise, label, split=split, class_names=("a", "b"))


def untrained_aggregators(data, classes: int, width: int = 8) -> Aggregators:
    """Return untrained aggregators with one fold model per fold of the training data."""
    aggregators = Aggregators(
        data.train.features.shape[1], width, classes, int(data.fold.max()) + 2, self_weight=False
    )
    aggregators.initialise(torch.Generator().manual_seed(0))
    return aggregators


def fit_all(data, config: Config, classes: int, aggregators: Aggregators | None = None) -> FittedHopwise:
    """Fit the head to all neighbours."""
    aggregators = untrained_aggregators(data, classes) if aggregators is None else aggregators
    return fit_hopwise(aggregators, data, keep_all(data.train), keep_all(data.whole), config, Key.of(0))


@pytest.mark.parametrize("own", [True, False])
def test_the_head_learns_which_hop_shows_the_class(own):
    config = ONE_HOP.with_values(
        {"training": {"selection": False}, "hopwise": {"dropout": 0.0, "steps": 300}}
    )
    data = make_training_data(own_or_others(own), config, 0, CPU)
    found = fit_all(data, config, 2)
    alone = found.scores[-1]
    assert (alone.share, alone.validation_f1, alone.losses) == (1.0, 1.0, 0)
    assert alone.is_better
    assert found.best is not None


def test_the_weights_of_the_best_evaluation_are_returned_and_patience_ends_the_fit(monkeypatch):
    scores = iter([(0.3, -1.0), (0.5, -1.0), (0.5, -0.9), (0.5, -0.95), (0.4, 0.0)] + [(0.0, 0.0)] * 50)
    weights = []

    networks = []
    plain = hopwise_head._predict

    def predict(network, hops, held_out):
        networks.append(network)
        return plain(network, hops, held_out)

    def evaluate(task, probabilities, labels):
        weights.append(networks[-1].weight.detach().clone())
        return next(scores)

    monkeypatch.setattr(hopwise_head, "_predict", predict)
    monkeypatch.setattr(hopwise_head, "quality_and_likelihood", evaluate)
    config = HEAD.with_values({"hopwise": {"steps": 400, "evaluate_every": 5, "patience": 20}})
    found = fit_all(make_training_data(noisy_graph(), config, 0, CPU), config, 3)
    assert found.steps == 15
    assert torch.equal(found.network.weight, weights[2])
    assert len(weights) == 15 // 5 + 20 // 5


def test_steps_and_patience_grow_with_the_training_nodes_above_the_usual_number(monkeypatch):
    bounds = []

    def spy(*args, steps, patience, **others):
        bounds.append((steps, patience))
        return fit(*args, steps=3, patience=3, **others)

    monkeypatch.setattr(hopwise_head, "fit", spy)
    data = make_training_data(noisy_graph(), HEAD, 0, CPU)
    targets = data.targets.numel()
    for usual in (targets, 2 * targets, targets / 3):
        config = HEAD.with_values({"hopwise": {"steps": 40, "patience": 10, "usual_nodes": round(usual)}})
        fit_all(data, config, 3)
    assert bounds[:2] == [(40, 10), (40, 10)]
    assert bounds[2] == pytest.approx((120, 30), abs=3)


def test_a_fold_model_never_learns_the_labels_that_it_leaves_out():
    config = HEAD.with_values({"hopwise": {"dropout": 0.0}})
    graph = noisy_graph()
    data = make_training_data(graph, config, 0, CPU)
    left_out = data.targets[data.fold[data.targets] == 1]
    labels = data.labels.clone()
    labels[left_out] = (labels[left_out] + 1) % 3
    other = replace(data, labels=labels)
    # evaluation chooses the step, and there all fold models are averaged: compare after the last step
    alone = config.with_values({"hopwise": {"steps": 5, "evaluate_every": 5}})
    mine, theirs = fit_all(data, alone, 3).network, fit_all(other, alone, 3).network
    same = [
        torch.equal(mine.head_weight[number], theirs.head_weight[number])
        for number in range(mine.fold_models)
    ]
    assert same == [False, False, True, False]


def test_held_out_nodes_are_predicted_by_fold_models_that_never_learned_their_labels():
    graph = noisy_graph()
    data = make_training_data(graph, HEAD, 0, CPU)
    held_out = HeldOutNodes.of(data)
    count = data.validation.numel()
    assert held_out.nodes.tolist() == graph.nodes_in("validation").tolist() + graph.nodes_in("train").tolist()
    assert torch.equal(held_out.labels, graph.labels[held_out.nodes])
    assert set(held_out.fold_model[:count].tolist()) == {-1}
    assert set(held_out.fold_model[count:].tolist()) == {1, 2, 3}
    fold_probabilities = torch.rand(held_out.nodes.numel(), 4, 3, generator=torch.Generator().manual_seed(0))
    chance = held_out.probabilities(fold_probabilities)
    assert torch.equal(chance[0], fold_probabilities[0].mean(dim=0))
    last = int(data.fold[data.targets[-1]]) + 1
    assert torch.equal(chance[-1], fold_probabilities[-1, last])


def test_without_folds_only_validation_nodes_are_held_out():
    data = make_training_data(noisy_graph(), HEAD.with_values({"reward": {"folds": 1}}), 0, CPU)
    assert torch.equal(HeldOutNodes.of(data).nodes, data.validation)


@pytest.mark.parametrize(
    ("gains", "losses", "alone", "together"),
    [
        (9, 1, True, True),
        (8, 2, False, True),
        (6, 4, False, False),
        (10, 10, False, False),
        (0, 0, False, False),
    ],
)
def test_the_margin_is_two_standard_deviations_alone_and_one_together(gains, losses, alone, together):
    settings = Config().hopwise
    assert HeadScore(1.0, gains, losses, 0.5, settings.margin_alone).is_better == alone
    assert HeadScore(0.5, gains, losses, 0.5, settings.margin_together).is_better == together


def test_each_share_is_compared_by_its_own_margin():
    config = HEAD.with_values({"hopwise": {"margin_alone": 7.0, "margin_together": 3.0}})
    found = fit_all(make_training_data(noisy_graph(), config, 0, CPU), config, 3)
    assert [(one.share, one.margin) for one in found.scores] == [(0.5, 3.0), (1.0, 7.0)]


@pytest.mark.parametrize(
    ("both", "alone", "share"),
    [((9, 1), (20, 2), 1.0), ((20, 2), (9, 1), 0.5), ((3, 1), (9, 6), None), ((1, 9), (30, 10), 1.0)],
)
def test_the_share_with_the_largest_lead_is_chosen(both, alone, share):
    scores = (HeadScore(0.5, *both, 0.5, margin=1.0), HeadScore(1.0, *alone, 0.5, margin=2.0))
    best = FittedHopwise(HopwiseNetwork(1, 1, 2, 1, 1), 1, scores).best
    assert (best and best.share) == share


def test_the_score_of_both_together_is_that_of_the_mean_probabilities():
    data = make_training_data(noisy_graph(), HEAD, 0, CPU)
    found = fit_all(data, HEAD, 3)
    held_out = HeldOutNodes.of(data)
    whole = keep_all(data.whole)
    fold_probabilities = embed_fold_models(
        untrained_aggregators(data, 3), whole.prepared, held_out.nodes, whole.probability
    )[1]
    head = found.network.fold_probabilities(
        found.network.embed(hop_features(whole.prepared, held_out.nodes, whole.probability))
    )
    agg, mine = held_out.probabilities(fold_probabilities), held_out.probabilities(head)
    right = [(chance.argmax(dim=1) == held_out.labels) for chance in (agg, (agg + mine) / 2)]
    both = found.scores[0]
    assert both.share == 0.5
    assert both.gains == int((right[1] & ~right[0]).sum())
    assert both.losses == int((right[0] & ~right[1]).sum())


# --- in the model ---


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


def with_head(graph: Graph, lead: int, monkeypatch, share: float = 1.0) -> GDPNet:
    """Fit a model whose head, at a share of the weight, has so many gains over the aggregator and no losses."""

    def claims(*arguments):
        return replace(fit_hopwise(*arguments), scores=(HeadScore(share, lead, 0, 0.125, margin=2.0),))

    monkeypatch.setattr("gdpnet.training.heads.fit_hopwise", claims)
    return fitted(graph, HEAD)


def test_the_head_replaces_the_aggregator_only_if_it_is_ahead_by_its_margin(graph, monkeypatch):
    agg = fitted(graph)
    assert agg.networks_.hopwise is None
    level = with_head(graph, 0, monkeypatch)
    assert level.networks_.hopwise is None
    assert level.trained_.weights == HeadWeights()
    assert (level.predict_proba(graph) == agg.predict_proba(graph)).all()
    better = with_head(graph, 5, monkeypatch)
    assert better.networks_.hopwise is not None
    assert better.trained_.weights == HeadWeights(0.0, 1.0)
    assert better.validation_f1_ == 0.125
    assert (better.predict_proba(graph) != agg.predict_proba(graph)).any()
    assert better.embed(graph).shape == agg.embed(graph).shape
    assert (better.denoise(graph).keep_probability == agg.denoise(graph).keep_probability).all()


def test_together_predictions_are_the_mean_and_embeddings_those_of_the_aggregator(graph, monkeypatch):
    agg, alone = fitted(graph), with_head(graph, 5, monkeypatch)
    both = with_head(graph, 5, monkeypatch, share=0.5)
    mean = (agg.predict_proba(graph) + alone.predict_proba(graph)) / 2
    assert both.predict_proba(graph) == pytest.approx(mean, abs=1e-6)
    assert (both.embed(graph) == agg.embed(graph)).all()
    assert (alone.embed(graph) != agg.embed(graph)).any()


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_head_is_saved_loaded_and_explained(graph, monkeypatch, tmp_path, share):
    model = with_head(graph, 5, monkeypatch, share)
    model.save(tmp_path / "model.safetensors")
    loaded = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert same_weights(model, loaded)
    assert (model.predict_proba(graph) == loaded.predict_proba(graph)).all()
    story = loaded.explain(graph, "007")
    assert 0.0 < story.probability <= 1.0
    loaded._set_trained(replace(loaded.trained_, weights=HeadWeights()))
    assert loaded.explain(graph, "007").probability != story.probability


def test_the_prediction_of_a_node_does_not_depend_on_which_others_are_asked_for(graph, monkeypatch):
    model = with_head(graph, 5, monkeypatch)
    everyone = model.predict_proba(graph)
    some = torch.tensor([70, 3, 41])
    assert model.predict_proba(graph, some) == pytest.approx(everyone[some], abs=1e-6)


def test_test_labels_do_not_change_the_head(graph, monkeypatch):
    labels = torch.where(graph.split == 3, (graph.labels + 1) % 3, graph.labels)
    mine = with_head(graph, 5, monkeypatch)
    other = with_head(replace(graph, labels=labels), 5, monkeypatch)
    assert same_weights(mine, other)


def test_a_head_that_would_be_too_large_is_not_fitted(graph, monkeypatch):
    weights = 3 * graph.num_features * 4 * HEAD.representation.width
    heads = []
    monkeypatch.setattr(
        "gdpnet.training.heads.fit_hopwise", lambda *given: heads.append(1) or fit_hopwise(*given)
    )
    for most, expected in ((weights, 1), (weights - 1, 1)):  # the second adds none
        fitted(graph, HEAD.with_values({"hopwise": {"max_weights": most}}))
        assert len(heads) == expected


def test_a_hub_with_one_hot_features_counts_all_values_of_the_widest_hop():
    count = 40
    star = torch.stack([torch.zeros(count - 1, dtype=torch.long), torch.arange(1, count)])
    graph = Graph.build(
        star, SparseRows.identity(count), torch.arange(count) % 2, split=torch.arange(count) % 3 + 1
    )
    data = make_training_data(graph, HEAD, 0, CPU)
    aggregators = untrained_aggregators(data, 2)
    # every leaf may receive the hub's whole neighbourhood, and the hub those of its leaves, two nodes each
    values = (count - 1) * count + (count - 1) * 2
    exact, less = (HEAD.with_values({"hopwise": {"max_values": most}}) for most in (values, values - 1))
    assert is_worth_hopwise(data, aggregators, exact)
    assert not is_worth_hopwise(data, aggregators, less)


def test_means_of_all_neighbourhoods_are_not_kept_once_the_head_is_fitted(graph):
    config = HEAD.with_values({"hopwise": {"steps": 5}})
    data = make_training_data(replace(graph, features=to_sparse(graph.features)), config, 0, CPU)
    aggregators = untrained_aggregators(data, 3)
    assert is_worth_hopwise(data, aggregators, config)
    fit_all(data, config, 3, aggregators)
    assert not data.train.has_neighbourhood
    assert not data.whole.has_neighbourhood


def test_without_validation_nodes_the_head_is_not_fitted(graph):
    split = torch.where(graph.split == 2, torch.zeros_like(graph.split), graph.split)
    few = torch.zeros_like(split)
    few[(split == 1).nonzero().flatten()[:9]] = 1  # a tenth of nine is none
    assert fitted(replace(graph, split=few), HEAD).networks_.hopwise is None
