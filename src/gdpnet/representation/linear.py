"""Linear models of a node's own features, one per fold: softmax regression for classes."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from gdpnet.representation.tasks import Task


class LinearModels(nn.Module):
    """Several linear models of the same shape, the fold models: scores = X W + b."""

    def __init__(self, features: int, outputs: int, fold_models: int, *, exclusive: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(fold_models, features, outputs))
        self.bias = nn.Parameter(torch.zeros(fold_models, outputs))
        self.exclusive = exclusive

    def scores(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes fold_models outputs"]:
        """Return the scores of each fold model."""
        return torch.einsum("nf,mfc->nmc", rows, self.weight) + self.bias

    def fold_probabilities(
        self, rows: Float[Tensor, "nodes features"]
    ) -> Float[Tensor, "nodes fold_models outputs"]:
        """Return the class probabilities of each fold model."""
        scores = self.scores(rows)
        return torch.softmax(scores, dim=2) if self.exclusive else torch.sigmoid(scores)

    def to_probabilities(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes outputs"]:
        """Return the mean of the fold models' probabilities."""
        return self.fold_probabilities(rows).mean(dim=1)

    def fit(
        self,
        rows: Float[Tensor, "nodes features"],
        labels: Shaped[Tensor, "nodes *any"],
        learns: Bool[Tensor, "nodes fold_models"],
        task: Task,
        penalty: float,
        steps: int,
    ) -> None:
        """Fit by L-BFGS; ``penalty`` is that of a standardised column, against the sum over nodes of the loss."""
        centre, scale = rows.mean(dim=0), rows.std(dim=0, correction=0)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        inputs, share = (rows - centre) / scale, 0.5 * penalty / max(1, len(rows))
        optimiser = torch.optim.LBFGS(self.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = task.loss(self.scores(inputs), labels, learns) + share * self.weight.square().sum()
            value.backward()
            return value

        with torch.enable_grad():
            optimiser.step(loss)
        with torch.no_grad():  # in terms of the columns as they are
            self.weight.div_(scale[:, None])
            self.bias.sub_(torch.einsum("f,mfc->mc", centre, self.weight))
