"""The all-edges head and the trees head: what each finds, and that all of a model works with them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gdpnet import GDPNet
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.features import SparseRows, to_sparse
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import prepare
from gdpnet.data.validation import SPLITS
from gdpnet.inference.ensemble import HeadWeights, own_columns
from gdpnet.representation.all_edges import AllEdgesNetwork, SharedNetwork, adjacency_of
from gdpnet.representation.sparse import Matrix, times
from gdpnet.representation.tasks import MultiLabel
from gdpnet.training.data import make_training_data
from gdpnet.training.fit_all_edges_head import fit_all_edges, is_worth_all_edges
from gdpnet.training.fit_trees_head import fit_trees, is_worth_trees
from gdpnet.training.held_out import HeldOutNodes
from helpers.small import FAST, fitted, noisy_graph

CPU = torch.device("cpu")
BOTH = FAST.with_values({"all_edges": {"use": True, "epochs": 60}, "trees": {"use": True, "iterations": 20}})


def table(seed: int = 0, nodes: int = 300, same: float = 0.0, signal: float = 0.0, **given) -> Graph:
    """Return a graph whose class is the exclusive or of two columns; a share of the links joins equal classes."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(nodes, 4)).astype(np.float32)
    label = ((rows[:, 0] > 0) ^ (rows[:, 1] > 0)).astype(int)
    rows[:, 2] += signal * (2 * label - 1)
    if signal:
        rows[:, :2] = rng.normal(size=(nodes, 2))
    source = rng.integers(0, nodes, 3 * nodes)
    near = np.array([rng.choice(np.flatnonzero(label == label[node])) for node in source])
    target = np.where(rng.random(len(source)) < same, near, rng.integers(0, nodes, len(source)))
    split = rng.choice(
        [SPLITS.index(name) for name in ("train", "validation", "test")], nodes, p=[0.6, 0.2, 0.2]
    )
    ends = np.stack([np.r_[source, target], np.r_[target, source]])
    return Graph.build(ends, rows, labels=given.pop("labels", label), split=split, **given)


def data_of(graph: Graph, config: Config = BOTH, task=None):
    given = () if task is None else (task,)
    data = make_training_data(graph, config, 0, CPU, *given)
    return data, HeldOutNodes.of(data)


def test_held_out_training_nodes_are_predicted_by_trees_that_have_not_learned_them():
    """With labels at random, trees that had learned them would be right far more often than by chance."""
    labels = np.random.default_rng(5).integers(0, 2, 600)
    data, held_out = data_of(table(nodes=600, labels=labels))
    trees, found = fit_trees(data, held_out, 2, BOTH, Key.of(0))
    learned = trees.fold_probabilities(own_columns(data.whole, held_out.nodes))[:, 0]
    right = [(one.argmax(dim=1) == held_out.labels).float().mean() for one in (found, learned)]
    assert right[0] < 0.58
    assert right[1] > 0.66


def test_held_out_training_nodes_are_predicted_by_networks_that_have_not_learned_them():
    labels = np.random.default_rng(5).integers(0, 2, 300)
    config = BOTH.with_values({"all_edges": {"dropout": 0.0, "epochs": 300, "patience": 300}})
    data, held_out = data_of(table(labels=labels), config)
    flat = replace(held_out, labels=1 - held_out.labels)  # whatever held-out nodes say, the last epoch counts
    for asked in (held_out, flat):
        _, found = fit_all_edges(data, asked, 2, config, Key.of(0))
        assert (found.argmax(dim=1) == held_out.labels).float().mean() < 0.6


def test_trees_find_an_interaction_of_columns():
    data, held_out = data_of(table(nodes=600))
    _, found = fit_trees(data, held_out, 2, BOTH, Key.of(0))
    assert (found.argmax(dim=1) == held_out.labels).float().mean() > 0.9


def test_the_all_edges_head_finds_what_neighbours_say():
    data, held_out = data_of(table(same=0.9, signal=0.7))
    _, found = fit_all_edges(data, held_out, 2, BOTH, Key.of(0))
    assert (found.argmax(dim=1) == held_out.labels).float().mean() > 0.9


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({}, (True, True)),
        ({"all_edges": {"use": False}}, (False, True)),
        ({"trees": {"use": False}}, (True, False)),
        ({"all_edges": {"max_edges": 5}}, (False, True)),
        ({"all_edges": {"max_scores": 1000}}, (False, True)),
        ({"all_edges": {"max_features": 3}, "trees": {"max_features": 3}}, (False, False)),
        ({"trees": {"max_classes": 1}}, (True, False)),
        ({"ensemble": {"min_held_out": 10_000}}, (False, False)),
    ],
)
def test_heads_are_fitted_if_wanted_and_not_too_costly(changes, worth):
    config = BOTH.with_values(changes)
    data, held_out = data_of(table(), config)
    assert (is_worth_all_edges(data, held_out, 2, config), is_worth_trees(data, held_out, 2, config)) == worth


