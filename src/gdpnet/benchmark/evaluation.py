"""How good a trained model is: F1 of a split, what it keeps, and how well it finds noise that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, roc_auc_score

from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.data.link_split import split_links
from gdpnet.estimator import GDPNet
from gdpnet.inference.result import Denoised
from gdpnet.training.links import link_scores


def evaluate(model: GDPNet, graph: Graph, split: str = "test") -> dict[str, Any]:
    """Return micro-F1 on a split, or what the task is measured by, and what the cleaned graph looks like."""
    if model.config_.task.kind == "clusters":
        metrics = _score_clusters(model, graph)
    elif model.config_.task.kind == "links":
        metrics = _score_links(model, graph)
    else:
        metrics = {"split": split, "nodes": int(graph.nodes_in(split).numel())}
        metrics["micro_f1"] = model.score(graph, split)
    cleaned = model.denoise(graph)
    chosen = {"threshold": cleaned.threshold, "threshold_reason": cleaned.reason}
    return metrics | chosen | describe_cleaning(graph, cleaned)


def _score_links(model: GDPNet, graph: Graph) -> dict[str, Any]:
    """Hide one link in twenty, and return how well they are told from pairs that are no links by what is left.

    On the graph of training these are the links that `fit` held out for validation, unless it was given others; on
    another graph nobody has seen them.
    """
    split = split_links(graph, model.seed, test=0.0)
    found = link_scores(torch.from_numpy(model.embed(split.train)), split.validation)
    hidden = int(split.validation.linked.sum())
    return {"hidden_links": hidden, "roc_auc": found[0], "average_precision": found[1]}


def _score_clusters(model: GDPNet, graph: Graph) -> dict[str, Any]:
    """Return how well clusters agree with classes on all nodes whose class is known."""
    known = (graph.labels != UNKNOWN).numpy()
    if not known.any():
        return {"nodes": graph.num_nodes}
    cluster = np.searchsorted(np.sort(model.classes_), model.predict(graph))
    return {"nodes": int(known.sum())} | cluster_scores(graph.labels.numpy()[known], cluster[known])


def cluster_scores(truth: np.ndarray, cluster: np.ndarray) -> dict[str, Any]:
    """Return NMI, ARI, and accuracy after the best matching of clusters to classes."""
    size = int(max(truth.max(), cluster.max())) + 1
    table = np.zeros((size, size), dtype=int)
    np.add.at(table, (truth, cluster), 1)
    matched = table[linear_sum_assignment(-table)].sum()
    return {
        "nmi": float(normalized_mutual_info_score(truth, cluster)),
        "ari": float(adjusted_rand_score(truth, cluster)),
        "accuracy": float(matched / len(truth)),
    }


def describe_cleaning(graph: Graph, denoised: Denoised) -> dict[str, Any]:
    """Return the share of edges kept, by class agreement where labels are known, and against planted truth."""
    links = link_metrics(graph, denoised.keep_probability, denoised.kept)
    names = ("kept_share", "kept_same_class", "kept_cross_class")
    result: dict[str, Any] = {"edges": graph.num_edges} | {name: links[name] for name in names}
    if graph.truth is not None and "link_auc" in links:
        result["spurious_removed"] = links["removed_recall"]
        result["genuine_kept"] = _share(denoised.kept[~graph.truth.spurious.numpy()])
        result["keep_auc"] = links["link_auc"]
    return result


def link_metrics(graph: Graph, score: np.ndarray, kept: np.ndarray) -> dict[str, float | None]:
    """Return how well links were told apart: by class agreement, and against the links known to be spurious."""
    labels = (graph.truth.clean_labels if graph.truth is not None else graph.labels).numpy()
    target, neighbour = graph.target.numpy(), graph.neighbour.numpy()
    known = (labels[target] != UNKNOWN) & (labels[neighbour] != UNKNOWN)
    same = labels[target] == labels[neighbour]
    result = {
        "kept_share": _share(kept),
        "kept_same_class": _share(kept[known & same]),
        "kept_cross_class": _share(kept[known & ~same]),
    }
    spurious = graph.truth.spurious.numpy() if graph.truth is not None else np.zeros_like(kept)
    if spurious.any() and not spurious.all():
        result |= {
            "link_auc": float(roc_auc_score(~spurious, score)),
            "removed_precision": _share(spurious[~kept]),
            "removed_recall": _share(~kept[spurious]),
        }
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
