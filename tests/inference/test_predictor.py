"""Predictors: one decision on the edges answers every question, and the answers are those of separate calls."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.config import task_config
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference import predictor as module
from gdpnet.inference.predictor import ClustersPredictor, LabelPredictor, LinksPredictor
from helpers.small import FAST, fitted, noisy_graph

WITHOUT_LABELS = {
    "training": {"epochs": 2, "warmup": 1},
    "representation": {"width": 8},
    "policy": {"hidden": [8, 6]},
    "inference": {"episodes": 2},
    "task": {"rank": 8},
    "links": {"steps": 10},
    "clusters": {"steps": 5},
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph)


@pytest.fixture
def decisions(monkeypatch) -> list[int]:
    """Record how many targets each call of `select` decides on."""
    calls: list[int] = []
    plain = module.select

    def counted(policy, aggregators, prepared, targets, config, key):
        calls.append(targets.numel())
        return plain(policy, aggregators, prepared, targets, config, key)

    monkeypatch.setattr(module, "select", counted)
    return calls


def assert_same_story(one, other):
    """Compare two explanations: numbers to a millionth, all else exactly."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_same_story(value, other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, its in zip(one, other, strict=True):
            assert_same_story(mine, its)
    else:
        assert one == (pytest.approx(other, abs=1e-6) if isinstance(other, float) else other)


def test_a_predictor_decides_once_for_all_its_answers(model, graph, decisions):
    predictor = model.predictor(graph)
    assert decisions == []
    predicted = predictor.predict()
    probabilities, embeddings = predictor.probabilities(), predictor.embeddings()
    cleaned, apart = predictor.denoise(), predictor.denoise(threshold=0.6, symmetric=False)
    story, score = predictor.explain("007"), predictor.score("test")
    assert decisions == [graph.num_nodes]
    assert np.array_equal(predicted, model.predictor(graph).predict())
    assert np.array_equal(probabilities, model.predictor(graph).probabilities())
    assert np.array_equal(embeddings, model.predictor(graph).embeddings())
    fresh = model.predictor(graph).denoise()
    assert np.array_equal(cleaned.keep_probability, fresh.keep_probability)
    assert torch.equal(cleaned.graph.neighbour, fresh.graph.neighbour)
    fresh = model.predictor(graph).denoise(threshold=0.6, symmetric=False)
    assert np.array_equal(apart.keep_probability, fresh.keep_probability)
    # deciding on fewer nodes changes the shapes of products, and with them their last bit
    assert_same_story(story.to_dict(), model.predictor(graph).explain("007").to_dict())
    assert score == model.predictor(graph).score("test")


def test_the_methods_of_the_model_are_those_of_a_fresh_predictor(model, graph):
    predictor, nodes = model.predictor(graph), torch.tensor([5, 2])
    assert np.array_equal(model.predict(graph, nodes), predictor.predict(nodes))
    assert np.allclose(model.predict_proba(graph, nodes), predictor.probabilities(nodes), atol=1e-6)
    assert np.allclose(model.embed(graph, nodes), predictor.embeddings(nodes), atol=1e-6)
    assert model.score(graph) == predictor.score()


def test_some_nodes_are_decided_on_alone_and_a_question_about_others_decides_on_all(model, graph, decisions):
    predictor, some = model.predictor(graph), torch.tensor([3, 9, 3])
    first = predictor.probabilities(some)
    assert decisions == [2]
    assert np.array_equal(predictor.probabilities(some), first)
    predictor.embeddings(torch.tensor([9]))
    assert decisions == [2]
    others = predictor.probabilities(torch.tensor([40, 41]))
    assert decisions == [2, graph.num_nodes]
    everyone = predictor.probabilities()
    predictor.denoise()
    assert decisions == [2, graph.num_nodes]
    assert np.allclose(others, everyone[[40, 41]], atol=1e-6)
    assert np.allclose(first, everyone[[3, 9, 3]], atol=1e-6)


def test_nodes_without_edges_need_no_second_decision(model, graph, decisions):
    bare = Graph.build([[0], [1]], graph.features)
    predictor = model.predictor(bare)
    predictor.probabilities(torch.tensor([0, 1]))
    assert np.array_equal(predictor.predict(torch.tensor([5])), model.predict(bare, torch.tensor([5])))
    assert decisions[0] == 2
    assert len([count for count in decisions if count == bare.num_nodes]) == 0


def test_a_graph_with_other_columns_is_refused_at_once(model):
    with pytest.raises(GraphError, match="the model was trained on 300 features, this graph has 2"):
        model.predictor(Graph.build([[0], [1]], np.eye(2)))


def test_each_task_has_its_predictor(model, graph):
    assert type(model.predictor(graph)) is LabelPredictor
    with pytest.raises(
        ConfigError, match="links are predicted by a model of task links, found classification"
    ):
        model.predictor(graph).link_probabilities([[0], [1]])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "expected"), [("links", LinksPredictor), ("clusters", ClustersPredictor)])
def test_tasks_without_labels_decide_once_too(kind, expected, graph, decisions):
    config = task_config(kind).with_values(WITHOUT_LABELS)
    predictor = GDPNet.from_config(config, device="cpu").fit(graph).predictor(graph)
    assert type(predictor) is expected
    embeddings = predictor.embeddings()
    assert np.array_equal(predictor.embeddings([7, 3]), embeddings[[7, 3]])
    predictor.denoise()
    if kind == "links":
        assert predictor.link_probabilities([[0, 1], [2, 3]]).shape == (2,)
    else:
        assert predictor.explain("007").cluster == predictor.predict()[7]
    assert decisions == [graph.num_nodes]
    for refused in (predictor.probabilities, predictor.score):
        with pytest.raises(ConfigError, match="learned no labels"):
            refused()


def test_a_model_without_a_policy_keeps_every_edge(graph):
    model = fitted(graph, FAST.with_values({"training": {"selection": False}}))
    predictor = model.predictor(replace(graph, truth=None))
    assert predictor.keep_probability().tolist() == [1.0] * graph.num_edges


def test_a_threshold_that_is_no_number_is_refused(model, graph):
    for wrong in (True, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="must lie between 0 and 1, found"):
            model.denoise(graph, threshold=wrong)
