"""The engine for NVIDIA GPUs: one program of a Triton kernel plays one episode from its first draw to its end.

The kernel is in `triton_kernel.py`, which imports Triton and is imported only if a GPU can run it.
"""

from __future__ import annotations

import torch

from gdpnet._core.device import has_triton
from gdpnet.errors import GDPNetError
from gdpnet.selection.episodes import Encoded, Episodes, View
from gdpnet.selection.play import DIVERGED, Play, Played, allocate_slots, neighbour_halves, read_slots
from gdpnet.selection.policy import Policy

LONGEST = 1024
"""Candidates of an episode that a program can hold; longer episodes are played by the reference engine."""

ROWS_AT_ONCE = 1 << 20
"""Candidates whose half of the first layer is computed at once."""

_SHORTEST = 16
"""Episodes of up to this many candidates are played by the smallest program."""


def can_use_triton(view: View, episodes: Episodes) -> bool:
    """Return whether the kernel can play these episodes: on a GPU, with Triton, and none is too long."""
    if view.tables is None or not episodes.row.is_cuda or episodes.count == 0:
        return False
    return has_triton() and int(episodes.length[0]) <= LONGEST


def play_triton(policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play) -> Played:
    """Play every episode of a batch to its end, each in its own program."""
    from gdpnet.selection.engines.triton_kernel import launch

    assert view.tables is not None
    half, slots = neighbour_halves(policy, encoded, ROWS_AT_ONCE), allocate_slots(episodes)
    launch(policy, view.tables, episodes, encoded, half, play, groups_of(episodes), slots)
    if not bool(torch.isfinite(slots.scores).all()):
        raise GDPNetError(DIVERGED)
    return read_slots(episodes, slots)


def groups_of(episodes: Episodes) -> list[tuple[int, int, int]]:
    """Split the episodes, longest first, by the program size that holds them: first, last, and that size."""
    sizes = [LONGEST]
    while sizes[-1] > _SHORTEST:
        sizes.append(sizes[-1] // 2)
    # episodes of more than `size` candidates come first, so that their number is where the next group begins
    longer = torch.stack([(episodes.length > size).sum() for size in [*sizes[1:], 0]]).tolist()
    starts = [0, *longer[:-1]]
    return [(start, end, size) for start, end, size in zip(starts, longer, sizes, strict=True) if end > start]
