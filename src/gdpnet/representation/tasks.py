"""What a representation is for: its truth, its loss, and f_c, the score of a target under its beliefs.

A task is what differs between learning classes, sets of labels, partners or anything of a user's own. Selection
never sees one: it is handed rewards, which `gdpnet.training.rewards` makes of f_c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gdpnet.data.graph import Graph


@runtime_checkable
class Task(Protocol):
    """What representations are learned for; the shipped ones are below, a user may write another."""

    @property
    def exclusive(self) -> bool:
        """Say whether the beliefs about a node add up to one (softmax), or each stands for itself (sigmoid)."""

    def outputs(self, graph: Graph) -> int:
        """Return how many beliefs there are about a node."""

    def truth(self, graph: Graph) -> Shaped[Tensor, "nodes *any"]:
        """Return what is known of each node, a row each; rows of nodes without a label are never read."""

    def loss(
        self,
        logits: Float[Tensor, "n members outputs"],
        truth: Shaped[Tensor, "n *any"],
        learns: Bool[Tensor, "n members"],
    ) -> Float[Tensor, ""]:
        """Return the members' losses added up, each averaged over the nodes that it may learn from."""

    def score(
        self, beliefs: Float[Tensor, "n outputs"], truth: Shaped[Tensor, "n *any"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return f_c of each target, within 0 and 1: a ``hit``, or a graded ``probability``, above zero."""

    def quality(self, beliefs: Float[Tensor, "n outputs"], truth: Shaped[Tensor, "n *any"]) -> float:
        """Return how good beliefs are, greater is better; the best epoch is chosen by it."""


class Classification:
    """One class a node: cross-entropy, f_c the hit or the probability of the true class, micro-F1."""

    exclusive = True

    def outputs(self, graph: Graph) -> int:
        """Return the number of classes."""
        return graph.num_classes

    def truth(self, graph: Graph) -> Int[Tensor, "nodes"]:
        """Return the class of each node."""
        return graph.labels

    def loss(
        self,
        logits: Float[Tensor, "n members classes"],
        truth: Int[Tensor, "n"],
        learns: Bool[Tensor, "n members"],
    ) -> Float[Tensor, ""]:
        """Return cross-entropy."""
        return classification_loss(logits, truth, learns)

    def score(
        self, beliefs: Float[Tensor, "n classes"], truth: Int[Tensor, "n"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return the hit or the probability of the true class."""
        return hit_or_probability(beliefs, truth, kind)

    def quality(self, beliefs: Float[Tensor, "n classes"], truth: Int[Tensor, "n"]) -> float:
        """Return micro-F1."""
        return micro_f1(beliefs.argmax(dim=1), truth)


CLASSIFICATION = Classification()


JOINS = "|"
"""What parts the labels of a node where it may have several: the class ``red|round`` is two labels."""


def label_names(graph: Graph) -> tuple[str, ...]:
    """Return every label that the names of a graph's classes are made of, in the order of the alphabet."""
    return tuple(sorted({part for name in graph.class_names for part in name.split(JOINS) if part}))


@dataclass(frozen=True)
class MultiLabel:
    """Any number of labels a node: binary cross-entropy over labels, micro-F1 over all nodes and labels.

    f_c of a node is the F1 of the labels it is believed to have (hit), or the geometric mean over labels of the
    probability of what is true of it, so that the marginal reward is the gain in mean log-likelihood.
    """

    names: tuple[str, ...]
    exclusive = False

    def outputs(self, graph: Graph) -> int:
        """Return the number of labels."""
        return len(self.names)

    def truth(self, graph: Graph) -> Float[Tensor, "nodes labels"]:
        """Return which labels each node has, as ones and zeros."""
        sets = [set(name.split(JOINS)) for name in graph.class_names]
        table = torch.tensor([[float(name in one) for name in self.names] for one in sets])
        return table[graph.labels.clamp(min=0)]

    def loss(
        self,
        logits: Float[Tensor, "n members labels"],
        truth: Float[Tensor, "n labels"],
        learns: Bool[Tensor, "n members"],
    ) -> Float[Tensor, ""]:
        """Return binary cross-entropy."""
        wanted = truth[:, None].expand_as(logits)
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        return mean_by_member(losses.sum(dim=2), learns)

    def score(
        self, beliefs: Float[Tensor, "n labels"], truth: Float[Tensor, "n labels"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return each node's own F1, or how likely its labels are."""
        if kind == "hit":
            believed = (beliefs > 0.5).to(truth.dtype)
            return 2 * (believed * truth).sum(dim=1) / (believed + truth).sum(dim=1).clamp(min=1.0)
        likely = torch.where(truth > 0, beliefs, 1.0 - beliefs)
        return likely.clamp(min=1e-6).log().mean(dim=1).exp()

    def quality(self, beliefs: Float[Tensor, "n labels"], truth: Float[Tensor, "n labels"]) -> float:
        """Return micro-F1: 2 hits / (labels believed + labels there are)."""
        believed = (beliefs > 0.5).to(truth.dtype)
        return float(2 * (believed * truth).sum() / (believed + truth).sum().clamp(min=1.0))


@dataclass(frozen=True)
class Clustering(Classification):
    """Clusters that were found without labels stand for classes."""

    clusters: int

    def outputs(self, graph: Graph) -> int:
        """Return the number of clusters."""
        return self.clusters

    def truth(self, graph: Graph) -> Int[Tensor, "nodes"]:
        """Return nothing yet: clusters are found, not given."""
        return torch.full((graph.num_nodes,), -1)


@dataclass(frozen=True)
class Partners:
    """Links: foretell where the partners of a node are.

    Truth is q_v, the share of v's links, none of them a candidate, that lead into each community. The loss is the
    cross-entropy of beliefs b_v against q_v; f_c = sum over communities of q_v b_v, the probability that a partner of
    v is where v is believed to have it. All that are no partners of v are its negatives, community by community.
    """

    communities: int
    exclusive = True

    def outputs(self, graph: Graph) -> int:
        """Return the number of communities."""
        return self.communities

    def truth(self, graph: Graph) -> Float[Tensor, "nodes communities"]:
        """Return nothing yet: communities are found, not given."""
        return torch.zeros(graph.num_nodes, self.communities)

    def loss(
        self,
        logits: Float[Tensor, "n members communities"],
        truth: Float[Tensor, "n communities"],
        learns: Bool[Tensor, "n members"],
    ) -> Float[Tensor, ""]:
        """Return cross-entropy against shares."""
        return mean_by_member(-(F.log_softmax(logits, dim=2) * truth[:, None]).sum(dim=2), learns)

    def score(
        self, beliefs: Float[Tensor, "n communities"], truth: Float[Tensor, "n communities"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return how likely a partner is where it is believed to be, or whether the likeliest place has one."""
        if kind == "hit":
            return (torch.gather(truth, 1, beliefs.argmax(dim=1, keepdim=True))[:, 0] > 0).to(beliefs.dtype)
        return (beliefs * truth).sum(dim=1)

    def quality(
        self, beliefs: Float[Tensor, "n communities"], truth: Float[Tensor, "n communities"]
    ) -> float:
        """Return the mean of f_c."""
        return float((beliefs * truth).sum(dim=1).double().mean()) if len(truth) else float("nan")


def classification_loss(
    logits: Float[Tensor, "n members classes"], label: Int[Tensor, "n"], learns: Bool[Tensor, "n members"]
) -> Float[Tensor, ""]:
    """Return the members' cross-entropies added up, each averaged over the nodes that it may learn from."""
    losses = F.cross_entropy(
        logits.flatten(0, 1), label.repeat_interleave(logits.shape[1]), reduction="none"
    ).unflatten(0, logits.shape[:2])
    return mean_by_member(losses, learns)


def mean_by_member(
    losses: Float[Tensor, "n members"], learns: Bool[Tensor, "n members"]
) -> Float[Tensor, ""]:
    """Add up the members' losses, each averaged over the nodes that it may learn from."""
    return ((losses * learns).sum(dim=0) / learns.sum(dim=0).clamp(min=1)).sum()


def may_learn(left_out_by: Int[Tensor, "n"], members: int) -> Bool[Tensor, "n members"]:
    """Say which members may learn from each node: the first, and all others but the one that leaves it out."""
    member = torch.arange(members, device=left_out_by.device)
    return (member == 0) | (member != left_out_by[:, None])


def hit_or_probability(
    beliefs: Float[Tensor, "n classes"], label: Int[Tensor, "n"], kind: str
) -> Float[Tensor, "n"]:
    """Return f_c of each target: its own micro-F1 (hit, 0 or 1), or the probability of its true class."""
    if kind == "hit":
        return (beliefs.argmax(dim=1) == label).to(beliefs.dtype)
    return torch.gather(beliefs, 1, label[:, None])[:, 0]


def micro_f1(predicted: Int[Tensor, "n"], label: Int[Tensor, "n"]) -> float:
    """Return micro-averaged F1, which for one label a node is the share of hits."""
    return float((predicted == label).double().mean()) if label.numel() else float("nan")
