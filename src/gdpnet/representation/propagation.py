"""Rows propagated over weighted edges: the representations of tasks without labels.

With P the normalised adjacency, H = (1 - c) P H + c X repeated some times is personalised PageRank on rows (Gasteiger
et al., 2019). torch_geometric's `APPNP` gives the same rows, but takes 2 to 3 times as long on a CPU for a graph of
Cora's size. The link predictor propagates rows of equal length, so that a node without edges is represented as well
as a hub (Ahn and Kim, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet.config import PropagationSettings
from gdpnet.data.features import Features, project
from gdpnet.representation.gcn import NormalisedAdjacency


@dataclass(frozen=True)
class Propagation:
    """Personalised PageRank on the rows of a graph."""

    adjacency: NormalisedAdjacency
    steps: int
    restart: float

    @classmethod
    def over(
        cls,
        row_ptr: Int[Tensor, "offsets"],
        neighbour: Int[Tensor, "edges"],
        weight: Float[Tensor, "edges"],
        settings: PropagationSettings,
    ) -> Propagation:
        """Return the propagation over some weighted edges."""
        return cls(NormalisedAdjacency.of(row_ptr, neighbour, weight), settings.steps, settings.restart)

    def __call__(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
        """Propagate rows, returning to them with probability ``restart`` at each step."""
        propagated = rows
        for _ in range(self.steps):
            propagated = (1.0 - self.restart) * self.adjacency(propagated) + self.restart * rows
        return propagated


class LinkPredictor(nn.Module):
    """Represent nodes such that the inner product of two is the logit of an edge between them.

    z = propagate(length x W / |x W|); p(edge between u and v) = sigmoid(z_u z_v).
    """

    def __init__(self, features: int, width: int, length: float) -> None:
        super().__init__()
        self.length = length
        self.weight = nn.Parameter(torch.zeros(features, width))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights."""
        nn.init.xavier_uniform_(self.weight, generator=generator)

    def embed(self, features: Features, propagation: Propagation) -> Float[Tensor, "nodes width"]:
        """Return z of every node."""
        return propagation(self.length * F.normalize(project(features, self.weight), dim=1))


def inner_products(
    embedded: Float[Tensor, "nodes width"], ends: Int[Tensor, "2 pairs"]
) -> Float[Tensor, "pairs"]:
    """Return the inner product of each pair's rows, the logit of an edge."""
    return (embedded.index_select(0, ends[0]) * embedded.index_select(0, ends[1])).sum(dim=1)
