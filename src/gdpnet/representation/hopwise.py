"""The hop-wise network, with one weight matrix per hop.

AGG shares one matrix between a node and its neighbours, which loses information if the node's own features are
predictive. Here h = relu(sum over r of R_r W_r + b), where R_0 are the node's features, R_1 their mean over the node
and its selected neighbours, and R_2 the mean of those neighbours' messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet.data.features import Features, project
from gdpnet.representation.aggregator import FoldModels


class HopwiseNetwork(FoldModels):
    """An ensemble of hop-wise networks of the same shape; embeddings are those of the first."""

    weight: nn.Parameter

    def __init__(
        self, features: int, width: int, classes: int, fold_models: int, hops: int, *, exclusive: bool = True
    ) -> None:
        weight = nn.Parameter(torch.zeros(hops, features, fold_models * width))
        super().__init__(width, classes, fold_models, exclusive, weight=weight)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of each fold model separately; its hops share one fan-in."""
        hops, features, _ = self.weight.shape
        with torch.no_grad():
            for fold_model in range(self.fold_models):
                one = torch.empty(hops * features, self.width)
                nn.init.xavier_uniform_(one, generator=generator)
                columns = slice(fold_model * self.width, (fold_model + 1) * self.width)
                self.weight[:, :, columns] = one.view(hops, features, self.width)
                nn.init.xavier_uniform_(self.head_weight[fold_model], generator=generator)

    def embed(self, hops: Sequence[Features]) -> Float[Tensor, "nodes fold_models width"]:
        """Return h of every fold model."""
        parts = [project(rows, weight) for rows, weight in zip(hops, self.weight, strict=True)]
        hidden = torch.stack(parts).sum(dim=0).unflatten(1, (self.fold_models, self.width))
        return torch.relu(hidden + self.bias)
