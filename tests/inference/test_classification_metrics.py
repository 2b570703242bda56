"""Scores of class probabilities agree with scikit-learn's, and say how sure they are."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, log_loss, roc_auc_score

from gdpnet.inference.classification_metrics import classification_scores


def _drawn(classes: int, nodes: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    truth = rng.integers(0, classes, nodes)
    score = rng.random((nodes, classes)).round(1) + 0.05 + 0.4 * np.eye(classes)[truth]
    return score / score.sum(axis=1, keepdims=True), truth


def test_scores_of_several_classes_are_those_of_scikit_learn() -> None:
    probabilities, truth = _drawn(4)
    scores, one_hot = (
        classification_scores(probabilities, truth, list("abcd"), resamples=20),
        np.eye(4)[truth],
    )
    assert scores["macro_f1"] == pytest.approx(f1_score(truth, probabilities.argmax(axis=1), average="macro"))
    assert scores["average_precision"] == pytest.approx(average_precision_score(one_hot, probabilities))
    assert scores["roc_auc"] == pytest.approx(roc_auc_score(one_hot, probabilities))
    assert scores["log_loss"] == pytest.approx(log_loss(truth, probabilities))


def test_the_rarer_of_two_classes_is_ranked() -> None:
    probabilities, truth = _drawn(2)
    truth[:350] = 0
    scores = classification_scores(probabilities, truth, ["ok", "fraud"], resamples=5)
    assert scores["average_precision"] == pytest.approx(average_precision_score(truth, probabilities[:, 1]))


def test_calling_everything_ok_has_a_high_micro_and_a_low_macro_f1() -> None:
    truth = np.array([0] * 98 + [1] * 2)
    scores = classification_scores(np.tile([0.9, 0.1], (100, 1)), truth, ["ok", "fraud"])
    assert scores["micro_f1"] == 0.98
    assert scores["macro_f1"] == pytest.approx(0.4949, abs=1e-4)
    assert scores["per_class"]["fraud"]["recall"] == 0.0
    assert scores["roc_auc"] == 0.5


def test_unknown_classes_count_as_wrong_and_have_a_row_of_their_own() -> None:
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    scores = classification_scores(probabilities, np.array([0, 1, -1]), ["a", "b"], resamples=5)
    assert scores["micro_f1"] == pytest.approx(2 / 3)
    assert scores["confusion"]["counts"] == [[1, 0], [0, 1], [1, 0]]


def test_intervals_hold_the_score_and_narrow_with_more_nodes() -> None:
    few, many = (
        classification_scores(*_drawn(3, nodes), list("abc"))["intervals"]["micro_f1"] for nodes in (50, 2000)
    )
    assert few[1] - few[0] > 2 * (many[1] - many[0])
    probabilities, truth = _drawn(3)
    scores = classification_scores(probabilities, truth, list("abc"))
    for name, (low, high) in scores["intervals"].items():
        assert low <= scores[name] <= high or name == "calibration_error"


def test_resamples_without_a_class_do_not_count_as_failures() -> None:
    truth = np.array([0] + [1] * 11)
    scores = classification_scores(np.eye(2)[truth], truth, ["a", "b"])
    assert scores["intervals"]["average_precision"] == [1.0, 1.0]


def test_perfect_confident_predictions_are_calibrated() -> None:
    truth = np.array([0, 1, 1, 0])
    scores = classification_scores(np.eye(2)[truth], truth, ["a", "b"], resamples=5)
    assert scores["calibration_error"] == 0.0
    assert scores["log_loss"] == pytest.approx(0.0, abs=1e-6)
