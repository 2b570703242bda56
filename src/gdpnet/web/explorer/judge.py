"""What a run is judged by: scores, curves over the threshold, ROC, calibration, classes, training, settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from gdpnet.benchmark.evaluation import describe_cleaning, evaluate, reliability, true_labels
from gdpnet.benchmark.score_tables import NESTED, confusion_table, curve_names, per_class_table
from gdpnet.config import Config, toml_text
from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GDPNetError
from gdpnet.inference.denoised import Denoised
from gdpnet.inference.predictor import LabelPredictor, Predictor
from gdpnet.representation.tasks import Classification
from gdpnet.web.explorer.packing import pack

_MOST_POINTS = 200
"""Points of a ROC curve."""

_BINS = 50
"""Bins of the histogram of keep probabilities."""

_TINY = 0.01
"""Below a threshold of this size there are others to choose."""

_WIDEST = 20
"""Classes of a matrix; with more, the rarest are left out. Confusion matrices of more are left out."""

_MOST_CURVES = 8
"""Classes with a ROC curve of their own."""


def make_judge(
    predictor: Predictor, cleaned: Denoised, found: Float[Tensor, "nodes classes"] | None
) -> dict[str, Any]:
    """Return all figures and tables of the page that are about the whole graph."""
    graph, grid = predictor.graph, thresholds_of(predictor.model.threshold.threshold)
    keep = cleaned.keep_probability
    names, group = _classes(predictor, found)
    judged = {
        "scores": _scores(predictor, cleaned),
        "thresholds": _over_thresholds(graph, keep, grid),
        "histogram": _histogram(graph, keep, grid),
        "matrix": _removed_matrix(graph, keep, grid, names, group),
        "edges": _edge_curves(graph, cleaned),
        "predictions": _prediction_curves(predictor, found),
        "training": _training(predictor.model.history, predictor.model.best_epoch),
        "settings": _settings(predictor.model.config),
    }
    return {name: value for name, value in judged.items() if value is not None}


def thresholds_of(own: float) -> np.ndarray:
    """Return the thresholds that a reader can choose: hundredths, the model's own, and others near a tiny one."""
    usual = np.arange(101) / 100
    if 0 < own < _TINY:
        lowest = max(-30, math.floor(math.log10(own)) - 2)
        tiny = [digit * 10.0**power for power in range(lowest, -2) for digit in (1, 2, 5)]
        usual = np.concatenate(
            [tiny, usual[::5]]
        )  # fewer of the large ones, between which there is little to choose
    return np.unique(np.concatenate([usual, [own]]))


def _scores(predictor: Predictor, cleaned: Denoised) -> dict[str, Any]:
    """Return the metrics as `gdpnet evaluate` reports them; those of the cleaned graph if no node can be scored."""
    try:
        metrics, remark = evaluate(predictor), ""
    except GDPNetError as error:
        metrics, remark = describe_cleaning(predictor.graph, cleaned), str(error)
    intervals = metrics.get("intervals") or {}
    rows = [
        (name.replace("_", " "), _text(value), " to ".join(f"{one:.4g}" for one in intervals.get(name, ())))
        for name, value in metrics.items()
        if name not in NESTED
    ]
    tables = [{"title": "Scores", "header": ["score", "value", "95 % interval"], "rows": rows}]
    for title, name, make in (
        ("Scores per class", "per_class", per_class_table),
        ("Confusion: a row per true class, a column per predicted one", "confusion", confusion_table),
    ):
        one = metrics.get(name)
        if one and (name != "confusion" or len(one["classes"]) <= _WIDEST):
            header, cells = make(one)
            said = [[_text(cell) for cell in row] for row in cells]
            tables.append({"title": title, "header": [str(cell) for cell in header], "rows": said})
    return {"tables": tables, "remark": remark}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _kept_counts(
    keep: Float[np.ndarray, "edges"], grid: Float[np.ndarray, "grid"], some: Bool[np.ndarray, "edges"]
) -> list[int]:
    """Return how many of some edges each threshold keeps."""
    values = np.sort(keep[some])
    # a threshold keeps what is not below it, in the precision of the probabilities
    return (values.size - np.searchsorted(values, grid.astype(values.dtype), side="left")).tolist()


