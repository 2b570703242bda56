"""Metrics of the tasks without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_rand_score,
    average_precision_score,
    normalized_mutual_info_score,
    roc_auc_score,
)
from sklearn.metrics.cluster import contingency_matrix
from torch import Tensor

from gdpnet.data.link_split import Pairs
from gdpnet.representation.propagation import inner_products


def link_scores(embedded: Float[Tensor, "nodes width"], pairs: Pairs) -> tuple[float, float]:
    """Return the ROC AUC and average precision of inner products on some pairs."""
    score = inner_products(embedded, pairs.ends.to(embedded.device)).cpu().numpy()
    linked = pairs.linked.cpu().numpy()
    return float(roc_auc_score(linked, score)), float(average_precision_score(linked, score))


def cluster_scores(truth: np.ndarray, cluster: np.ndarray) -> dict[str, Any]:
    """Return NMI, ARI, and accuracy after the best matching of clusters to classes."""
    table = contingency_matrix(truth, cluster)
    matched = table[linear_sum_assignment(-table)].sum()
    return {
        "nmi": float(normalized_mutual_info_score(truth, cluster)),
        "ari": float(adjusted_rand_score(truth, cluster)),
        "accuracy": float(matched / len(truth)),
    }
