"""Metrics of a trained model: F1 of a split, the share of edges kept, and how well known noise is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError
from gdpnet.inference.denoised import Denoised
from gdpnet.inference.predictor import Predictor


def evaluate(predictor: Predictor, split: str = "test") -> dict[str, Any]:
    """Return the metrics of the model's task on a split, and a description of the cleaned graph."""
    cleaned = predictor.denoise()
    chosen = {"threshold": cleaned.threshold, "threshold_reason": cleaned.reason}
    return predictor.evaluate(split) | chosen | describe_cleaning(predictor.graph, cleaned)


def true_labels(graph: Graph) -> torch.Tensor:
    """Return the clean labels where the graph knows them, else its labels."""
    return graph.truth.clean_labels if graph.truth is not None else graph.labels


def f1_on_test(graph: Graph, logits: torch.Tensor) -> float:
    """Return micro-F1 on the test nodes, against clean labels where the graph knows them."""
    labels, nodes = true_labels(graph), scored_nodes(graph)
    return float((logits[nodes].argmax(dim=1) == labels[nodes]).float().mean())


def scored_nodes(graph: Graph) -> torch.Tensor:
    """Return the labelled test nodes; raise an error if there are none."""
    labels, nodes = true_labels(graph), graph.nodes_in("test")
    nodes = nodes[labels[nodes] != UNKNOWN]
    if nodes.numel() == 0:
        raise ConfigError(
            "at least one test node must have a label to score on, found none; --split 60/20/20 draws test nodes"
        )
    return nodes


def describe_cleaning(graph: Graph, denoised: Denoised) -> dict[str, Any]:
    """Return the shares of edges kept, by class agreement where labels are known, and against the known noise."""
    links = link_metrics(graph, denoised.keep_probability, denoised.kept)
    shares = {name: links[name] for name in ("kept_share", "kept_same_class", "kept_cross_class")}
    found = noise_found(graph, denoised.keep_probability, denoised.kept)
    return {"edges": graph.num_edges} | shares | found | probability_metrics(graph, denoised)


def noise_found(graph: Graph, score: np.ndarray, kept: np.ndarray) -> dict[str, Any]:
    """Return the share of known noise removed and of genuine edges kept, and the AUC; nothing without known noise."""
    links = link_metrics(graph, score, kept)
    if graph.truth is None or "link_auc" not in links:
        return {}
    return {
        "spurious_removed": links["removed_recall"],
        "genuine_kept": _share(kept[~graph.truth.spurious.numpy()]),
        "keep_auc": links["link_auc"],
    }


def link_metrics(graph: Graph, score: np.ndarray, kept: np.ndarray) -> dict[str, float | None]:
    """Score which edges were kept: by class agreement, and against the edges known to be spurious."""
    labels = true_labels(graph).numpy()
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
"""Number of bins of a reliability curve."""


def calibration(graph: Graph, cleaned: Denoised) -> dict[str, Any]:
    """Return the Brier score and the reliability curve of keep probabilities, and the quality of both probabilities.

    They are compared with the known noise; without any there is nothing to return.
    """
    spurious = _known_noise(graph)
    if not spurious.any():
        return {}
    chance, genuine = cleaned.keep_probability, ~spurious
    mean, share, count = reliability(chance, genuine)
    curve = [
        [round(float(mean[i]), 4), round(float(share[i]), 4), int(count[i])] for i in range(BINS) if count[i]
    ]
    brier = {"brier": float(np.mean((chance - genuine) ** 2)), "reliability": curve}
    return brier | probability_metrics(graph, cleaned)


def probability_metrics(graph: Graph, cleaned: Denoised) -> dict[str, float]:
    """Return how well both probabilities fit the known noise; nothing without any."""
    genuine = ~_known_noise(graph)
    if genuine.all() or not genuine.any():
        return {}
    found = {"keep_calibration_error": calibration_error(cleaned.keep_probability, genuine)}
    chance = cleaned.genuine_probability
    if chance is None:
        return found
    auc = float(roc_auc_score(genuine, chance))
    return found | {"genuine_auc": auc, "genuine_calibration_error": calibration_error(chance, genuine)}


def calibration_error(chance: np.ndarray, genuine: np.ndarray) -> float:
    """Return the expected calibration error: |mean probability - share of genuine edges|, over ten bins."""
    mean, share, count = reliability(chance, genuine)
    return float((np.abs(mean - share) * count).sum() / max(1, count.sum()))


def reliability(chance: np.ndarray, genuine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean probability, the share of genuine edges and the number of edges of each bin."""
    # not calibration_curve of scikit-learn: it does not return how many edges a bin holds
    place = np.minimum((chance * BINS).astype(int), BINS - 1)
    count = np.bincount(place, minlength=BINS)
    mean = np.bincount(place, weights=chance, minlength=BINS) / np.maximum(count, 1)
    share = np.bincount(place, weights=genuine, minlength=BINS) / np.maximum(count, 1)
    return mean, share, count


def _known_noise(graph: Graph) -> np.ndarray:
    return graph.truth.spurious.numpy() if graph.truth is not None else np.zeros(graph.num_edges, dtype=bool)


def selected_shares(graph: Graph, denoised: Denoised) -> np.ndarray:
    """Return the share of neighbours kept, for each node that has any."""
    total = np.bincount(graph.target.numpy(), minlength=graph.num_nodes)
    kept = np.bincount(graph.target.numpy()[denoised.kept], minlength=graph.num_nodes)
    return kept[total > 0] / total[total > 0]


def _share(flags: np.ndarray) -> float | None:
    return float(flags.mean()) if flags.size else None
