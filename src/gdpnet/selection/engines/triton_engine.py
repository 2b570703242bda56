"""Whole episodes on chip: one program of a Triton kernel plays one episode, from its first draw to its end.

The kernel itself is in `kernel.py`, which imports Triton and is imported only where a GPU is there to run it.
"""

from __future__ import annotations

import torch

from gdpnet._core.csr import ranges
from gdpnet._core.device import has_triton
from gdpnet.errors import GDPNetError
from gdpnet.selection.episodes import Episodes, Met, View
from gdpnet.selection.play import DIVERGED, Play, Played
from gdpnet.selection.policy import Policy

LONGEST = 1024
"""Candidates of an episode that a program can hold; longer ones are played step by step."""

_SHORTEST = 16
"""Episodes of up to this many candidates are played by the smallest program."""


def can_fuse(view: View, episodes: Episodes) -> bool:
    """Say whether the kernel can play these episodes: on a GPU, with Triton, and none is too long."""
    if view.tables is None or not episodes.row.is_cuda or episodes.count == 0:
        return False
    return has_triton() and int(episodes.length[0]) <= LONGEST


def play_fused(policy: Policy, view: View, episodes: Episodes, met: Met, play: Play) -> Played:
    """Play every episode of a batch to its end, each in a program of its own."""
    from gdpnet.selection.engines.triton_kernel import launch

    tables = view.tables
    assert tables is not None
    half = policy.neighbour_half(met.embedded, met.beliefs, met.pairs)
    out = launch(policy, tables, episodes, met, half, play, groups_of(episodes))
    if not bool(torch.isfinite(out.scores).all()):
        raise GDPNetError(DIVERGED)
    first = episodes.offsets[:-1] + torch.arange(episodes.count, device=episodes.offsets.device)
    episode, slot = ranges(first, out.decisions)
    step = slot - first.index_select(0, episode)
    return Played(
        episode,
        step,
        out.candidate.index_select(0, slot),
        out.kept.index_select(0, slot),
        out.score.index_select(0, slot),
        out.weight.index_select(0, slot),
        out.scores,
        out.ending,
    )


def groups_of(episodes: Episodes) -> list[tuple[int, int, int]]:
    """Cut the episodes, longest first, into runs of like length: first, last, and the size that holds them."""
    bounds = [LONGEST]
    while bounds[-1] > _SHORTEST:
        bounds.append(bounds[-1] // 2)
    # episodes of more than `bound` candidates come first, so that their number is where the next run begins
    longer = torch.stack([(episodes.length > bound).sum() for bound in [*bounds[1:], 0]]).tolist()
    starts = [0, *longer[:-1]]
    return [
        (start, end, size) for start, end, size in zip(starts, longer, bounds, strict=True) if end > start
    ]
