"""Several episodes of each target over the same rows, for decisions whose steps nobody asks about.

The kernel itself is in `shared_kernel.py`, which imports Triton and is imported only where a GPU is there to run it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.device import has_triton
from gdpnet.errors import GDPNetError
from gdpnet.selection.engines.triton_engine import groups_of
from gdpnet.selection.episodes import Episodes, View
from gdpnet.selection.play import DIVERGED, Play
from gdpnet.selection.policy import Policy

LONGEST_SHARED = 256
"""Candidates of an episode that a program can hold sixteen times."""

_HALF_ROWS = 1 << 20
"""Candidates whose half of the first layer is computed at once."""


def can_share(view: View, device: torch.device, longest: int) -> bool:
    """Say whether the kernel can play episodes of up to so many candidates: on a GPU, as one member sees them."""
    if view.tables is None or device.type != "cuda" or view.tables.bias.shape[0] != 1:
        return False
    return longest <= LONGEST_SHARED and has_triton()


@torch.no_grad()
def play_shared(
    policy: Policy, view: View, episodes: Episodes, play: Play, copies: int
) -> tuple[Float[Tensor, "candidates"], Float[Tensor, "candidates"]]:
    """Play every episode as often as asked; return each candidate's summed keep chances, and how often it was kept.

    The episodes' keys must leave the copy out (`begin_episodes` with ``shared_keys``).
    """
    from gdpnet.selection.engines.triton_shared_kernel import launch_shared

    tables = view.tables
    assert tables is not None
    met = view.meet(episodes)
    half = torch.empty(episodes.row.numel(), policy.first_bias.numel(), device=met.given.device)
    for start in range(0, half.shape[0], _HALF_ROWS):
        part = slice(start, start + _HALF_ROWS)
        half[part] = policy.neighbour_half(met.embedded[part], met.beliefs[part], met.pairs[part])
    chance, kept = launch_shared(policy, tables, episodes, met, half, play, copies, groups_of(episodes))
    total = chance.sum(dim=0)
    if not bool(torch.isfinite(total).all()):
        raise GDPNetError(DIVERGED)
    return total, kept.sum(dim=0, dtype=torch.float32)
