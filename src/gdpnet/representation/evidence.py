"""Label-free evidence that an edge is genuine: boosted trees that tell a graph's own edges from injected ones.

The own edges of a noisy graph are a mixture: a share pi of them is noise. If noise looks like injected edges, then

    P(genuine | x) = 1 - pi p(x | injected) / p(x | own),

where the ratio of densities follows from a classifier of own against injected edges. Learning from such a mixture is
called positive-unlabelled learning.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gdpnet.representation.trees import BoostedTrees

LEAST_CHANCE = 1e-4
"""Probabilities are clipped at this distance from 0 and 1 before their logit is taken."""

_NEAR_ZERO = 1.05
"""The corrected probability is a straight line through zero below this many times the density ratio pi."""


def logit(chance: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Return the logarithm of the odds, finite also at 0 and 1."""
    chance = chance.clamp(LEAST_CHANCE, 1.0 - LEAST_CHANCE)
    return chance.log() - (1.0 - chance).log()


def genuine_share(
    log_ratio: Float[Tensor, "*n"], noise_share: Float[Tensor, ""] | float
) -> Float[Tensor, "*n"]:
    """Return 1 - pi / r, where r is the density ratio of own to injected edges and pi the noise share.

    It would be negative for r below pi. A line through zero takes its place there, so that no two edges of different
    r are tied.
    """
    ratio = log_ratio.double().exp()
    share = torch.as_tensor(noise_share, dtype=torch.double, device=ratio.device)
    bend = _NEAR_ZERO * share
    low = (1.0 - 1.0 / _NEAR_ZERO) * ratio / bend.clamp(min=1e-12)
    return torch.where(ratio < bend, low, 1.0 - share / ratio.clamp(min=1e-12)).float()


def estimate_noise_share(
    score: Float[Tensor, "n"], own: Bool[Tensor, "n"], *, least: float = 0.2, deviations: float = 2.0
) -> float:
    """Return the largest share of noise among own edges that scores allow, from 0 to 1.

    Among edges of a low score, own edges are as frequent as noise at least. So the share is at most the ratio of the
    distribution functions of own and injected scores, wherever they are compared; the smallest ratio counts. Compared
    is where ``least`` of the injected edges or more lie below; some standard deviations guard against chance.
    """
    if not bool(own.any()) or bool(own.all()):
        return 0.0
    score, order = score.double().sort()
    own = own[order]
    last = torch.ones_like(own)
    last[:-1] = score[1:] != score[:-1]  # edges of equal score lie below together
    below, margin = [], []
    for kind in (own, ~own):
        share = (kind.double().cumsum(0) / kind.sum())[last]
        below.append(share)
        margin.append(deviations * (share * (1.0 - share) / kind.sum()).sqrt())
    ratio = (below[0] + margin[0]) / (below[1] - margin[1]).clamp(min=1e-12)
    return min(1.0, float(ratio[below[1] >= least].min()))


class Calibration(nn.Module):
    """Logistic regression of own against injected edges, corrected for noise among the own ones.

    ``weight`` and ``bias`` give the logarithm of the density ratio of own to injected edges.
    """

    weight: Tensor
    bias: Tensor
    noise_share: Tensor

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(inputs))
        self.register_buffer("bias", torch.zeros(()))
        self.register_buffer("noise_share", torch.zeros(()))

    def log_ratio(self, inputs: Float[Tensor, "edges inputs"]) -> Float[Tensor, "edges"]:
        """Return the logarithm of the density ratio of own to injected edges."""
        return (inputs * self.weight).sum(dim=1) + self.bias

    def forward(self, inputs: Float[Tensor, "edges inputs"]) -> Float[Tensor, "edges"]:
        """Return the probability that each edge is genuine."""
        return genuine_share(self.log_ratio(inputs), self.noise_share)


class EvidenceModel(nn.Module):
    """Two passes of boosted trees over pair features; no label has a part in them.

    The first sees the structural pair features of each edge. The second also sees those in the graph without the
    edges that the first finds spurious. Both return the probability that an edge is own rather than injected.
    """

    def __init__(self, first: BoostedTrees, second: BoostedTrees) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.first_calibration, self.second_calibration = Calibration(1), Calibration(1)

    @property
    def device(self) -> torch.device:
        """Return the device that the trees are on."""
        return self.first.root.device

    def first_score(self, pairs: Float[Tensor, "edges columns"]) -> Float[Tensor, "edges"]:
        """Return the score of the first pass, for one direction of each edge."""
        return self.first.to_probabilities(pairs)[:, 0]

    def second_score(
        self, pairs: Float[Tensor, "edges columns"], cleaned: Float[Tensor, "edges columns"]
    ) -> Float[Tensor, "edges"]:
        """Return the score of the second pass, given the pair features in the cleaned graph too."""
        return self.second.to_probabilities(torch.cat([pairs, cleaned], dim=1))[:, 0]

    def is_trusted(self, score: Float[Tensor, "edges"]) -> Bool[Tensor, "edges"]:
        """Return which edges stay for the second pass, given the first scores, the mean of both directions."""
        return self.first_calibration(logit(score)[:, None]) >= 0.5

    def genuine(self, score: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
        """Return the probability that edges are genuine, given the second scores, the mean of both directions."""
        return self.second_calibration(logit(score)[:, None])
