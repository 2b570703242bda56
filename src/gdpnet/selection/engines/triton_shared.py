"""The Triton engine for several episodes per target over the same rows, without a record of their steps.

The kernel is in `triton_shared_kernel.py`, which imports Triton and is imported only if a GPU can run it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.device import has_triton
from gdpnet.errors import GDPNetError
from gdpnet.selection.engines.triton_engine import ROWS_AT_ONCE, groups_of
from gdpnet.selection.episodes import Episodes, View
from gdpnet.selection.play import DIVERGED, Play, neighbour_halves
from gdpnet.selection.policy import Policy

LONGEST_SHARED = 256
"""Candidates of an episode that a program can hold sixteen times."""


def can_share(view: View, device: torch.device, longest: int) -> bool:
    """Return whether the kernel can play episodes of this length: on a GPU, with a single fold model."""
    if view.tables is None or device.type != "cuda" or view.tables.bias.shape[0] != 1:
        return False
    return longest <= LONGEST_SHARED and has_triton()


@torch.no_grad()
def play_shared(
    policy: Policy, view: View, episodes: Episodes, play: Play, copies: int
) -> tuple[Float[Tensor, "candidates"], Float[Tensor, "candidates"]]:
    """Play each episode ``copies`` times; return each candidate's summed keep probabilities and times kept.

    The episodes' keys must leave the copy out (`begin_episodes` with ``shared_keys``).
    """
    from gdpnet.selection.engines.triton_shared_kernel import launch_shared

    assert view.tables is not None
    encoded = view.encode(episodes)
    half, groups = neighbour_halves(policy, encoded, ROWS_AT_ONCE), groups_of(episodes)
    probability, kept = launch_shared(policy, view.tables, episodes, encoded, half, play, copies, groups)
    total = probability.sum(dim=0)
    if not bool(torch.isfinite(total).all()):
        raise GDPNetError(DIVERGED)
    return total, kept.sum(dim=0, dtype=torch.float32)
