"""Nodes that no label was learned of: validation nodes, and training nodes by the fold models that left them out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet.inference.ensemble import HeadWeights, embed_fold_models, hop_features
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected
from gdpnet.representation.tasks import Task
from gdpnet.training.data import TrainingData

_AT_ONCE = 8192


@dataclass(frozen=True)
class HeldOutNodes:
    """Validation nodes, and training nodes that some fold model has not learned."""

    nodes: Int[Tensor, "held"]
    """Numbers in the whole graph."""
    labels: Shaped[Tensor, "held *any"]
    fold_model: Int[Tensor, "held"]
    """The fold model that predicts each node; -1: the mean of all."""

    @classmethod
    def of(cls, data: TrainingData) -> HeldOutNodes:
        """Gather the held-out nodes of some training data."""
        left_out = data.targets[data.fold_model[data.targets] > 0]
        left_out = left_out[:0] if data.has_suspected else left_out
        if data.is_pseudo is not None:
            left_out = left_out[~data.is_pseudo[left_out]]
        all_models = torch.full_like(data.validation, -1)
        return cls(
            torch.cat([data.validation, data.seen[left_out]]),
            torch.cat([data.validation_labels, data.labels[left_out]]),
            torch.cat([all_models, data.fold_model[left_out]]),
        )

    def spread(self, most: int) -> Int[Tensor, "some"]:
        """Return the places of at most this many held-out nodes, evenly spread."""
        count = self.nodes.numel()
        return torch.arange(0, count, max(1, -(-count // most)), device=self.nodes.device)

    def spread_over(self, most: int) -> HeldOutNodes:
        """Return at most this many of the held-out nodes, evenly spread; all of them if they are as few."""
        return self if self.nodes.numel() <= most else self.take(self.spread(most))

    def take(self, places: Int[Tensor, "some"]) -> HeldOutNodes:
        """Return some of the held-out nodes."""
        return HeldOutNodes(self.nodes[places], self.labels[places], self.fold_model[places])

    def probabilities(
        self, fold_probabilities: Float[Tensor, "held fold_models classes"]
    ) -> Float[Tensor, "held classes"]:
        """Return the class probabilities by the fold models that have not learned each node."""
        node = torch.arange(self.nodes.numel(), device=fold_probabilities.device)
        own = fold_probabilities[node, self.fold_model.clamp(min=0)]
        return torch.where(self.fold_model[:, None] >= 0, own, fold_probabilities.mean(dim=1))

    @torch.no_grad()
    def by_selected(
        self, networks: Networks, whole: Selected, weights: HeadWeights, mode: str
    ) -> dict[str, Float[Tensor, "held classes"]]:
        """Return the class probabilities by the heads that see selected neighbours and have a weight, by name."""
        edge_weight, found = whole.weight(mode), {}
        parts = self.nodes.split(_AT_ONCE)
        if weights.aggregator > 0:
            given = [
                embed_fold_models(networks.aggregators, whole.prepared, part, edge_weight)[1]
                for part in parts
            ]
            found["aggregator"] = self.probabilities(torch.cat(given))
        if weights.hopwise > 0 and networks.hopwise is not None:
            hops = [hop_features(whole.prepared, part, edge_weight) for part in parts]
            given = [networks.hopwise.fold_probabilities(networks.hopwise.embed(part)) for part in hops]
            found["hopwise"] = self.probabilities(torch.cat(given))
        return found


def quality_and_likelihood(
    task: Task, probabilities: Float[Tensor, "n classes"], labels: Shaped[Tensor, "n *any"]
) -> tuple[float, float]:
    """Return the task's quality and, to break ties, the mean logarithm of f_c."""
    likelihood = task.score(probabilities, labels, "probability").clamp(min=1e-12).log().mean()
    return task.quality(probabilities, labels), float(likelihood)
