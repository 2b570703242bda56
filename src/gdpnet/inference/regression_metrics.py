"""Scores of predicted numbers, each with a bootstrap interval, beside those of the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

RESAMPLES = 500
_TAIL = 2.5
_AT_ONCE = 1 << 22


def regression_scores(
    predicted: Float[np.ndarray, "nodes"],
    truth: Float[np.ndarray, "nodes"],
    mean: float,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return R2, mean absolute error and root mean squared error, with 95 % intervals over nodes.

    ``mean_predictor`` holds the scores of predicting ``mean`` for every node.
    """
    nodes, rng = len(truth), np.random.default_rng(seed)
    size, drawn = max(1, _AT_ONCE // max(1, nodes)), []
    for first in range(0, resamples, size):
        count = min(size, resamples - first)
        weights = rng.multinomial(nodes, np.full(nodes, 1.0 / nodes), count).astype(np.float64)
        drawn.append(_scores(predicted, truth, weights))
    found = {name: float(value[0]) for name, value in _scores(predicted, truth, np.ones((1, nodes))).items()}
    intervals = {}
    for name in found:
        values = np.concatenate([one[name] for one in drawn]) if drawn else np.zeros(0)
        if np.isfinite(values).any():
            intervals[name] = np.nanpercentile(values, [_TAIL, 100.0 - _TAIL]).tolist()
    constant = _scores(np.full(nodes, mean), truth, np.ones((1, nodes)))
    beside = {name: _plain(float(value[0])) for name, value in constant.items()}
    scores = {name: _plain(value) for name, value in found.items()}
    return scores | {"intervals": intervals, "mean_predictor": beside}


def _scores(
    predicted: Float[np.ndarray, "nodes"],
    truth: Float[np.ndarray, "nodes"],
    weights: Float[np.ndarray, "resamples nodes"],
) -> dict[str, Float[np.ndarray, "resamples"]]:
    error, total = predicted.astype(np.float64) - truth, weights.sum(axis=1)
    squared = weights @ error**2 / total
    variance = weights @ truth.astype(np.float64) ** 2 / total - (weights @ truth / total) ** 2
    explained = 1.0 - squared / np.where(variance > 0, variance, np.nan)
    return {"r2": explained, "mae": weights @ np.abs(error) / total, "rmse": np.sqrt(squared)}


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value
