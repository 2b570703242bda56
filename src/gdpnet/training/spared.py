"""Tell whether noise spares the validation nodes, which then do not show what it does.

Who wants the predictions of some nodes to be wrong adds edges to these, and few to the nodes that choices are made
on. No label is needed to notice: by the genuine probabilities, the edges of validation nodes look less like noise.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import owners_of
from gdpnet.config import ThresholdSettings
from gdpnet.data.prepare import Prepared


class NoiseAround(NamedTuple):
    """The share of noise among the edges of validation nodes and of all others, and how sure the difference is."""

    validation: float
    others: float
    deviation: float
    """Standard deviation of the difference."""

    def is_less(self, settings: ThresholdSettings) -> bool:
        """Return whether there is clearly less noise around validation nodes."""
        lead = self.others - self.validation
        is_clear = lead > settings.spared_deviations * self.deviation
        return is_clear and self.others >= settings.spared_ratio * self.validation


def noise_that_spares(
    genuine: Float[Tensor, "edges"],
    prepared: Prepared,
    validation: Int[Tensor, "some"],
    settings: ThresholdSettings,
) -> tuple[float, float] | None:
    """Return the noise around validation nodes and around others, if there is noise and it spares the first."""
    if float(1.0 - genuine.double().mean()) < settings.min_noise:
        return None
    found = noise_around(genuine, prepared, validation)
    return None if found is None or not found.is_less(settings) else (found.validation, found.others)


def noise_around(
    genuine: Float[Tensor, "edges"], prepared: Prepared, validation: Int[Tensor, "some"]
) -> NoiseAround | None:
    """Return the noise around validation nodes and around others; None if one of both kinds has no edges.

    The deviation is that of a ratio of sums over nodes: edges of one node are not independent of each other.
    """
    target = owners_of(prepared.row_ptr.diff())
    target = target if prepared.edge is None else target[prepared.edge]
    degree = torch.bincount(target, minlength=prepared.num_nodes).double()
    noise = torch.bincount(target, 1.0 - genuine.double(), minlength=prepared.num_nodes)
    is_validation = torch.zeros(prepared.num_nodes, dtype=torch.bool, device=noise.device)
    is_validation[validation] = True
    found = [_share(noise[some], degree[some]) for some in (is_validation, ~is_validation)]
    if not all(map(isfinite, (share for share, _ in found))):
        return None
    (at_validation, variance), (at_others, other_variance) = found
    return NoiseAround(at_validation, at_others, (variance + other_variance) ** 0.5)


def _share(noise: Float[Tensor, "some"], degree: Float[Tensor, "some"]) -> tuple[float, float]:
    """Return the sum of noise over the edges of some nodes, per edge, and its variance; NaN without edges."""
    edges = degree.sum()
    share = noise.sum() / edges
    return float(share), float((noise - share * degree).square().sum() / edges.square())
