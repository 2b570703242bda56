"""LR: logistic regression on node features alone; the graph is ignored."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gdpnet.errors import GraphError
from gdpnet.graph.features import SparseRows, normalise
from gdpnet.graph.graph import UNKNOWN, Graph

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Inverse penalties tried; the best on validation is taken, the smallest of equals."""


def logistic_regression_f1(graph: Graph, split: str = "test") -> float:
    """Fit on training nodes, choose the penalty on validation nodes, return micro-F1 on the split."""
    features = normalise(graph.features, "l2")
    table = features.to_scipy() if isinstance(features, SparseRows) else features.numpy()
    label = graph.labels.numpy()
    train, validation, held = (_labelled(graph, name) for name in ("train", "validation", split))
    if train.size == 0 or held.size == 0:
        raise GraphError(f"logistic regression needs labelled training and {split} nodes")
    models = [
        LogisticRegression(C=penalty, max_iter=2000).fit(table[train], label[train]) for penalty in PENALTIES
    ]
    scores = [
        model.score(table[validation], label[validation]) if validation.size else 0.0 for model in models
    ]
    best = models[int(np.argmax(scores))]
    return float(best.score(table[held], label[held]))


def _labelled(graph: Graph, split: str) -> np.ndarray:
    nodes: Tensor = graph.nodes_in(split)
    return nodes[graph.labels[nodes] != UNKNOWN].numpy()