def _over_thresholds(
    graph: Graph, keep: Float[np.ndarray, "edges"], grid: Float[np.ndarray, "grid"]
) -> dict[str, Any]:
    """Return how many edges each threshold keeps: all, those within a class, those known to be genuine or not."""
    labels, target, neighbour = true_labels(graph).numpy(), graph.target.numpy(), graph.neighbour.numpy()
    known = (labels[target] != UNKNOWN) & (labels[neighbour] != UNKNOWN)
    same = labels[target] == labels[neighbour]
    groups = {"all": np.ones(keep.size, dtype=bool), "same_class": known & same, "cross_class": known & ~same}
    truth = graph.truth
    if truth is not None and bool(truth.spurious.any()):
        groups |= {"spurious": truth.spurious.numpy(), "genuine": ~truth.spurious.numpy()}
    kept = {name: _kept_counts(keep, grid, some) for name, some in groups.items() if some.any()}
    return {"threshold": grid.tolist(), "kept": kept}


def _histogram(
    graph: Graph, keep: Float[np.ndarray, "edges"], grid: Float[np.ndarray, "grid"]
) -> dict[str, Any]:
    """Return how many edges have a keep probability in each bin; known noise is counted apart.

    If there are tiny thresholds, bins are as narrow as these are close, and their ends are returned too.
    """
    noise = np.zeros(keep.size, dtype=bool) if graph.truth is None else graph.truth.spurious.numpy()
    uneven = 0 < grid[1] < _TINY
    ends = grid if uneven else np.arange(_BINS + 1) / _BINS
    count = ends.size - 1
    bins = np.searchsorted(ends[1:-1].astype(keep.dtype), keep, side="right")
    counts = [np.bincount(bins[some], minlength=count).tolist() for some in (~noise, noise)]
    found = {"bins": count, "other": counts[0], "spurious": counts[1]}
    return found | ({"edges": ends.tolist()} if uneven else {})


def _classes(
    predictor: Predictor, found: Float[Tensor, "nodes classes"] | None
) -> tuple[list[str], np.ndarray]:
    """Return the names of the classes, and that of each node by number: its label, else what is predicted."""
    graph, model = predictor.graph, predictor.model
    if not isinstance(model.task, Classification) or found is None:
        return [str(name) for name in graph.class_names], graph.labels.numpy()
    known = model.labels_of(graph)
    group = torch.where(known == UNKNOWN, found.argmax(dim=1), known).numpy()
    return [str(name) for name in model.classes], group


def _removed_matrix(
    graph: Graph,
    keep: Float[np.ndarray, "edges"],
    grid: Float[np.ndarray, "grid"],
    names: list[str],
    group: np.ndarray,
) -> dict[str, Any] | None:
    """Return how many edges lead from each class to each, and how many of them each threshold removes."""
    if graph.targets is not None or len(names) < 2 or not keep.size:
        return None
    size = np.bincount(group[group >= 0], minlength=len(names))
    shown = np.sort(np.argsort(-size, kind="stable")[:_WIDEST])
    place = np.full(len(names) + 1, -1)
    place[shown] = np.arange(shown.size)
    row, column = place[group[graph.target.numpy()]], place[group[graph.neighbour.numpy()]]
    there, width = (row >= 0) & (column >= 0), shown.size
    cell = row[there] * width + column[there]
    total = np.bincount(cell, minlength=width * width)
    first = np.searchsorted(
        grid.astype(keep.dtype), keep[there], side="right"
    )  # the first that removes the edge
    flat = np.bincount(first * width * width + cell, minlength=(grid.size + 1) * width * width)
    removed = flat.reshape(grid.size + 1, width * width).cumsum(axis=0)[: grid.size]
    return {
        "classes": [names[one] for one in shown],
        "total": total.tolist(),
        "removed": pack(removed.flatten(), "u4"),
    }


