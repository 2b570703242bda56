"""Regression as the task of predicting a histogram (HL-Gauss: Imani and White, 2018; Farebrother et al., 2024).

The range of the numbers is cut into bins of equal width. The aim of a node is a Gaussian around its number, three
quarters of a bin wide, as probabilities of the bins; the prediction is the mean of the predicted histogram. All that
is made for classes works for bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gdpnet._core.significance import Lead, lead_of_errors
from gdpnet.data.graph import Graph
from gdpnet.data.labels import as_targets
from gdpnet.representation.tasks import mean_by_fold_model

_DEVIATION = 0.75
"""Standard deviation of the aim, in bins."""

_MARGIN = 1.5
"""Bins beyond the range on each side, so that the aim of the largest number is not cut off."""


@dataclass(frozen=True)
class Regression:
    """One number per node: cross-entropy against the aim; f_c is the probability of the aim; R2."""

    centres: tuple[float, ...]
    """Centres of the bins, ascending in equal steps."""
    exclusive = True
    metric = "r2"

    @property
    def width(self) -> float:
        """Return the width of a bin."""
        return (self.centres[-1] - self.centres[0]) / (len(self.centres) - 1)

    def outputs(self, graph: Graph) -> int:
        """Return the number of bins."""
        return len(self.centres)

    def truth(self, graph: Graph) -> Float[Tensor, "nodes"]:
        """Return the number of each node, NaN if unknown."""
        targets = as_targets(graph).targets
        return torch.full((graph.num_nodes,), math.nan) if targets is None else targets

    def loss(
        self,
        logits: Float[Tensor, "n fold_models bins"],
        truth: Float[Tensor, "n"],
        learns: Bool[Tensor, "n fold_models"],
    ) -> Float[Tensor, ""]:
        """Return the cross-entropy against the aims."""
        aim = self.aims(truth)[:, None]
        return mean_by_fold_model(-(F.log_softmax(logits, dim=2) * aim).sum(dim=2), learns)

    def score(
        self, probabilities: Float[Tensor, "n bins"], truth: Float[Tensor, "n"], kind: str
    ) -> Float[Tensor, "n"]:
        """Return the probability of the aim, or 1 / (1 + error in bins)."""
        if kind == "hit":
            return 1.0 / (1.0 + (self.mean(probabilities) - truth).abs() / self.width)
        return (probabilities * self.aims(truth)).sum(dim=1)

    def quality(self, probabilities: Float[Tensor, "n bins"], truth: Float[Tensor, "n"]) -> float:
        """Return R2, the share of the variance that is explained."""
        return r2(self.mean(probabilities), truth)

    def compare(
        self, mine: Float[Tensor, "n bins"], other: Float[Tensor, "n bins"], truth: Float[Tensor, "n"]
    ) -> Lead:
        """Return by how much the squared errors of the first are smaller."""
        return lead_of_errors(*((self.mean(one) - truth).square() for one in (mine, other)))

    def aims(self, truth: Float[Tensor, "n"]) -> Float[Tensor, "n bins"]:
        """Return the probability of each bin under a Gaussian around a number, cut off at the range."""
        edges = torch.tensor(self.centres, device=truth.device, dtype=torch.float64) - self.width / 2
        edges = torch.cat([edges, edges[-1:] + self.width])
        inside = truth.double().clamp(self.centres[0], self.centres[-1])[:, None]
        share = torch.special.ndtr((edges - inside) / (_DEVIATION * self.width)).diff(dim=1)
        return (share / share.sum(dim=1, keepdim=True)).float()

    def mean(self, probabilities: Float[Tensor, "n bins"]) -> Float[Tensor, "n"]:
        """Return the mean of each histogram."""
        return probabilities @ probabilities.new_tensor(self.centres)

    def quantile(self, probabilities: Float[Tensor, "n bins"], share: float) -> Float[Tensor, "n"]:
        """Return the number below which a share of each histogram lies, interpolated within its bin."""
        below = probabilities.double().cumsum(dim=1)
        place = (below < share * below[:, -1:]).sum(dim=1, keepdim=True).clamp(max=len(self.centres) - 1)
        own = probabilities.double().gather(1, place)
        part = (share * below[:, -1:] - (below.gather(1, place) - own)) / own.clamp(min=1e-12)
        left = torch.tensor(self.centres, device=place.device, dtype=torch.float64)[place] - self.width / 2
        return (left + self.width * part.clamp(0.0, 1.0))[:, 0].to(probabilities.dtype)


def r2(predicted: Float[Tensor, "n"], truth: Float[Tensor, "n"]) -> float:
    """Return 1 - squared error / variance; NaN if the truth does not vary."""
    error = (predicted - truth).double().square().sum()
    spread = (truth.double() - truth.double().mean()).square().sum() if truth.numel() else truth.sum()
    return float(1.0 - error / spread) if float(spread) > 0 else math.nan


def bins_of(numbers: Float[Tensor, "n"], bins: int) -> Regression:
    """Return the task with bins over the range of some numbers.

    Beyond the middle 98 % the range goes on for at most half their spread, so that a few extreme numbers do not
    leave all others in one bin; a number outside counts as the nearest one inside.
    """
    values = numbers.double()
    low, high = values.quantile(0.01), values.quantile(0.99)
    slack = 0.5 * (high - low) if high > low else values.max() - values.min()
    low, high = torch.maximum(values.min(), low - slack), torch.minimum(values.max(), high + slack)
    width = float(high - low) / (bins - 2 * _MARGIN)
    first = float(low) + (0.5 - _MARGIN) * width
    return Regression(tuple(first + place * width for place in range(bins)))


def from_names(names: Sequence[str]) -> Regression:
    """Return the task whose bin centres a model file names."""
    return Regression(tuple(float(name) for name in names))
