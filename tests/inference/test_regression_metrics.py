"""Scores of predicted numbers, against numbers worked by hand and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from gdpnet.inference.regression_metrics import regression_scores


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.normal(5.0, 2.0, 200)
    predicted = truth + rng.normal(0.0, 1.0, 200)
    found = regression_scores(predicted, truth, 5.0)
    assert found["r2"] == pytest.approx(r2_score(truth, predicted))
    assert found["mae"] == pytest.approx(mean_absolute_error(truth, predicted))
    assert found["rmse"] == pytest.approx(root_mean_squared_error(truth, predicted))
    assert found["mean_predictor"]["mae"] == pytest.approx(mean_absolute_error(truth, np.full(200, 5.0)))
    for name in ("r2", "mae", "rmse"):
        low, high = found["intervals"][name]
        assert low < found[name] < high


def test_one_node_has_errors_but_no_r2():
    found = regression_scores(np.array([3.0]), np.array([1.0]), 1.0)
    assert (found["r2"], found["mae"], found["rmse"]) == (None, 2.0, 2.0)
    assert found["mean_predictor"]["mae"] == 0.0
    assert "r2" not in found["intervals"]