def _edge_curves(graph: Graph, cleaned: Denoised) -> dict[str, Any] | None:
    """Return ROC and reliability of both probabilities against the known noise; None without any."""
    genuine = None if graph.truth is None else ~graph.truth.spurious.numpy()
    if genuine is None or genuine.all() or not genuine.any():
        return None
    scores = {"keep probability": cleaned.keep_probability}
    if cleaned.genuine_probability is not None:
        scores["genuine probability"] = cleaned.genuine_probability
    return _curves({name: (genuine, score) for name, score in scores.items()})


def _prediction_curves(
    predictor: Predictor, found: Float[Tensor, "nodes classes"] | None
) -> dict[str, Any] | None:
    """Return ROC of each class, and reliability of the predicted class, on labelled test nodes."""
    graph, model = predictor.graph, predictor.model
    if (
        found is None
        or not isinstance(predictor, LabelPredictor)
        or not isinstance(model.task, Classification)
    ):
        return None
    label = model.labels_of(graph)
    nodes = graph.nodes_in("test")
    nodes = nodes[label[nodes] != UNKNOWN]
    if not nodes.numel():
        return None
    chance, truth = found[nodes].double().numpy(), label[nodes].numpy()
    size = np.bincount(truth, minlength=len(model.classes))
    largest = np.sort(np.argsort(-size, kind="stable")[:_MOST_CURVES])
    of_class = {str(model.classes[one]): (truth == one, chance[:, one]) for one in largest}
    right = chance.argmax(axis=1) == truth
    return {
        "roc": _curves(of_class)["roc"],
        "calibration": [_bins("predicted class", right, chance.max(axis=1))],
    }


def _curves(scored: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Return ROC and reliability of scores by name; those of one kind alone have none."""
    both = {name: pair for name, pair in scored.items() if pair[0].any() and not pair[0].all()}
    roc = []
    for name, (positive, score) in both.items():
        false, true, _ = roc_curve(positive, score)
        some = np.unique(np.linspace(0, false.size - 1, _MOST_POINTS).round().astype(int))
        auc = float(roc_auc_score(positive, score))
        points = {"x": _rounded(false[some]), "y": _rounded(true[some])}
        roc.append({"name": name, "auc": auc, **points})
    return {"roc": roc, "calibration": [_bins(name, *pair) for name, pair in both.items()]}


def _bins(name: str, positive: np.ndarray, score: np.ndarray) -> dict[str, Any]:
    mean, share, count = reliability(score, positive)
    full = count > 0
    points = {"x": _rounded(mean[full]), "y": _rounded(share[full]), "count": count[full].tolist()}
    error = float((np.abs(mean - share) * count).sum() / max(1, count.sum()))
    return {"name": name, "error": error, **points}


def _rounded(values: np.ndarray) -> list[float]:
    return values.astype(np.float64).round(5).tolist()


def _training(history: tuple[dict[str, Any], ...], best: int) -> dict[str, Any] | None:
    """Return what was measured in every epoch, by its name in words."""
    if not history:
        return None
    curves = [
        {"name": title, "y": [line.get(key) for line in history]}
        for key, title in curve_names(str(history[-1].get("metric") or "micro_f1")).items()
        if any(line.get(key) is not None and not math.isnan(line[key]) for line in history)
    ]
    return {"epoch": [line.get("epoch") for line in history], "best": best, "curves": curves}


def _settings(config: Config) -> list[list[Any]]:
    """Return name, value and default of every setting."""
    usual = Config().to_dict()
    return [
        [f"{section}.{key}", toml_text(value), toml_text(usual[section][key])]
        for section, values in config.to_dict().items()
        for key, value in values.items()
    ]
