"""Deep graph infomax (Velickovic et al., 2019): representations without labels.

On rows propagated over weighted edges, h = PReLU(P(X) W + b). A bilinear form of h and the mean of all h tells a
node's own features from features shuffled among the nodes. torch_geometric's `DeepGraphInfomax` gives the same
weights in the same time, but importing it takes 1.9 s of CPU and saves no line.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet.config import ClustersSettings
from gdpnet.representation.propagation import Propagation


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
    return encoder.requires_grad_(False)
