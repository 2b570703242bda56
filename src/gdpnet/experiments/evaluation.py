"""How good a trained model is: F1 of a split, what it keeps, and how well it finds noise that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from gdpnet.graph.graph import UNKNOWN, Graph
from gdpnet.model import Denoised, GDPNet


def evaluate(model: GDPNet, graph: Graph, split: str = "test") -> dict[str, Any]:
    """Return micro-F1 on a split and what the cleaned graph looks like."""
    metrics: dict[str, Any] = {"split": split, "nodes": int(graph.nodes_in(split).numel())}
    metrics["micro_f1"] = model.score(graph, split)
    cleaned = model.denoise(graph)
    chosen = {"threshold": cleaned.threshold, "threshold_reason": cleaned.reason}
    return metrics | chosen | describe_cleaning(graph, cleaned)


def describe_cleaning(graph: Graph, denoised: Denoised) -> dict[str, Any]:
    """Return the share of edges kept, by class agreement where labels are known, and against planted truth."""
    kept = denoised.kept
    result: dict[str, Any] = {"edges": graph.num_edges, "kept_share": _share(kept)}
    target, neighbour = graph.target.numpy(), graph.neighbour.numpy()
    label = (graph.truth.clean_labels if graph.truth else graph.labels).numpy()
    known = (label[target] != UNKNOWN) & (label[neighbour] != UNKNOWN)
    same = label[target] == label[neighbour]
    result["kept_same_class"] = _share(kept[known & same])
    result["kept_cross_class"] = _share(kept[known & ~same])
    if graph.truth is not None and bool(graph.truth.spurious.any()):
        spurious = graph.truth.spurious.numpy()
        result["spurious_removed"] = _share(~kept[spurious])
        result["genuine_kept"] = _share(kept[~spurious])
        result["keep_auc"] = float(roc_auc_score(~spurious, denoised.keep_probability))
    return result


BINS = 10
"""Bins of a reliability curve."""


def calibration(graph: Graph, cleaned: Denoised) -> dict[str, Any]:
    """Return the Brier score and the reliability curve of keep probabilities against planted truth."""
    spurious = graph.truth.spurious.numpy() if graph.truth is not None else np.zeros(0, dtype=bool)
    if not spurious.any():
        return {}
    chance, genuine = cleaned.keep_probability, ~spurious
    place = np.minimum((chance * BINS).astype(int), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    mean = np.bincount(place, weights=chance, minlength=BINS) / np.maximum(count, 1)
    share = np.bincount(place, weights=genuine, minlength=BINS) / np.maximum(count, 1)
    curve = [
        [round(float(mean[i]), 4), round(float(share[i]), 4), int(count[i])] for i in range(BINS) if count[i]
    ]
    return {"brier": float(np.mean((chance - genuine) ** 2)), "reliability": curve}


def selected_shares(graph: Graph, denoised: Denoised) -> np.ndarray:
    """Return for each node with neighbours the share of them that is kept."""
    total = np.bincount(graph.target.numpy(), minlength=graph.num_nodes)
    kept = np.bincount(graph.target.numpy()[denoised.kept], minlength=graph.num_nodes)
    return kept[total > 0] / total[total > 0]


def _share(flags: np.ndarray) -> float | None:
    return float(flags.mean()) if flags.size else None
