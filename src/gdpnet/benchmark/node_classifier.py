"""GDPNet for tools of scikit-learn that split rows: the rows are nodes of one graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from gdpnet.data.io.open import as_graph
from gdpnet.data.node_numbers import node_numbers
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet


class NodeClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose X are nodes of one graph, by number or by id, and whose y are their classes.

    With it ``cross_val_score``, ``GridSearchCV`` and ``Pipeline`` work. Training sees the whole graph, but only the
    labels that are given (transductive); a tenth of them validates. Labels and split of the graph are not used.
    Settings of the model are ``model__epochs`` or ``model__ppo__discount``.

    Args:
        graph: the graph, or what can be read as one.
        model: a `GDPNet` for classification; one with the usual settings by default.
    """

    def __init__(self, graph: Any, model: GDPNet | None = None) -> None:
        self.graph, self.model = graph, model

    def __sklearn_clone__(self) -> NodeClassifier:
        # a clone shares the graph, which is never changed
        return type(self)(self.graph, None if self.model is None else clone(self.model))

    def fit(self, X: Any, y: Any) -> NodeClassifier:  # noqa: N803 - scikit-learn's name
        """Train on the classes of some nodes."""
        graph = as_graph(self.graph)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        nodes = node_numbers(graph, _column(X))
        if nodes.shape != codes.shape:
            raise GraphError(f"there must be one class per node ({len(nodes)}), found {len(codes)}")
        labels = torch.full_like(graph.labels, UNKNOWN)
        labels[nodes] = torch.from_numpy(codes)
        self.graph_ = replace(
            graph,
            labels=labels,
            split=torch.zeros_like(graph.split),
            class_names=tuple(str(name) for name in self.classes_),
            truth=None,
        )
        self.model_ = clone(GDPNet() if self.model is None else self.model).fit(self.graph_)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's name
        """Return the class probabilities of some nodes, columns in the order of ``classes_``."""
        check_is_fitted(self)
        return self.model_.predict_proba(self.graph_, _column(X))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's name
        """Return the classes of some nodes."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _column(nodes: Any) -> Any:
    """Return nodes that may be given as one column of a table."""
    if getattr(nodes, "ndim", 1) == 2 and nodes.shape[1] == 1:
        return np.asarray(nodes).ravel()
    return nodes
