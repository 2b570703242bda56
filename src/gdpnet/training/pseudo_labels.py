"""Pseudo-labels: confident predictions stand for the labels of unlabelled nodes of the training graph.

With few labels most nodes of the training graph teach the policy nothing. Confident predictions make them targets.
The first pseudo-labels come from a teacher (`gdpnet.training.teacher`), later ones from it and the aggregators: each
by the fold model that has not learned the node, so that no prediction confirms itself. Confidence is calibrated on
validation nodes. No label of a validation or test node becomes a pseudo-label.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config, SelfTrainingSettings
from gdpnet.data.features import SparseRows
from gdpnet.data.validation import UNKNOWN
from gdpnet.inference.ensemble import embed_fold_models
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import Classification
from gdpnet.training.data import TrainingData

_AT_ONCE = 8192
_TEMPERATURES = torch.logspace(-1.0, 1.0, 41)


def is_worth_self_training(data: TrainingData, config: Config) -> bool:
    """Return whether labels are few, and whether confidence can be calibrated on validation nodes."""
    settings, nodes = config.self_training, data.train.num_nodes
    few = data.targets.numel() <= settings.max_labelled * nodes
    enough = data.validation.numel() >= settings.min_validation
    plain = type(data.task) is Classification and config.reward.kind != "paper" and config.reward.folds > 1
    return settings.use and config.training.selection and few and enough and plain


def with_context_folds(data: TrainingData, key: Key) -> TrainingData:
    """Give every unlabelled node a fold, so that one model never learns what stands for its label."""
    if data.every_fold is not None:  # the same fold in every part
        return replace(data, fold=data.every_fold)
    nodes = (data.fold < 0).nonzero().flatten()
    order = torch.randperm(nodes.numel(), generator=key.fold_in("context folds").generator())
    drawn = (order % (int(data.fold.max()) + 1)).to(data.fold)
    return replace(data, fold=data.fold.index_copy(0, nodes, drawn))


def unlabelled_nodes(data: TrainingData) -> Int[Tensor, "unlabelled"]:
    """Return the nodes of the training graph that neither train nor validate."""
    is_left = ~torch.isin(data.seen, data.validation)
    is_left[data.targets] = False
    return is_left.nonzero().flatten()


def share_of_nodes(data: TrainingData, settings: SelfTrainingSettings) -> float:
    """Return the largest share of the nodes of a predicted class that get a pseudo-label for GDPNet.

    Without features a node is a number of its own. What is learned of others says little about it.
    """
    own = data.train.features if data.train.own is None else data.train.own
    one_hot = isinstance(own, SparseRows) and own.is_one_hot
    return settings.share_without_features if one_hot else settings.later_share


def temperature_of(probabilities: Float[Tensor, "n classes"], labels: Int[Tensor, "n"]) -> float:
    """Return the temperature by which class scores are divided so that they fit some labels best."""
    scores = probabilities.clamp(min=1e-9).log()
    losses = [float(F.cross_entropy(scores / temperature, labels)) for temperature in _TEMPERATURES]
    return float(_TEMPERATURES[min(range(len(losses)), key=losses.__getitem__)])


def confident_labels(
    data: TrainingData,
    probabilities: Float[Tensor, "nodes classes"],
    validation: Float[Tensor, "validation classes"],
    share: float,
    settings: SelfTrainingSettings,
) -> Int[Tensor, "nodes"]:
    """Return the likeliest class of confident unlabelled nodes, `UNKNOWN` for all others.

    At most a ``share`` of the nodes predicted to be of a class is used, the most confident ones; none below the least
    confidence, and of no class more than twice its part of the validation nodes, so that none crowds out the others.
    Probabilities are calibrated on the validation nodes.
    """
    nodes = unlabelled_nodes(data)
    scores = probabilities[nodes].clamp(min=1e-9).log() / temperature_of(validation, data.validation_labels)
    confidence, label = torch.softmax(scores, dim=1).max(dim=1)
    order = torch.argsort(confidence, descending=True, stable=True)
    order = order[torch.argsort(label[order], stable=True)]  # by class, the most confident first
    classes = probabilities.shape[1]
    counts = torch.bincount(label, minlength=classes)
    sure = torch.bincount(label[confidence >= settings.min_confidence], minlength=classes)
    most = torch.minimum((counts * share).ceil(), sure.double())
    usual = torch.bincount(data.validation_labels, minlength=classes) / data.validation.numel()
    most = torch.minimum(most, (2.0 * usual * most.sum()).ceil())
    place = torch.arange(nodes.numel(), device=nodes.device) - (counts.cumsum(0) - counts)[label[order]]
    chosen = order[place < most[label[order]]]
    found = torch.full((data.train.num_nodes,), UNKNOWN, device=nodes.device)
    return found.index_copy(0, nodes[chosen], label[chosen])


def with_pseudo_labels(data: TrainingData, pseudo: Int[Tensor, "nodes"]) -> TrainingData:
    """Return training data whose targets are also the nodes with a pseudo-label."""
    is_pseudo = pseudo != UNKNOWN
    is_pseudo[data.targets] = False
    targets = torch.cat([data.targets, is_pseudo.nonzero().flatten()]).sort().values
    return replace(
        data, targets=targets, labels=torch.where(is_pseudo, pseudo, data.labels), is_pseudo=is_pseudo
    )


def can_be_trusted(data: TrainingData, pseudo: Int[Tensor, "nodes"], quality: float) -> bool:
    """Return whether pseudo-labels may be used: every class has some, and their source is better than chance.

    ``quality`` is the accuracy of the source on validation nodes; it must exceed the share of the most frequent class
    there by two standard deviations.
    """
    labels, count = data.validation_labels, data.validation.numel()
    chance = float(torch.bincount(labels).max()) / count
    has_all = torch.isin(data.labels[data.targets], pseudo[pseudo != UNKNOWN]).all()
    return bool(has_all) and quality - chance > 2.0 * deviation_of(chance, count)


def deviation_of(share: float, count: int) -> float:
    """Return the standard deviation of a share of some nodes."""
    return (share * (1.0 - share) / max(count, 1)) ** 0.5


@torch.no_grad()
def predict_by_folds(
    aggregators: Aggregators, data: TrainingData, train: Selected, whole: Selected, config: Config
) -> tuple[Float[Tensor, "nodes classes"], Float[Tensor, "validation classes"]]:
    """Return class probabilities of the training graph's nodes and of the validation nodes by the aggregators.

    Each node of the training graph is predicted by the fold model that has not learned it. ``train`` and ``whole``
    are decisions on the edges of the training graph, and of the validation nodes.
    """
    mode, nodes = config.inference.mode, torch.arange(data.train.num_nodes, device=data.targets.device)
    weight, found = train.weight(mode), []
    for part in nodes.split(_AT_ONCE):
        every = embed_fold_models(aggregators, train.prepared, part, weight)[1]
        found.append(every[torch.arange(part.numel(), device=part.device), data.fold_model[part]])
    held = [
        embed_fold_models(aggregators, whole.prepared, part, whole.weight(mode))[1][:, 0]
        for part in data.validation.split(_AT_ONCE)
    ]
    return torch.cat(found), torch.cat(held)
