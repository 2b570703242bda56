"""Find label errors among the training nodes and set them aside.

Each training label is left out by one fold model. If these models are right about training nodes far less
often than about validation nodes, whose labels are assumed correct, there are label errors. A label is then
suspected if another class has a higher probability, at least the mean probability of that class over the
nodes labelled with it (confident learning: Northcutt, Jiang and Chuang, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared
from gdpnet.data.validation import id_text
from gdpnet.inference.ensemble import embed_fold_models
from gdpnet.inference.model import SuspectedLabel
from gdpnet.inference.select import keep_all
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import Classification
from gdpnet.training.data import TrainingData

TRUSTED = -1
"""Stands for the suggested class where the label is trusted."""

_AT_ONCE = 8192


def is_time_to_check_labels(epoch: int, suggested: Tensor | None, config: Config) -> bool:
    """Return whether to check labels before an epoch: after warm-up, then regularly if any is suspected."""
    since = epoch - 1 - config.training.warmup
    return epoch > 1 and (
        since == 0 or (suggested is not None and since > 0 and since % config.training.label_error_every == 0)
    )


@torch.no_grad()
def suspect_labels(
    aggregators: Aggregators, data: TrainingData, config: Config
) -> Int[Tensor, "targets"] | None:
    """Return the `suggested_labels` of the targets; None if there is no sign of label errors."""
    left_out, label = data.fold_model[data.targets], data.labels[data.targets]
    few = left_out.numel() < config.training.label_error_min_per_class * aggregators.classes
    if type(data.task) is not Classification or few or not bool((left_out > 0).all()):
        return None
    # targets of a redrawn part are not in the graph of the validation nodes
    seen_in = (data.train, data.targets) if data.is_redrawn else (data.whole, data.seen[data.targets])
    fold_probabilities = _fold_probabilities(aggregators, *seen_in)
    parts = zip(fold_probabilities, left_out.split(_AT_ONCE), strict=True)
    probability = torch.cat(
        [part[torch.arange(fold.numel(), device=fold.device), fold] for part, fold in parts]
    )
    truths = data.validation_labels.split(_AT_ONCE)
    parts = zip(_fold_probabilities(aggregators, data.whole, data.validation), truths, strict=True)
    right = torch.cat(
        [(part[:, 1:].argmax(dim=2) == truth[:, None]).float().mean(dim=1) for part, truth in parts]
    )
    (valid, variance), (train, other) = _score(right), _score((probability.argmax(dim=1) == label).float())
    if valid - train <= max(
        config.training.label_error_gap, config.training.label_error_deviations * math.sqrt(variance + other)
    ):
        return None
    return suggested_labels(probability, label)


def _score(right: Float[Tensor, "n"]) -> tuple[float, float]:
    """Return the share of nodes that are right, and its variance, smoothed to be positive."""
    count = right.numel()
    share = (float(right.sum()) + 1.0) / (count + 2.0)
    return float(right.mean()) if count else 0.0, share * (1.0 - share) / max(count, 1)


def suggested_labels(probability: Float[Tensor, "n classes"], label: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Return the suggested class of each suspected label, `TRUSTED` for the others.

    If all labels of a class would be suspected they are kept, so that the class can be learned.
    """
    own = probability.gather(1, label[:, None])
    labelled = torch.bincount(label, minlength=probability.shape[1])
    mean = torch.zeros_like(probability[0]).index_add_(0, label, own[:, 0]) / labelled.clamp(min=1)
    likely = (probability >= mean) & (probability > own) & (labelled > 0)
    suggested = torch.where(likely, probability, -1.0).argmax(dim=1)
    suggested = torch.where(likely.any(dim=1), suggested, TRUSTED)
    left = torch.zeros_like(labelled).index_add_(0, label, (suggested == TRUSTED).long())
    return torch.where(left[label] == 0, TRUSTED, suggested)


def without_suspected(data: TrainingData, suggested: Int[Tensor, "targets"] | None) -> TrainingData:
    """Return the training data without the targets whose labels are suspected."""
    if suggested is None:
        return data
    return replace(data, targets=data.targets[suggested == TRUSTED], has_suspected=True)


def name_suspected(
    graph: Graph, data: TrainingData, suggested: Int[Tensor, "targets"] | None
) -> tuple[SuspectedLabel, ...]:
    """Return the suspected labels with the graph's names of nodes and classes."""
    if suggested is None:
        return ()
    suspected = (suggested != TRUSTED).nonzero().flatten()
    nodes, instead = data.seen[data.targets[suspected]].tolist(), suggested[suspected].tolist()
    names, ids = graph.class_names, id_text(graph.node_ids)
    return tuple(
        SuspectedLabel(str(ids[node]), str(names[int(graph.labels[node])]), str(names[other]))
        for node, other in zip(nodes, instead, strict=True)
    )


def _fold_probabilities(
    aggregators: Aggregators, graph: Prepared, nodes: Int[Tensor, "nodes"]
) -> Iterator[Float[Tensor, "part fold_models classes"]]:
    """Yield class probabilities of some nodes by every fold model, part by part, all neighbours kept."""
    weight = keep_all(graph).probability
    for part in nodes.split(_AT_ONCE):
        yield embed_fold_models(aggregators, graph, part, weight)[1]
