"""Tasks: the ground truth, the loss, and f_c, the score of a target under its predicted probabilities.

The shipped tasks are classes, sets of labels, clusters and edges, and numbers in `gdpnet.representation.regression`;
users may write their own. Selection does not know the task: it gets rewards, which
`gdpnet.training.selection_phase` computes from f_c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gdpnet._core.significance import Lead, Measure, gains_and_losses, lead_of_counts, lead_of_measure
from gdpnet.data.graph import Graph


@runtime_checkable
class Task(Protocol):
    """The interface of a task."""

    @property
    def exclusive(self) -> bool:
        """Return whether a node's probabilities sum to one (softmax) or are independent (sigmoid)."""

    def outputs(self, graph: Graph) -> int:
        """Return the number of outputs per node."""

    def truth(self, graph: Graph) -> Shaped[Tensor, "nodes *any"]:
        """Return the ground truth, one row per node; rows of nodes without a label are never read."""

    def loss(
        self,
        logits: Float[Tensor, "n fold_models outputs"],
        truth: Shaped[Tensor, "n *any"],
        learns: Bool[Tensor, "n fold_models"],
    ) -> Float[Tensor, ""]:
        """Return the sum of the fold models' losses, each averaged over the nodes it may learn from."""

    def score(
        self, probabilities: Float[Tensor, "n outputs"], truth: Shaped[Tensor, "n *any"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return f_c of each target, between 0 and 1: a ``hit``, or a ``probability`` above zero."""

    def quality(self, probabilities: Float[Tensor, "n outputs"], truth: Shaped[Tensor, "n *any"]) -> float:
        """Return the quality of predictions, higher is better; it selects the best epoch."""


@runtime_checkable
class Compares(Protocol):
    """A task with a metric of its own to compare predictions by; for all others hits are counted."""

    def compare(
        self,
        mine: Float[Tensor, "n outputs"],
        other: Float[Tensor, "n outputs"],
        truth: Shaped[Tensor, "n *any"],
    ) -> Lead | None:
        """Return how far ahead the first is, and the standard deviation of that; None if hits tell."""


def metric_lead(
    task: Task,
    mine: Float[Tensor, "n outputs"],
    other: Float[Tensor, "n outputs"],
    truth: Shaped[Tensor, "n *any"],
) -> Lead | None:
    """Return how far one prediction is ahead of another in the task's metric; None if that is about hits."""
    return task.compare(mine, other, truth) if isinstance(task, Compares) and len(truth) else None


def compare(
    task: Task,
    mine: Float[Tensor, "n outputs"],
    other: Float[Tensor, "n outputs"],
    truth: Shaped[Tensor, "n *any"],
) -> Lead:
    """Return how far one prediction is ahead of another: in the task's metric, else in hits (McNemar's test)."""
    hits = (task.score(one, truth, "hit") for one in (mine, other))
    return metric_lead(task, mine, other, truth) or lead_of_counts(*gains_and_losses(*hits))


@dataclass(frozen=True)
class Classification:
    """One class per node: cross-entropy; f_c is the hit or the probability of the true class; micro-F1.

    Classes may have weights in the loss. Another measure than micro-F1 may choose epochs, heads and thresholds.
    """

    class_weights: tuple[float, ...] | None = field(default=None, kw_only=True)
    metric: str = field(default="micro_f1", kw_only=True)
    measure: Measure | None = field(default=None, kw_only=True, repr=False)
    """Computes the metric, larger is better; None for micro-F1."""
    exclusive = True

    def outputs(self, graph: Graph) -> int:
        """Return the number of classes."""
        return graph.num_classes

    def truth(self, graph: Graph) -> Int[Tensor, "nodes"]:
        """Return the class of each node."""
        return graph.labels

    def loss(
        self,
        logits: Float[Tensor, "n fold_models classes"],
        truth: Int[Tensor, "n"],
        learns: Bool[Tensor, "n fold_models"],
    ) -> Float[Tensor, ""]:
        """Return cross-entropy."""
        weight = None if self.class_weights is None else self._weights_on(logits.device)
        if logits.device.type == "cpu":  # the scores lie class by class in memory, where short rows are slow
            wanted = truth.expand(logits.shape[1], -1)
            losses = F.cross_entropy(logits.permute(1, 2, 0), wanted, weight, reduction="none").t()
        else:
            wanted = truth[:, None].expand(-1, logits.shape[1]).flatten()
            losses = F.cross_entropy(logits.flatten(0, 1), wanted, weight, reduction="none")
            losses = losses.unflatten(0, logits.shape[:2])
        return mean_by_fold_model(losses, learns)

    @cached_property
    def _sent(self) -> dict[torch.device, Tensor]:
        """Return the class weights on each device where they were asked for."""
        return {}

    def _weights_on(self, device: torch.device) -> Float[Tensor, "classes"]:
        """Return the class weights on a device; copying them again would wait for it."""
        if device not in self._sent:
            self._sent[device] = torch.tensor(self.class_weights, device=device)
        return self._sent[device]

    def score(
        self, probabilities: Float[Tensor, "n classes"], truth: Int[Tensor, "n"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return the hit (0 or 1) or the probability of the true class."""
        if kind == "hit":
            return (probabilities.argmax(dim=1) == truth).to(probabilities.dtype)
        return torch.gather(probabilities, 1, truth[:, None])[:, 0]

    def quality(self, probabilities: Float[Tensor, "n classes"], truth: Int[Tensor, "n"]) -> float:
        """Return the metric; micro-F1, for one class per node, is the accuracy."""
        if self.measure is not None and truth.numel():
            ones = np.ones((1, len(truth)))
            return float(self.measure(probabilities.cpu().numpy(), truth.cpu().numpy(), ones)[0])
        hits = probabilities.argmax(dim=1) == truth
        return float(hits.double().mean()) if truth.numel() else float("nan")

    def compare(
        self,
        mine: Float[Tensor, "n classes"],
        other: Float[Tensor, "n classes"],
        truth: Int[Tensor, "n"],
    ) -> Lead | None:
        """Return the difference of the metric, with its deviation over bootstrap resamples; None for micro-F1."""
        if self.measure is None:
            return None
        one, two, known = (values.cpu().numpy() for values in (mine, other, truth))
        return lead_of_measure(self.measure, one, two, known)


CLASSIFICATION = Classification()


JOINS = "|"
"""The separator of a node's labels: the class ``red|round`` stands for two labels."""


def label_names(graph: Graph) -> tuple[str, ...]:
    """Return the labels that occur in the names of a graph's classes, sorted."""
    return tuple(sorted({part for name in graph.class_names for part in name.split(JOINS) if part}))


@dataclass(frozen=True)
class MultiLabel:
    """Any number of labels per node: binary cross-entropy over labels, micro-F1 over all nodes and labels.

    f_c of a node is the F1 of its predicted labels (hit), or the geometric mean over labels of the probability of the
    truth, so that the marginal reward is the gain in mean log-likelihood.
    """

    names: tuple[str, ...]
    exclusive = False
    metric = "micro_f1"

    def outputs(self, graph: Graph) -> int:
        """Return the number of labels."""
        return len(self.names)

    def truth(self, graph: Graph) -> Float[Tensor, "nodes labels"]:
        """Return the labels of each node as ones and zeros."""
        sets = [set(name.split(JOINS)) for name in graph.class_names]
        table = torch.tensor([[float(name in labels) for name in self.names] for labels in sets])
        return table[graph.labels.clamp(min=0)]

    def loss(
        self,
        logits: Float[Tensor, "n fold_models labels"],
        truth: Float[Tensor, "n labels"],
        learns: Bool[Tensor, "n fold_models"],
    ) -> Float[Tensor, ""]:
        """Return binary cross-entropy."""
        wanted = truth[:, None].expand_as(logits)
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return mean_by_fold_model(losses.sum(dim=2), learns)

    def score(
        self, probabilities: Float[Tensor, "n labels"], truth: Float[Tensor, "n labels"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return the F1 of each node, or the likelihood of its labels."""
        if kind == "hit":
            predicted = (probabilities > 0.5).to(truth.dtype)
            return 2 * (predicted * truth).sum(dim=1) / (predicted + truth).sum(dim=1).clamp(min=1.0)
        likely = torch.where(truth > 0, probabilities, 1.0 - probabilities)
        return likely.clamp(min=1e-6).log().mean(dim=1).exp()

    def quality(self, probabilities: Float[Tensor, "n labels"], truth: Float[Tensor, "n labels"]) -> float:
        """Return micro-F1: 2 hits / (predicted labels + true labels)."""
        predicted = (probabilities > 0.5).to(truth.dtype)
        return float(2 * (predicted * truth).sum() / (predicted + truth).sum().clamp(min=1.0))


@dataclass(frozen=True)
class Clustering(Classification):
    """Clusters, found without labels, take the place of classes."""

    clusters: int

    def outputs(self, graph: Graph) -> int:
        """Return the number of clusters."""
        return self.clusters

    def truth(self, graph: Graph) -> Int[Tensor, "nodes"]:
        """Return -1 for every node: clusters are found in training."""
        return torch.full((graph.num_nodes,), -1)


@dataclass(frozen=True)
class Partners:
    """Edges: predict the communities of a node's partners.

    The truth is q_v, the share of v's supervision edges, none of them a candidate, that lead into each community. The
    loss is the cross-entropy of the predicted probabilities p_v against q_v; f_c = sum over communities of q_v p_v is
    the probability that a partner of v is in a community drawn from p_v. All other nodes are negatives of v,
    community by community.
    """

    communities: int
    exclusive = True

    def outputs(self, graph: Graph) -> int:
        """Return the number of communities."""
        return self.communities

    def truth(self, graph: Graph) -> Float[Tensor, "nodes communities"]:
        """Return zeros: communities are found in training."""
        return torch.zeros(graph.num_nodes, self.communities)

    def loss(
        self,
        logits: Float[Tensor, "n fold_models communities"],
        truth: Float[Tensor, "n communities"],
        learns: Bool[Tensor, "n fold_models"],
    ) -> Float[Tensor, ""]:
        """Return the cross-entropy against shares."""
        return mean_by_fold_model(-(F.log_softmax(logits, dim=2) * truth[:, None]).sum(dim=2), learns)

    def score(
        self, probabilities: Float[Tensor, "n communities"], truth: Float[Tensor, "n communities"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return the probability of a partner's community, or whether the likeliest community has a partner."""
        if kind == "hit":
            likeliest = probabilities.argmax(dim=1, keepdim=True)
            return (torch.gather(truth, 1, likeliest)[:, 0] > 0).to(probabilities.dtype)
        return (probabilities * truth).sum(dim=1)

    def quality(
        self, probabilities: Float[Tensor, "n communities"], truth: Float[Tensor, "n communities"]
    ) -> float:
        """Return the mean of f_c."""
        return float((probabilities * truth).sum(dim=1).double().mean()) if len(truth) else float("nan")


def reward_weight(task: Task, label: Shaped[Tensor, "n *any"]) -> Float[Tensor, "weights"]:
    """Return the weight of each target's rewards: that of its class, or one for all.

    Without it the policy learns from the frequent classes alone which neighbours to keep.
    """
    weights = task.class_weights if isinstance(task, Classification) else None
    if weights is None:
        return torch.ones(1, device=label.device)
    return torch.tensor(weights, device=label.device)[label]


def mean_by_fold_model(
    losses: Float[Tensor, "n fold_models"], learns: Bool[Tensor, "n fold_models"]
) -> Float[Tensor, ""]:
    """Return the sum of the fold models' losses, each averaged over the nodes it may learn from."""
    return ((losses * learns).sum(dim=0) / learns.sum(dim=0).clamp(min=1)).sum()


def may_learn(left_out_by: Int[Tensor, "n"], fold_models: int) -> Bool[Tensor, "n fold_models"]:
    """Return which fold models may learn from each node: the first, and all others that do not leave it out."""
    fold_model = torch.arange(fold_models, device=left_out_by.device)
    return (fold_model == 0) | (fold_model != left_out_by[:, None])
