"""Evaluation: what a cleaning kept and removed, calibration and scores, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.benchmark.evaluation import (
    calibration,
    describe_cleaning,
    evaluate,
    f1_on_test,
    link_metrics,
    selected_shares,
)
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.inference.denoised import Denoised
from helpers.small import fitted, noisy_graph

# the path 0 - 1 - 2 - 3, its last link spurious; node 2's label is wrong, node 3's is not known; 3 and 4 to test
PATH = Graph.build(
    [[0, 1, 2], [1, 2, 3]],
    np.eye(5),
    [0, 0, 1, -1, 1],
    spurious=[False, False, True],
    clean_labels=[0, 0, 0, -1, 1],
    split=[1, 2, 3, 3, 3],
)
# edges by target: 1->0 | 0->1 2->1 | 1->2 3->2 | 2->3
CHANCES = np.array([0.9, 0.8, 0.4, 0.6, 0.45, 0.1])


def cleaned(graph: Graph, chances: np.ndarray, threshold: float = 0.5) -> Denoised:
    kept = chances >= threshold
    return Denoised(graph.keep_edges(torch.from_numpy(kept)), chances, kept, threshold, "as asked for")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph)


def test_what_a_cleaning_kept_and_removed_is_counted_by_hand():
    found = describe_cleaning(PATH, cleaned(PATH, CHANCES))
    assert found == {
        "edges": 6,
        "kept_share": pytest.approx(3 / 6),
        "kept_same_class": pytest.approx(3 / 4),  # by clean labels 1->0, 0->1, 2->1 and 1->2; not 2->1
        "kept_cross_class": None,  # the label of node 3 is not known
        "spurious_removed": pytest.approx(2 / 2),  # 3->2 and 2->3
        "genuine_kept": pytest.approx(3 / 4),
        # pairs of a genuine and a spurious edge: .9 .8 .4 .6 over .45 wins 3, over .1 wins 4
        "keep_auc": pytest.approx(7 / 8),
        # tenths: .9 .8 .6 alone and genuine; .4 and .45, one genuine; .1 alone and spurious
        "keep_calibration_error": pytest.approx((0.1 + 0.2 + 0.4 + 2 * (0.5 - 0.425) + 0.1) / 6),
    }


def test_genuine_probabilities_are_scored_too():
    chances = np.array([0.95, 0.85, 0.75, 0.65, 0.55, 0.7])
    known = replace(cleaned(PATH, CHANCES), genuine_probability=chances)
    found = describe_cleaning(PATH, known)
    assert found["genuine_auc"] == pytest.approx(7 / 8)  # of eight pairs .65 loses to .7
    # tenths: .95 .85 .65 alone and genuine, .55 alone and spurious, .75 and .7 together
    expected = (0.05 + 0.15 + 0.35 + 0.55 + 2 * (0.725 - 0.5)) / 6
    assert found["genuine_calibration_error"] == pytest.approx(expected)
    assert calibration(PATH, known)["genuine_auc"] == found["genuine_auc"]


def test_without_known_noise_classes_are_those_of_the_labels():
    plain = replace(PATH, truth=None)
    found = describe_cleaning(plain, cleaned(plain, CHANCES))
    assert set(found) == {"edges", "kept_share", "kept_same_class", "kept_cross_class"}
    assert found["kept_same_class"] == pytest.approx(2 / 2)  # 1->0 and 0->1
    assert found["kept_cross_class"] == pytest.approx(1 / 2)  # 1->2 of 2->1 and 1->2


def test_a_graph_without_edges_has_no_shares():
    bare = Graph.build([[], []], np.eye(2), [0, 1])
    found = describe_cleaning(bare, cleaned(bare, np.zeros(0)))
    assert found == {"edges": 0, "kept_share": None, "kept_same_class": None, "kept_cross_class": None}


def test_the_share_that_each_node_selected_leaves_out_nodes_without_neighbours():
    assert selected_shares(PATH, cleaned(PATH, CHANCES)).tolist() == [1.0, 0.5, 0.5, 0.0]


def test_an_evaluation_is_the_score_of_a_split_and_the_cleaning(model, graph):
    found = evaluate(model.predictor(graph), "validation")
    assert found["split"] == "validation"
    assert found["nodes"] == 16
    assert found["micro_f1"] == model.score(graph, "validation")
    described = describe_cleaning(graph, model.denoise(graph))
    assert {name: found[name] for name in described} == described


def test_kept_edges_are_measured_by_class_and_against_known_noise():
    assert link_metrics(PATH, CHANCES, CHANCES >= 0.43) == {
        "kept_share": pytest.approx(4 / 6),
        "kept_same_class": pytest.approx(3 / 4),  # by clean labels 1->0, 0->1, 2->1 and 1->2; not 2->1
        "kept_cross_class": None,  # the label of node 3 is not known
        # pairs of a genuine and a spurious edge: .9 .8 .4 .6 over .45 wins 3, over .1 wins 4
        "link_auc": pytest.approx(7 / 8),
        "removed_precision": pytest.approx(1 / 2),  # of 2->1 and 2->3 the latter is spurious
        "removed_recall": pytest.approx(1 / 2),  # of 3->2 and 2->3 the latter is removed
    }


def test_without_known_noise_kept_edges_are_measured_by_labels_alone():
    found = link_metrics(replace(PATH, truth=None), CHANCES, CHANCES >= 0.43)
    assert set(found) == {"kept_share", "kept_same_class", "kept_cross_class"}
    assert found["kept_same_class"] == 1.0  # 1->0 and 0->1
    assert found["kept_cross_class"] == pytest.approx(1 / 2)  # 1->2, not 2->1


def test_where_nothing_is_removed_there_is_no_share_of_it():
    found = link_metrics(PATH, CHANCES, np.ones(6, dtype=bool))
    assert found["removed_precision"] is None
    assert found["removed_recall"] == 0.0


def test_calibration_is_the_squared_error_and_the_share_of_genuine_edges_per_bin():
    chances = np.array([0.92, 0.98, 0.48, 0.65, 0.42, 1.0])
    found = calibration(PATH, cleaned(PATH, chances))
    # genuine are the first four: misses .08 .02 .52 .35, and .42 and 1 of the spurious ones
    squares = [0.0064, 0.0004, 0.2704, 0.1225, 0.1764, 1.0]
    assert found["brier"] == pytest.approx(sum(squares) / 6)
    # tenths from .4: .48 and .42, one genuine; from .6: .65; from .9: .92, .98 and 1, two genuine
    assert found["reliability"] == [[0.45, 0.5, 2], [0.65, 1.0, 1], [0.9667, 0.6667, 3]]


@pytest.mark.parametrize("graph", [replace(PATH, truth=None), Graph.build([[0], [1]], np.eye(2), [0, 1])])
def test_without_spurious_edges_there_is_no_calibration(graph):
    assert calibration(graph, cleaned(graph, np.full(graph.num_edges, 0.5))) == {}


def test_test_nodes_are_scored_against_clean_labels_where_these_are_known():
    logits = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    # of the test nodes 2 is truly 0, 3 has no label, 4 is 1
    assert f1_on_test(PATH, logits) == 0.5
    assert f1_on_test(replace(PATH, truth=None), logits) == 0.0
    with pytest.raises(ConfigError, match="at least one test node must have a label to score on"):
        f1_on_test(PATH.induced(torch.tensor([0, 1])), logits[:2])
