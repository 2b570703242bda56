"""The task that is trained: class weights and bins come from the training nodes."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.validation import SPLITS
from gdpnet.errors import GraphError
from gdpnet.inference.objective import classification_by
from gdpnet.representation.regression import Regression, bins_of
from gdpnet.representation.tasks import CLASSIFICATION, MultiLabel, Task, label_names
from gdpnet.training.data import check_trainable, split_for_training

_RANKING = ("average_precision", "roc_auc")


def learned_task(graph: Graph, config: Config, seed: int) -> Task:
    """Return the task that the settings ask for on the training nodes of a graph."""
    if config.task.kind == "multi-label":
        return MultiLabel(label_names(graph))
    split = split_for_training(graph, seed)
    train, validation = ((split == SPLITS.index(name)) & graph.labelled for name in ("train", "validation"))
    if config.task.kind == "regression":
        assert graph.targets is not None
        check_trainable(graph, split)
        return bins_of(graph.targets[train], config.task.bins)
    metric, balanced = config.training.metric, config.task.class_weight == "balanced"
    if metric in _RANKING and int(validation.sum()) > 0 and graph.labels[validation].unique().numel() < 2:
        raise GraphError(
            f"validation nodes must be of two classes or more for --metric {metric}, found one class alone"
        )
    if metric == "micro_f1" and not balanced:
        return CLASSIFICATION
    weights = balanced_weights(graph.labels[train], graph.num_classes) if balanced else None
    return classification_by(metric, weights)


def names_of_outputs(task: Task, graph: Graph) -> list[str]:
    """Return the names of the classes or labels, the centres of bins, or numbers for outputs of another kind."""
    if isinstance(task, Regression):
        return [repr(centre) for centre in task.centres]
    names = task.names if isinstance(task, MultiLabel) else graph.class_names
    outputs = task.outputs(graph)
    return list(names) if outputs == len(names) else [str(number) for number in range(outputs)]


def balanced_weights(labels: Int[Tensor, "n"], classes: int) -> tuple[float, ...]:
    """Return n / (classes * count) for each class; a class without a node does not count and weighs one."""
    counts = torch.bincount(labels, minlength=classes)
    present = int((counts > 0).sum())
    weights = labels.numel() / (max(present, 1) * counts.clamp(min=1).double())
    return tuple(torch.where(counts > 0, weights, 1.0).tolist())
