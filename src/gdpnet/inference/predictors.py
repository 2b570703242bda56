"""The predictor of each task; that of regression is here, the others in `gdpnet.inference.predictor`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gdpnet.data.graph import Graph, Part
from gdpnet.data.labels import as_targets, class_numbers
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.predictor import ClustersPredictor, LabelPredictor, LinksPredictor, Predictor
from gdpnet.inference.regression_metrics import regression_scores
from gdpnet.representation.regression import Regression


class RegressionPredictor(LabelPredictor):
    """Predicts one number per node; class probabilities are those of the bins of a histogram."""

    def __init__(self, model: TrainedModel, graph: Graph, part: Part | None = None) -> None:
        super().__init__(model, as_targets(graph) if class_numbers(graph) is not None else graph, part)
        assert isinstance(model.task, Regression)
        self.task = model.task

    def predict(self, nodes: Any = None) -> np.ndarray:
        """Return the predicted number of some nodes, the mean of their histograms."""
        return self.task.mean(self._probabilities(self._numbers(nodes))).cpu().numpy()

    def interval(self, nodes: Any = None, low: float = 0.1, high: float = 0.9) -> np.ndarray:
        """Return two quantiles of the predicted histogram of some nodes, one row per node."""
        found = self._probabilities(self._numbers(nodes))
        return torch.stack([self.task.quantile(found, share) for share in (low, high)], dim=1).cpu().numpy()

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Return R2, mean absolute error and root mean squared error, beside those of the training nodes' mean."""
        found, truth = self._asked(split)
        train = self.graph.nodes_in("train")
        learned = self.task.truth(self.graph)[train[self.graph.labelled[train]]]
        mean = float((learned if learned.numel() else truth).double().mean())
        scores = regression_scores(self.task.mean(found).numpy(), truth.numpy(), mean)
        return {"split": split, "nodes": int(truth.numel())} | scores


PREDICTORS: dict[str, type[Predictor]] = {
    "classification": LabelPredictor,
    "multi-label": LabelPredictor,
    "regression": RegressionPredictor,
    "links": LinksPredictor,
    "clusters": ClustersPredictor,
}


def make_predictor(model: TrainedModel, graph: Graph, part: Part | None = None) -> Predictor:
    """Apply a trained model to a graph with the same feature columns, or to a part of one."""
    return PREDICTORS[model.config.task.kind](model, graph, part)
