"""LR: logistic regression on node features alone; the graph is ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from gdpnet.data.features import SparseRows, normalise
from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.errors import GraphError

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Inverse penalties tried; the best on validation is taken, the smallest of equals."""


def logistic_regression_f1(graph: Graph, split: str = "test") -> float:
    """Fit on training nodes, choose the penalty on validation nodes, return micro-F1 on the split."""
    train, validation, held = (_labelled(graph, name) for name in ("train", "validation", split))
    if train.size == 0 or held.size == 0:
        raise GraphError(f"logistic regression needs labelled training and {split} nodes")
    best, _, _ = _fitted(graph, train, validation)
    return float(best.score(_table(graph)[held], graph.labels.numpy()[held]))


def logistic_logits(
    graph: Graph, train: np.ndarray, validation: np.ndarray
) -> tuple[Float[Tensor, "nodes classes"], float, float]:
    """Return the log-probabilities of all nodes, micro-F1 on the validation nodes, and the penalty chosen there."""
    model, score, penalty = _fitted(graph, train, validation)
    logits = torch.full((graph.num_nodes, graph.num_classes), float(np.log(np.finfo(np.float32).tiny)))
    found = torch.from_numpy(model.predict_log_proba(_table(graph))).float()
    logits[:, torch.from_numpy(model.classes_)] = found
    return logits, score, penalty


def _fitted(graph: Graph, train: np.ndarray, validation: np.ndarray) -> tuple[Any, float, float]:
    table, label = _table(graph), graph.labels.numpy()
    # some BLAS raise the flag on finite numbers; others scikit-learn refuses
    with np.errstate(invalid="ignore"):
        models = [
            LogisticRegression(C=penalty, max_iter=2000).fit(table[train], label[train])
            for penalty in PENALTIES
        ]
    scores = [
        model.score(table[validation], label[validation]) if validation.size else 0.0 for model in models
    ]
    best = int(np.argmax(scores))
    return models[best], float(scores[best]) if validation.size else float("nan"), PENALTIES[best]


def _table(graph: Graph) -> Any:
    features = normalise(graph.features, "l2")
    return features.to_scipy() if isinstance(features, SparseRows) else features.numpy()


def _labelled(graph: Graph, split: str) -> np.ndarray:
    nodes: Tensor = graph.nodes_in(split)
    return nodes[graph.labels[nodes] != UNKNOWN].numpy()
