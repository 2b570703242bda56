"""A table that tells a user whether to trust a trained model: simple methods beside it, on the same nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingClassifier

from gdpnet.benchmark.baselines.methods import run_method
from gdpnet.config import Config
from gdpnet.data.features import to_numpy
from gdpnet.data.graph import Graph, with_features
from gdpnet.data.validation import UNKNOWN
from gdpnet.estimator import GDPNet
from gdpnet.inference.classification_metrics import f1_scores
from gdpnet.inference.predictor import Predictor
from gdpnet.training.data import split_for_training

WIDEST_TREES = 512
"""Boosted trees are left out for more features than this, and for sparse ones."""

_NEARLY = 0.02
_SURELY_BEHIND = 0.01
_LEAST_VARIANCE = 0.01

Scores = Float[np.ndarray, "nodes classes"]


@dataclass(frozen=True)
class Row:
    """The scores of a method on the nodes that the model is scored on."""

    method: str
    micro_f1: float | None
    macro_f1: float | None
    seconds: float
    remark: str = ""


def check_model(
    model: GDPNet, predictor: Predictor, split: str, fit_seconds: float, budget: float = 0.2
) -> list[Row]:
    """Score simple methods beside a trained model; none is started once they took ``budget`` times the fit.

    All have the features, the training nodes and the split of the model. The last row is the model itself.
    """
    graph, start, rows = predictor.graph, time.perf_counter(), []
    nodes = graph.nodes_in(split)
    nodes = nodes[graph.labels[nodes] != UNKNOWN]
    truth = graph.labels[nodes].numpy()
    for name, fit in _methods(model, graph):
        begun = time.perf_counter()
        if begun - start > budget * fit_seconds:
            rows.append(Row(name, None, None, 0.0, "left out to save time"))
            continue
        found = fit()
        spent = time.perf_counter() - begun
        if found is None:
            rows.append(Row(name, None, None, 0.0, "left out: too many features"))
        else:
            rows.append(Row(name, *f1_scores(found[nodes.numpy()], truth), spent))
    return [*rows, Row("GDPNet", *f1_scores(predictor.probabilities(nodes), truth), fit_seconds)]


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
    return np.tile(counts == counts.max(), (graph.num_nodes, 1)).astype(np.float64)


def _baseline(name: str, model: GDPNet, graph: Graph) -> Scores:
    return run_method(name, graph, model.seed, model.device_).logits.cpu().numpy()


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
    changed = replace(config, training=training, reward=replace(config.reward, folds=1))
    changed = replace(changed, hopwise=replace(config.hopwise, use=False))
    changed = changed.with_values({name: {"use": False} for name in ("all_edges", "trees", "linear")})
    graph = with_features(graph, graph.features)  # encoded as they are
    found = GDPNet.from_config(changed, seed=model.seed, device=model.device_.type).fit(graph)
    return found.predict_proba(graph)


def verdict(rows: list[Row], metrics: dict[str, Any]) -> list[str]:
    """Return a sentence for each reason not to trust the model, or its cleaned graph, as it is."""
    *others, own = rows
    said = []
    scored = [row for row in others if row.macro_f1 is not None]
    best = max(scored, key=lambda row: row.macro_f1 or 0.0, default=None)
    assert own.macro_f1 is not None
    if best is not None and best.macro_f1 is not None and best.macro_f1 > own.macro_f1:
        gap = 100 * (best.macro_f1 - own.macro_f1)
        spread = np.sqrt(
            max(own.macro_f1 * (1.0 - own.macro_f1), _LEAST_VARIANCE) / metrics.get("nodes", np.inf)
        )
        much = best.macro_f1 - own.macro_f1 > max(_SURELY_BEHIND, 2.0 * spread)
        ending = "use that, or see the settings" if much else "the difference may be chance"
        said.append(f"GDPNet is not ahead: {best.method} has {gap:.1f} points more macro-F1; {ending}")
    kept = metrics.get("kept_share")
    if kept is not None and kept < _NEARLY:
        said.append(
            f"cleaning removes nearly every edge ({kept:.1%} stay): do not use the cleaned graph unseen"
        )
    if kept is not None and kept > 1.0 - _NEARLY:
        said.append(f"cleaning removes nearly nothing ({kept:.1%} of the edges stay)")
    if suspected := metrics.get("suspected_labels"):
        said.append(f"{suspected:,} training labels are suspected to be wrong: look at them first")
    return said
