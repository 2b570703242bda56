"""Class weights, metrics that choose, and regression in training, on small graphs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.config import Config, TaskSettings
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.objective import classification_by
from gdpnet.representation.tasks import CLASSIFICATION, Classification, compare, reward_weight
from gdpnet.training.objective import balanced_weights, learned_task
from helpers.small import noisy_graph

QUICK = {
    "training": {"epochs": 2, "warmup": 2},
    "representation": {"width": 8, "learning_rate": 0.05},
    "policy": {"hidden": [8, 6]},
    "inference": {"episodes": 2},
    "hopwise": {"steps": 50},
    "gcn": {"epochs": 10, "min_validation": 1},
}

RARE = torch.tensor([[0.9, 0.1]] * 6 + [[0.8, 0.2]] * 2)
"""Predictions that never name the second class, but rank its two nodes first."""
TRUTH = torch.tensor([0] * 6 + [1, 1])


# --- class weights ---


def test_balanced_weights_let_all_classes_weigh_the_same():
    labels = torch.tensor([0] * 6 + [1] * 2)
    assert balanced_weights(labels, 2) == pytest.approx((8 / 12, 8 / 4))
    assert balanced_weights(labels, 3) == pytest.approx((8 / 12, 8 / 4, 1.0))


def test_the_loss_of_a_node_is_multiplied_by_the_weight_of_its_class():
    task, learns = Classification(class_weights=(0.5, 3.0)), torch.ones(2, 1, dtype=torch.bool)
    loss = task.loss(torch.zeros(2, 1, 2), torch.tensor([0, 1]), learns)
    assert loss == pytest.approx((0.5 + 3.0) / 2 * np.log(2.0))


def test_the_reward_of_a_target_is_multiplied_by_the_weight_of_its_class():
    label = torch.tensor([1, 0, 1])
    assert reward_weight(Classification(class_weights=(0.5, 3.0)), label).tolist() == [3.0, 0.5, 3.0]
    assert reward_weight(CLASSIFICATION, label).tolist() == [1.0]


def test_weights_come_from_training_nodes_alone():
    graph = Graph.build([[0], [1]], torch.eye(6), [0, 0, 0, 1, 1, 1], split=[1, 1, 1, 1, 2, 3])
    config = Config(task=TaskSettings(class_weight="balanced"))
    assert learned_task(graph, config, 0).class_weights == pytest.approx((4 / 6, 4 / 2))
    assert learned_task(graph, Config(), 0) is CLASSIFICATION


# --- metrics ---


def test_another_metric_sees_a_class_that_is_never_predicted():
    assert CLASSIFICATION.quality(RARE, TRUTH) == 0.75
    assert classification_by("macro_f1").quality(RARE, TRUTH) == pytest.approx(6 / 7 / 2)
    assert classification_by("average_precision").quality(RARE, TRUTH) == 1.0
    assert classification_by("roc_auc").quality(RARE, TRUTH) == 1.0
    loss = -(6 * np.log(0.9) + 2 * np.log(0.2)) / 8
    assert classification_by("log_loss").quality(RARE, TRUTH) == pytest.approx(-loss)


def test_predictions_are_compared_by_the_metric_and_not_by_hits():
    truth = torch.tensor([0] * 90 + [1] * 10)
    never = torch.tensor([[0.9, 0.1]] * 100)
    finds = torch.where((truth == 1)[:, None], torch.tensor([0.2, 0.8]), torch.tensor([0.9, 0.1]))
    finds[:20] = torch.tensor([0.4, 0.6])  # twenty false alarms for ten that are found
    assert not compare(CLASSIFICATION, finds, never, truth).exceeds(0.0)
    for metric in ("macro_f1", "average_precision", "roc_auc"):
        lead = compare(classification_by(metric), finds, never, truth)
        assert lead.exceeds(1.0)
        assert not compare(classification_by(metric), never, finds, truth).exceeds(0.0)


def test_a_ranking_metric_needs_two_classes_among_validation_nodes():
    graph = Graph.build([[0], [1]], torch.eye(4), [0, 1, 0, 1], split=[1, 1, 2, 3])
    config = Config().with_values({"training": {"metric": "roc_auc"}})
    with pytest.raises(
        GraphError, match=r"^validation nodes must be of two classes or more for --metric roc_auc"
    ):
        learned_task(graph, config, 0)


@pytest.mark.parametrize(
    "change", [{"task": {"class_weight": "balanced"}}, {"training": {"metric": "roc_auc"}}]
)
def test_class_weights_and_metrics_are_for_classification(change):
    with pytest.raises(ConfigError, match=r"are for classification, found .* for the task links$"):
        Config(task=TaskSettings(kind="links")).with_values(change)


@pytest.mark.slow
def test_a_model_names_the_metric_that_it_was_chosen_by_and_keeps_it(tmp_path):
    graph = noisy_graph()
    config = Config().with_values(QUICK).with_values({"training": {"metric": "macro_f1"}})
    model = GDPNet.from_config(config.with_values({"task": {"class_weight": "balanced"}}), device="cpu").fit(
        graph
    )
    assert {line["metric"] for line in model.history_} == {"macro_f1"}
    assert model.threshold_.metric == "macro_f1"
    model.save(tmp_path / "model.safetensors")
    back = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert back.score(graph) == model.score(graph) == back.predictor(graph).evaluate()["macro_f1"]
    assert back.config_.task.class_weight == "balanced"


# --- regression ---


def number_graph(nodes: int = 150) -> Graph:
    """Return a chain of nodes whose numbers ascend, and which one of two features tells."""
    rng, hidden = np.random.default_rng(0), np.linspace(-1.0, 1.0, nodes)
    features = np.stack([hidden + rng.normal(0.0, 0.2, nodes), rng.normal(size=nodes)], axis=1)
    chain = [np.arange(nodes - 1), np.arange(1, nodes)]
    split = np.array([1, 1, 1, 2, 3])[rng.permutation(nodes) % 5]
    ids = [f"n{number}" for number in range(nodes)]
    return Graph.build(chain, features, targets=50.0 + 10.0 * hidden, split=split, node_ids=ids)


@pytest.fixture(scope="module")
def fitted() -> tuple[GDPNet, Graph]:
    """Return a model of regression and its graph."""
    graph = number_graph()
    config = Config(task=TaskSettings(kind="regression", bins=16)).with_values(QUICK)
    config = config.with_values({"features": {"normalise": "none"}})
    return GDPNet.from_config(config, device="cpu").fit(graph), graph


@pytest.mark.slow
def test_a_number_is_predicted_for_each_node_and_lies_between_its_quantiles(fitted):
    model, graph = fitted
    predictor = model.predictor(graph)
    found, interval = predictor.predict(), predictor.interval()
    assert found.shape == (graph.num_nodes,)
    assert found.dtype == np.float32
    assert (interval[:, 0] < found).all()
    assert (found < interval[:, 1]).all()


@pytest.mark.slow
def test_regression_is_scored_by_r2_beside_the_mean(fitted):
    model, graph = fitted
    scores = model.predictor(graph).evaluate()
    assert model.score(graph) == pytest.approx(scores["r2"], abs=1e-6)
    assert scores["r2"] > 0.3 > scores["mean_predictor"]["r2"]
    assert scores["intervals"]["r2"][0] <= scores["r2"] <= scores["intervals"]["r2"][1]
    assert {line["metric"] for line in model.history_} == {"r2"}


@pytest.mark.slow
def test_a_saved_model_of_regression_predicts_the_same(fitted, tmp_path):
    model, graph = fitted
    model.save(tmp_path / "model.safetensors")
    back = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert back.trained_.task == model.trained_.task
    assert np.array_equal(back.predict(graph), model.predict(graph))
    assert len(back.denoise(graph).kept) == graph.num_edges
    assert back.explain(graph, graph.node_ids[0]) == model.explain(graph, graph.node_ids[0])


@pytest.mark.slow
def test_an_explanation_of_regression_adds_up_to_the_predicted_number(fitted):
    model, graph = fitted
    predictor = model.predictor(graph)
    predicted, size = predictor.predict(), float(graph.targets.abs().max())
    stories = list(predictor.explain_nodes())
    assert max(abs(one.prediction - one.prediction_alone) for one in stories) > 0.01 * size
    for number, story in enumerate(stories):
        assert story.prediction == pytest.approx(predicted[number], abs=1e-6 * size)
        total = story.prediction_alone + sum(one.contribution for one in story.decisions)
        assert total == pytest.approx(story.prediction, abs=1e-9 * size)
        heads = sum(head.weight * head.prediction for head in story.heads)
        assert heads == pytest.approx(story.prediction, abs=1e-5 * size)
        assert (story.probability, story.probability_alone) == (None, None)
        assert float(story.predicted) == pytest.approx(predicted[number], rel=1e-4)
        assert float(story.label) == pytest.approx(float(graph.targets[number]), rel=1e-4)


@pytest.mark.slow
def test_an_explanation_of_regression_speaks_of_numbers(fitted):
    model, graph = fitted
    story = model.explain(graph, "n7")
    first, second = str(story).splitlines()[:2]
    number = float(first.removeprefix("node n7: predicted ").split(" ")[0])
    assert number == pytest.approx(story.prediction, rel=1e-4)
    assert first.endswith(f"(label {story.label})")
    shown, _, alone, _, change, *_ = second.split()
    assert float(shown) == number
    assert float(alone) + float(change) == pytest.approx(number, rel=1e-4)
    assert "probability" not in str(story) + story.title
    assert "same bin" in story.decisions[0].evidence


@pytest.mark.slow
def test_a_graph_without_numbers_is_predicted_but_not_scored(fitted):
    model, graph = fitted
    unknown = replace(graph, targets=None)
    assert np.array_equal(model.predict(unknown), model.predict(graph))
    with pytest.raises(GraphError, match="no labelled test node"):
        model.score(unknown)


def test_regression_needs_numbers_that_differ():
    graph = Graph.build([[0], [1]], torch.eye(4), targets=[2.0] * 4, split=[1, 1, 2, 3])
    with pytest.raises(GraphError, match=r"^training nodes must have different numbers, found 2 alone$"):
        GDPNet(task="regression", device="cpu").fit(graph)


def test_numbers_are_not_learned_as_classes():
    graph = Graph.build([[0], [1]], torch.eye(4), targets=[2.5, 1.0, 2.0, 3.0], split=[1, 1, 2, 3])
    with pytest.raises(GraphError, match="use --task regression"):
        GDPNet(device="cpu").fit(graph)


def test_regression_without_a_number_to_learn_is_refused():
    graph = noisy_graph(20)
    unknown = replace(graph, targets=torch.full((graph.num_nodes,), torch.nan))
    with pytest.raises(GraphError, match="at least one training node must have a label, found none"):
        GDPNet(task="regression").fit(unknown)
