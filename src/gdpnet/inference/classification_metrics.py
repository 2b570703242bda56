"""Scores of class probabilities against true classes, each with a bootstrap interval.

Every score is a function of weights per node: ones for the score itself, counts of drawn nodes for a resample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

RESAMPLES = 500
_TAIL = 2.5
_BINS = 10
_SMALLEST = 1e-7
_AT_ONCE = 1 << 22
_MOST_DRAWS = 5_000_000
_FEW = 10

Probabilities = Float[np.ndarray, "nodes classes"]
Truth = Int[np.ndarray, "nodes"]
"""Class numbers; a class that the model does not know is -1 and counts as wrong."""
Weights = Float[np.ndarray, "resamples nodes"]


def classification_scores(
    probabilities: Probabilities,
    truth: Truth,
    classes: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return F1, ranking scores, log loss and calibration, scores per class, and the confusion matrix.

    ``intervals`` holds a 95 % bootstrap interval over nodes for each score of all classes. Ranking scores are the
    mean over classes of one class against the others, or of the rarer one of two classes.
    """
    ones = np.ones((1, len(truth)))
    found = {name: measure(probabilities, truth, ones)[0] for name, measure in MEASURES.items()}
    scores = {name: None if np.isnan(value) else float(value) for name, value in found.items()}
    rng, size = np.random.default_rng(seed), max(1, _AT_ONCE // max(1, len(truth)))
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in MEASURES}
    resamples = 0 if len(truth) < _FEW else resamples  # a bootstrap over a few nodes is far too sure
    resamples = min(resamples, max(100, _MOST_DRAWS // max(1, len(truth)))) if resamples else 0
    for first in range(0, resamples, size):
        count = min(size, resamples - first)
        weights = rng.multinomial(len(truth), np.full(len(truth), 1.0 / len(truth)), count).astype(np.float64)
        for name, measure in MEASURES.items():
            drawn[name].append(measure(probabilities, truth, weights))
    intervals = {
        name: np.nanpercentile(np.concatenate(values), [_TAIL, 100.0 - _TAIL]).tolist()
        for name, values in drawn.items()
        if scores[name] is not None and values
    }
    counts = _confusion(probabilities, truth, ones)[0].astype(int)
    return {
        **scores,
        "intervals": intervals,
        "per_class": _per_class(counts, probabilities, truth, classes),
        "confusion": {"classes": [str(name) for name in classes], "counts": counts.tolist()},
    }


def f1_scores(scores: Probabilities, truth: Truth) -> tuple[float, float]:
    """Return micro and macro F1 of the classes with the highest scores."""
    ones = np.ones((1, len(truth)))
    return float(_micro_f1(scores, truth, ones)[0]), float(_macro_f1(scores, truth, ones)[0])


def _confusion(
    probabilities: Probabilities, truth: Truth, weights: Weights
) -> Float[np.ndarray, "resamples rows classes"]:
    """Return counts with a row per true class and a column per predicted one; the last row is for unknown classes."""
    classes = probabilities.shape[1]
    place = np.where(truth < 0, classes, truth) * classes + probabilities.argmax(axis=1)
    counts = np.stack([np.bincount(place, weights=row, minlength=(classes + 1) * classes) for row in weights])
    return counts.reshape(-1, classes + 1, classes)


def _micro_f1(probabilities: Probabilities, truth: Truth, weights: Weights) -> Float[np.ndarray, "resamples"]:
    return weights @ (probabilities.argmax(axis=1) == truth) / weights.sum(axis=1)


def _macro_f1(probabilities: Probabilities, truth: Truth, weights: Weights) -> Float[np.ndarray, "resamples"]:
    """Return the mean F1 over the classes that occur among truth or predictions."""
    counts = _confusion(probabilities, truth, weights)
    hits = np.diagonal(counts, axis1=1, axis2=2)
    total = counts.sum(axis=1) + counts[:, :-1].sum(axis=2)
    return (2 * hits / np.maximum(total, 1.0)).sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1)


def _log_loss(probabilities: Probabilities, truth: Truth, weights: Weights) -> Float[np.ndarray, "resamples"]:
    chance = np.where(truth < 0, 0.0, probabilities[np.arange(len(truth)), truth.clip(min=0)])
    return weights @ -np.log(np.clip(chance, _SMALLEST, 1.0)) / weights.sum(axis=1)


def _calibration_error(
    probabilities: Probabilities, truth: Truth, weights: Weights
) -> Float[np.ndarray, "resamples"]:
    """Return the expected calibration error: |accuracy - confidence| over ten bins of confidence."""
    confidence, hit = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gap = np.stack([np.bincount(place, weights=(hit - confidence) * row, minlength=_BINS) for row in weights])
    return np.abs(gap).sum(axis=1) / weights.sum(axis=1)


def _ranking(own: np.ndarray, score: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Return average precision and ROC AUC of a score for a class against the others; NaN if one side is empty."""
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))  # equal scores are one threshold
    hits = np.cumsum(weights[:, order] * own[order], axis=1)[:, last]
    called = np.cumsum(weights[:, order], axis=1)[:, last]
    with np.errstate(invalid="ignore", divide="ignore"):
        recall, rate = hits / hits[:, -1:], (called - hits) / (called - hits)[:, -1:]
        precision = np.where(called > 0, hits / called, 1.0)
    gained = np.diff(recall, axis=1, prepend=0.0)
    area = (np.diff(rate, axis=1, prepend=0.0) * (recall - gained / 2)).sum(axis=1)
    return (gained * precision).sum(axis=1), area


def _rankings(which: int) -> Callable[[Probabilities, Truth, Weights], np.ndarray]:
    def mean(probabilities: Probabilities, truth: Truth, weights: Weights) -> Float[np.ndarray, "resamples"]:
        classes: Sequence[int] = range(probabilities.shape[1])
        if len(classes) == 2:
            classes = [int((truth == 1).sum() <= (truth == 0).sum())]
        present = [number for number in classes if 0 < (truth == number).sum() < len(truth)]
        if not present:
            return np.full(len(weights), np.nan)
        each = [_ranking(truth == number, probabilities[:, number], weights)[which] for number in present]
        known = (~np.isnan(each)).sum(axis=0)  # a class may be missing in a resample
        return np.where(known > 0, np.nansum(each, axis=0) / np.maximum(known, 1), np.nan)

    return mean


MEASURES: dict[str, Callable[[Probabilities, Truth, Weights], np.ndarray]] = {
    "micro_f1": _micro_f1,
    "macro_f1": _macro_f1,
    "average_precision": _rankings(0),
    "roc_auc": _rankings(1),
    "log_loss": _log_loss,
    "calibration_error": _calibration_error,
}
"""Scores of all classes; log loss and calibration error are better if smaller."""


def _per_class(
    counts: np.ndarray, probabilities: Probabilities, truth: Truth, classes: Sequence[str]
) -> dict[str, dict[str, Any]]:
    rows, ones = {}, np.ones((1, len(truth)))
    for number, name in enumerate(classes):
        hits, support, called = (
            int(counts[number, number]),
            int(counts[number].sum()),
            int(counts[:, number].sum()),
        )
        ranked = 0 < support < len(truth)
        rows[str(name)] = {
            "nodes": support,
            "predicted": called,
            "precision": hits / called if called else None,
            "recall": hits / support if support else None,
            "f1": 2 * hits / (called + support) if called + support else None,
            "average_precision": float(_ranking(truth == number, probabilities[:, number], ones)[0][0])
            if ranked
            else None,
        }
    return rows
