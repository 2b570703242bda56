"""A table that tells a user whether to trust a trained model: simple methods beside it, on the same nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.ensemble import HistGradientBoostingClassifier

from gdpnet._core.progress import part
from gdpnet._core.words import counted
from gdpnet.benchmark.baselines.methods import run_method
from gdpnet.config import METRICS, Config
from gdpnet.data.features import to_numpy
from gdpnet.data.graph import Graph, with_features
from gdpnet.data.validation import UNKNOWN
from gdpnet.estimator import GDPNet
from gdpnet.inference.classification_metrics import MEASURES, f1_scores
from gdpnet.inference.predictor import Predictor
from gdpnet.training.data import split_for_training

WIDEST_TREES = 512
"""Boosted trees are left out for more features than this, and for sparse ones."""

_SUSPECTED = (
    "training label is suspected to be wrong: look at it first",
    "training labels are suspected to be wrong: look at them first",
)
_BUDGET = 0.2
_NEARLY = 0.02
_SURELY_BEHIND = 0.01
_LEAST_VARIANCE = 0.01
_INTERVAL = 3.92
"""Standard errors in the width of a 95 % interval."""

Scores = Float[np.ndarray, "nodes classes"]
"""Class probabilities."""


@dataclass(frozen=True)
class Row:
    """The scores of a method on the nodes that the model is scored on."""

    method: str
    micro_f1: float | None
    macro_f1: float | None
    seconds: float
    remark: str = ""
    score: float | None = None
    """The score that the model was chosen by, if it is no F1."""


def check_model(
    model: GDPNet, predictor: Predictor, split: str, fit_seconds: float, budget: float = _BUDGET
) -> list[Row]:
    """Score simple methods beside a trained model; none is started once they took ``budget`` times the fit.

    All have the features, the training nodes and the split of the model. The last row is the model itself.
    """
    graph, start, rows = predictor.graph, time.perf_counter(), []
    nodes = graph.nodes_in(split)
    nodes = nodes[graph.labels[nodes] != UNKNOWN]
    truth = graph.labels[nodes].numpy()
    metric, methods = model.config_.training.metric, list(_methods(model, graph))
    for number, (name, fit) in enumerate(methods):
        begun = time.perf_counter()
        if begun - start > budget * fit_seconds:
            rows.append(Row(name, None, None, 0.0, "left out to save time"))
            continue
        with part(number, len(methods)):
            found = fit()
        spent = time.perf_counter() - begun
        if found is None:
            rows.append(Row(name, None, None, 0.0, "left out: too many features"))
        else:
            rows.append(_row(name, found[nodes.numpy()], truth, spent, metric))
    return [*rows, _row("GDPNet", predictor.probabilities(nodes), truth, fit_seconds, metric)]


def _row(
    name: str, probabilities: Scores, truth: Int[np.ndarray, "nodes"], seconds: float, metric: str
) -> Row:
    """Score a method, also by the metric of the model if it is no F1."""
    score = None
    if metric not in ("micro_f1", "macro_f1"):
        found = float(MEASURES[metric](probabilities, truth, np.ones((1, len(truth))))[0])
        score = None if np.isnan(found) else found
    return Row(name, *f1_scores(probabilities, truth), seconds, score=score)


def _methods(model: GDPNet, graph: Graph) -> Iterator[tuple[str, Callable[[], Scores | None]]]:
    yield "most frequent class", lambda: _majority(graph, model.seed)
    yield "logistic regression on features", lambda: _baseline("lr", model, graph)
    yield "GCN", lambda: _baseline("gcn", model, graph)
    yield "boosted trees on features", lambda: _trees(graph, model.seed)
    yield "GDPNet without selection", lambda: _without_selection(model, graph)


def _training_nodes(graph: Graph, seed: int) -> np.ndarray:
    train = (split_for_training(graph, seed) == 1) & (graph.labels != UNKNOWN)
    return train.nonzero().flatten().numpy()


def _majority(graph: Graph, seed: int) -> Scores:
    counts = np.bincount(graph.labels.numpy()[_training_nodes(graph, seed)], minlength=graph.num_classes)
    return np.tile(counts / counts.sum(), (graph.num_nodes, 1))


def _baseline(name: str, model: GDPNet, graph: Graph) -> Scores:
    return run_method(name, graph, model.seed, model.device_).logits.softmax(dim=1).cpu().numpy()


def _trees(graph: Graph, seed: int) -> Scores | None:
    features = to_numpy(graph.features)
    if not isinstance(features, np.ndarray) or features.shape[1] > WIDEST_TREES:
        return None
    train, label = _training_nodes(graph, seed), graph.labels.numpy()
    fitted = HistGradientBoostingClassifier(max_iter=60, random_state=seed).fit(features[train], label[train])
    found = np.zeros((graph.num_nodes, graph.num_classes))
    found[:, fitted.classes_] = fitted.predict_proba(features)
    return found


def _without_selection(model: GDPNet, graph: Graph) -> Scores:
    """Fit the same model with all neighbours kept, at less cost: no folds, whose scores only rewards need."""
    config: Config = model.config_
    training = replace(config.training, selection=False, epochs=min(30, config.training.epochs), patience=10)
    training = replace(training, seconds=_BUDGET * training.seconds)
    changed = replace(config, training=training, reward=replace(config.reward, folds=1))
    changed = replace(changed, hopwise=replace(config.hopwise, use=False))
    changed = changed.with_values({name: {"use": False} for name in ("all_edges", "trees", "linear")})
    graph = with_features(graph, graph.features)  # encoded as they are
    found = GDPNet.from_config(changed, seed=model.seed, device=model.device_.type).fit(graph)
    return found.predict_proba(graph)


def verdict(rows: list[Row], metrics: dict[str, Any], metric: str = "micro_f1") -> list[str]:
    """Return a sentence for each reason not to trust the model, or its cleaned graph, as it is.

    Methods are compared by macro-F1, or by the metric that the model was chosen by if that is no F1.
    """
    behind = _behind(rows, metrics, metric)
    said = [] if behind is None else [behind]
    kept = metrics.get("kept_share")
    if kept is not None and kept < _NEARLY:
        said.append(
            f"cleaning removes nearly every edge ({kept:.1%} stay): do not use the cleaned graph unseen"
        )
    if kept is not None and kept > 1.0 - _NEARLY:
        said.append(f"cleaning removes nearly nothing ({kept:.1%} of the edges stay)")
    if suspected := metrics.get("suspected_labels"):
        said.append(counted(suspected, *_SUSPECTED))
    return said


def _behind(rows: list[Row], metrics: dict[str, Any], metric: str) -> str | None:
    """Return a sentence that names the best method if it is ahead of the model, which is the last row."""
    *others, own = rows
    by_metric = own.score is not None
    judge = metric if by_metric else "macro_f1"
    sign = -1.0 if judge == "log_loss" else 1.0
    found = [(row.method, row.score if by_metric else row.macro_f1) for row in others]
    scored = [(name, sign * value) for name, value in found if value is not None]
    mine = own.score if by_metric else own.macro_f1
    assert mine is not None
    name, best = max(scored, key=lambda one: one[1], default=("", -np.inf))
    gap = best - sign * mine
    if gap <= 0:
        return None
    much = gap > max(_SURELY_BEHIND, 2.0 * _spread(mine, judge, metrics))
    ending = "use that, or see the settings" if much else "the difference may be chance"
    more = f"{gap:.3f} less" if judge == "log_loss" else f"{100 * gap:.1f} points more"
    return f"GDPNet is not ahead: {name} has {more} {METRICS[judge]}; {ending}"


def _spread(value: float, judge: str, metrics: dict[str, Any]) -> float:
    """Return about one standard error of a score: from its bootstrap interval, or as that of a share."""
    if judge != "macro_f1":
        low, high = metrics.get("intervals", {}).get(judge, (0.0, 0.0))
        return float(high - low) / _INTERVAL
    return float(np.sqrt(max(value * (1.0 - value), _LEAST_VARIANCE) / metrics.get("nodes", np.inf)))
