"""Logistic regression on node features; the graph is ignored."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gdpnet.data.features import SparseRows, normalise
from gdpnet.data.graph import Graph

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Inverse penalties, tried on validation; of equals the smallest is taken."""


def logistic_logits(
    graph: Graph, train: np.ndarray, validation: np.ndarray
) -> tuple[Float[Tensor, "nodes classes"], float, float]:
    """Return the log-probabilities of all nodes, micro-F1 on the validation nodes, and the chosen penalty."""
    features, label = normalise(graph.features, "l2"), graph.labels.numpy()
    table = features.to_scipy() if isinstance(features, SparseRows) else features.numpy()
    # some BLAS raise the flag on finite numbers; scikit-learn refuses all others
    with np.errstate(invalid="ignore"):
        models = [
            LogisticRegression(C=penalty, max_iter=2000).fit(table[train], label[train])
            for penalty in PENALTIES
        ]
    known = validation.size > 0
    scores = [model.score(table[validation], label[validation]) if known else 0.0 for model in models]
    best = int(np.argmax(scores))
    logits = torch.full((graph.num_nodes, graph.num_classes), float(np.log(np.finfo(np.float32).tiny)))
    found = torch.from_numpy(models[best].predict_log_proba(table)).float()
    logits[:, torch.from_numpy(models[best].classes_)] = found
    return logits, float(scores[best]) if known else float("nan"), PENALTIES[best]
