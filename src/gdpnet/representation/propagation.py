"""Rows propagated over weighted edges: the representations of tasks without labels.

With P the normalised adjacency, H = (1 - c) P H + c X repeated some times is personalised PageRank on rows (Gasteiger
et al., 2019). torch_geometric's `APPNP` gives the same rows, but takes 2 to 3 times as long on a CPU for a graph of
Cora's size. The link predictor propagates rows of equal length, so that a node without edges is represented as well
as a hub (Ahn and Kim, 2021).

Deep graph infomax (Velickovic et al., 2019) encodes propagated rows: h = PReLU(P(X) W + b). A bilinear form of h and
the mean of all h tells a node's own features from features shuffled among the nodes. torch_geometric's
`DeepGraphInfomax` gives the same weights in the same time, but importing it takes 1.9 s of CPU and saves no line.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet._core.progress import advance, is_time_up
from gdpnet.config import ClustersSettings, PropagationSettings
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


class Encoder(nn.Module):
    """Map propagated rows to representations."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.slope = nn.Parameter(torch.full((width,), 0.25))

    def forward(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes width"]:
        """Return the representations of propagated rows."""
        return F.prelu(torch.addmm(self.bias, rows, self.weight), self.slope)

    @torch.no_grad()
    def embed(
        self, rows: Float[Tensor, "nodes features"], propagation: Propagation
    ) -> Float[Tensor, "nodes width"]:
        """Return representations of unit length."""
        return F.normalize(self(propagation(rows)), dim=1)


@torch.enable_grad()
def fit_encoder(
    rows: Float[Tensor, "nodes features"], propagation: Propagation, settings: ClustersSettings, seed: int
) -> Encoder:
    """Fit an encoder to a graph's rows and weighted edges."""
    draws = torch.Generator().manual_seed(seed)
    encoder = Encoder(rows.shape[1], settings.width)
    bilinear = nn.Parameter(torch.empty(settings.width, settings.width))
    for weight in (encoder.weight, bilinear):
        nn.init.xavier_uniform_(weight, generator=draws)
    encoder, bilinear = encoder.to(rows.device), nn.Parameter(bilinear.detach().to(rows.device))
    optimiser = torch.optim.Adam([*encoder.parameters(), bilinear], lr=settings.learning_rate)
    orders = [torch.randperm(len(rows), generator=draws).to(rows.device) for _ in range(settings.shuffles)]
    true, shuffled = propagation(rows), [propagation(rows[order]) for order in orders]
    for step in range(settings.steps):
        positive, negative = encoder(true), encoder(shuffled[step % settings.shuffles])
        summary = bilinear @ torch.sigmoid(positive.mean(dim=0))
        loss = F.softplus(-(positive @ summary)).mean() + F.softplus(negative @ summary).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        advance(step + 1, settings.steps)
        if is_time_up():
            break
    return encoder.requires_grad_(False)