def test_sparse_features_have_the_all_edges_head_but_no_trees():
    data, held_out = data_of(noisy_graph())
    assert is_worth_all_edges(data, held_out, 2, BOTH)
    assert not is_worth_trees(data, held_out, 3, BOTH)
    few = BOTH.with_values({"all_edges": {"max_values": 10}})
    assert not is_worth_all_edges(data, held_out, 2, few)


def test_a_graph_without_features_has_the_all_edges_head_too():
    """Each node is a column of its own: links alone say the class."""
    bare = replace(table(same=0.95), features=SparseRows.identity(300), transductive=True)
    data, held_out = data_of(bare)
    _, found = fit_all_edges(data, held_out, 2, BOTH, Key.of(0))
    assert (found.argmax(dim=1) == held_out.labels).float().mean() > 0.8


def test_held_out_nodes_of_sparse_features_are_predicted_by_networks_that_have_not_learned_them():
    """With labels at random a network that has learned a node is right about it far more often than by chance."""
    labels = torch.from_numpy(np.random.default_rng(5).integers(0, 2, 300))
    graph = replace(table(), features=SparseRows.identity(300), labels=labels, transductive=True)
    config = BOTH.with_values({"all_edges": {"dropout": 0.0, "sparse_epochs": 150, "evaluate_every": 150}})
    data, held_out = data_of(graph, config)
    flat = replace(held_out, labels=1 - held_out.labels)  # whatever held-out nodes say, the last epoch counts
    for asked in (held_out, flat):
        network, found = fit_all_edges(data, asked, 2, config, Key.of(0))
        assert (found.argmax(dim=1) == held_out.labels).float().mean() < 0.6
    message = times(data.whole.features, network.weight)
    learned = network.fold_probabilities_of(message, adjacency_of(data.whole))[held_out.nodes, 0]
    of_training = held_out.fold_model >= 0
    assert (learned.argmax(dim=1) == held_out.labels)[of_training].float().mean() > 0.65


@pytest.mark.parametrize(("step", "kind"), [(0, SharedNetwork), (1, AllEdgesNetwork)])
def test_a_node_has_weights_of_its_own_where_neighbours_are_of_the_next_class(step, kind):
    rng, nodes = np.random.default_rng(0), 600
    label = rng.integers(0, 3, nodes)
    words = sp.csr_matrix(
        (rng.random((nodes, 60)) < 0.05 + 0.1 * (np.arange(60) % 3 == label[:, None])) * 1.0
    )
    source = rng.integers(0, nodes, 3 * nodes)
    wanted = [np.flatnonzero(label == one) for one in range(3)]
    target = np.array([rng.choice(wanted[one]) for one in (label[source] + step) % 3])
    split = np.arange(nodes) % 3 + 1
    data, held_out = data_of(Graph.build([source, target], words, label, split=split, transductive=True))
    network, found = fit_all_edges(data, held_out, 3, BOTH, Key.of(0))
    assert type(network) is kind
    assert (found.argmax(dim=1) == held_out.labels).float().mean() > 0.6


def test_the_head_of_sparse_features_by_hand():
    """Two linked nodes: P has 1/2 everywhere, so that both have the mean of the messages."""
    graph = Graph.build([[0], [1]], np.eye(2, dtype=np.float32), labels=[0, 1])
    network = SharedNetwork(2, 1, 2, fold_models=1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[3.0], [1.0]]))
        network.head_weight.copy_(torch.tensor([[[0.5, -0.5]]]))
    prepared = prepare(graph, BOTH, CPU)
    message, adjacency = times(prepared.features, network.weight), adjacency_of(prepared)
    expected = torch.softmax(torch.tensor([1.0, -1.0]), dim=0).expand(2, 2)  # H is (3 + 1) / 2
    torch.testing.assert_close(network.from_messages(message, adjacency), expected)
    torch.testing.assert_close(network.normalised(network.layers(message, adjacency)[1]), expected)


