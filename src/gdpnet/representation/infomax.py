"""Representations that no label was read for: nodes where they are, told from nodes with another's features.

Deep graph infomax (Velickovic et al., 2019) on rows spread over weighted links: h = PReLU(S(X) W + b), and a bilinear
form of h and the mean of all h says whether a node's features are its own or were shuffled among the nodes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gdpnet.representation.propagation import Spread

WIDTH = 256
_STEPS = 150
_SHUFFLES = 10
"""Draws of shuffled features, which the steps take in turn: spreading is what costs."""
_LEARNING_RATE = 1e-3


class Encoder(nn.Module):
    """Represent nodes by what is spread to them."""

    def __init__(self, features: int, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.slope = nn.Parameter(torch.full((width,), 0.25))

    def forward(self, rows: Float[Tensor, "nodes features"]) -> Float[Tensor, "nodes width"]:
        """Return the representations of rows that were spread."""
        return F.prelu(torch.addmm(self.bias, rows, self.weight), self.slope)

    @torch.no_grad()
    def embed(self, rows: Float[Tensor, "nodes features"], spread: Spread) -> Float[Tensor, "nodes width"]:
        """Return representations of length one."""
        return F.normalize(self(spread(rows)), dim=1)


@torch.enable_grad()
def fit_encoder(rows: Float[Tensor, "nodes features"], spread: Spread, seed: int) -> Encoder:
    """Fit an encoder to a graph's rows and weighted links."""
    draws = torch.Generator().manual_seed(seed)
    encoder = Encoder(rows.shape[1])
    form = nn.Parameter(torch.empty(WIDTH, WIDTH))
    for weight in (encoder.weight, form):
        nn.init.xavier_uniform_(weight, generator=draws)
    encoder, form = encoder.to(rows.device), nn.Parameter(form.detach().to(rows.device))
    optimiser = torch.optim.Adam([*encoder.parameters(), form], lr=_LEARNING_RATE)
    orders = [torch.randperm(len(rows), generator=draws).to(rows.device) for _ in range(_SHUFFLES)]
    true, shuffled = spread(rows), [spread(rows[order]) for order in orders]
    for step in range(_STEPS):
        here, elsewhere = encoder(true), encoder(shuffled[step % _SHUFFLES])
        whole = form @ torch.sigmoid(here.mean(dim=0))
        loss = F.softplus(-(here @ whole)).mean() + F.softplus(elsewhere @ whole).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return encoder.requires_grad_(False)