def test_values_left_out_of_a_sparse_matrix_are_left_out_of_its_transpose():
    rows = to_sparse(torch.tensor([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]]))
    thin = Matrix.of(rows, CPU).thinned(torch.tensor([True, False, True, True]), 2.0)
    expected = torch.tensor([[2.0, 0.0, 0.0], [0.0, 6.0, 8.0]])
    weight = torch.randn(3, 2, requires_grad=True)
    product = times(thin, weight)
    torch.testing.assert_close(product, expected @ weight)
    (product * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    torch.testing.assert_close(weight.grad, expected.T @ torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_several_labels_per_node_have_trees_each():
    graph = table(nodes=400)
    names = np.array(["red|round", "red", "round", ""])
    marks = 2 * (graph.features[:, 0] > 0).long() + (graph.features[:, 1] > 0).long()
    graph = replace(graph, labels=marks, class_names=tuple(str(name) for name in names))
    data, held_out = data_of(graph, task=MultiLabel(("red", "round")))
    _, found = fit_trees(data, held_out, 2, BOTH, Key.of(0))
    assert ((found > 0.5) == (held_out.labels > 0.5)).float().mean() > 0.9


# --- whole models ---


@pytest.fixture(scope="module")
def graph() -> Graph:
    return table(nodes=400)


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph, BOTH)


@pytest.mark.slow
def test_trees_carry_a_table_whose_links_are_useless(model, graph):
    weights = model.trained_.weights
    assert weights.trees > 0.5
    assert sum(weights) == pytest.approx(1.0)
    assert model.score(graph) > 0.8
    assert model.validation_f1_ > 0.8


@pytest.mark.slow
def test_a_saved_model_predicts_the_same(model, graph, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert again.trained_.weights == model.trained_.weights
    np.testing.assert_array_equal(again.predict_proba(graph), model.predict_proba(graph))
    assert again.trained_.fingerprint() == model.trained_.fingerprint()


@pytest.mark.slow
def test_other_graphs_and_single_nodes_are_predicted(model):
    other = table(seed=9)
    whole = model.predict_proba(other)
    assert model.score(replace(other, split=torch.full_like(other.split, SPLITS.index("test")))) > 0.8
    np.testing.assert_allclose(model.predict_proba(other, [3, 5]), whole[[3, 5]], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights", [HeadWeights(0.3, all_edges=0.3, trees=0.4), HeadWeights(0.0, trees=1.0)], ids=["all", "trees"]
)
def test_contributions_add_up_with_heads_that_no_decision_changes(model, graph, weights):
    config = BOTH.with_values({"ensemble": {"min_weight": 0.0}})
    whole = fitted(graph, config)
    whole._set_trained(replace(whole.trained_, weights=weights))
    predictor = whole.predictor(graph)
    alone = whole.predict_proba(Graph.build([[], []], graph.features.numpy()))
    for node in (0, 7, 12):
        story = predictor.explain(str(graph.node_ids[node]))
        place = whole.classes_.tolist().index(story.explained)
        total = story.probability_alone + sum(one.contribution for one in story.decisions)
        assert total == pytest.approx(story.probability, abs=1e-5)
        assert story.probability == pytest.approx(predictor.probabilities([node])[0, place], abs=1e-5)
        assert story.probability_alone == pytest.approx(alone[node, place], abs=1e-5)
        if weights.trees == 1.0:
            assert all(one.contribution == pytest.approx(0.0, abs=1e-6) for one in story.decisions)
        assert [head.name for head in story.heads] == [n for n, w in weights._asdict().items() if w > 0]


@pytest.mark.slow
def test_numbers_as_labels_get_the_all_edges_head_alone():
    graph = table(same=0.9, signal=1.0)
    targets = graph.features[:, 2].double().numpy() + 0.1
    numbers = Graph.build(graph.edge_index, graph.features.numpy(), targets=targets, split=graph.split)
    config = BOTH.with_values({"task": {"kind": "regression"}})
    found = fitted(numbers, config)
    assert found.networks_.trees is None
    assert np.isfinite(found.predictor(numbers).predict()).all()


@pytest.mark.slow
def test_balanced_classes_and_another_metric_work_with_all_heads():
    graph = table(nodes=400)
    config = BOTH.with_values({"task": {"class_weight": "balanced"}, "training": {"metric": "macro_f1"}})
    assert fitted(graph, config).score(graph) > 0.8
