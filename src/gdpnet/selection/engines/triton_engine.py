"""The engine for NVIDIA GPUs: programs of a Triton kernel play episodes from their first draw to their end.

The kernels import Triton and are imported only if a GPU can run them. That of `triton_kernel.py` plays one episode
per program; that of `triton_shared_kernel.py` several per target over the same rows, without a record of their steps.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.device import has_triton
from gdpnet.errors import WorkError
from gdpnet.selection.episodes import Encoded, Episodes, View
from gdpnet.selection.play import DIVERGED, Play, Slots, allocate_slots, neighbour_halves
from gdpnet.selection.policy import Policy

LONGEST, LONGEST_SHARED = 1024, 256
"""Candidates of an episode that a program can hold once or sixteen times; the reference engine plays longer ones."""

_SHORTEST = 16
"""Episodes of up to this many candidates are played by the smallest program."""

_TILE, SHARED_TILE = 16, 8
"""Candidates of each episode that are scored at once, by either kernel."""

_EPISODES = 16
"""Episodes that a program of the shared kernel plays in lockstep."""

SHARED_PRECISION = "tf32x3"
"""Precision of its products: three tensor-core products that together are as exact as one in single precision."""

SHARED_WARPS = 4


def can_use_triton(view: View, episodes: Episodes) -> bool:
    """Return whether the kernel can play these episodes: on a GPU, with Triton, and none is too long."""
    if view.tables is None or not episodes.row.is_cuda or episodes.count == 0:
        return False
    return has_triton() and int(episodes.length[0]) <= LONGEST


def can_share(view: View, device: torch.device, longest: int) -> bool:
    """Return whether the shared kernel can play episodes of this length: on a GPU, with a single fold model."""
    if view.tables is None or device.type != "cuda" or view.tables.bias.shape[0] != 1:
        return False
    return longest <= LONGEST_SHARED and has_triton()


def play_triton(policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play) -> Slots:
    """Play every episode of a batch to its end, each in its own program."""
    from gdpnet.selection.engines.triton_kernel import play_one

    assert view.tables is not None
    inputs, constants = _arguments(policy, view, episodes, encoded, play)
    classes = view.tables.head_bias.shape[1]
    slots, weighted = allocate_slots(episodes), encoded.weight is not None
    counted = encoded.weight if weighted else encoded.message
    open_ = torch.ones_like(episodes.row, dtype=torch.int8)
    for start, end, size in groups_of(episodes):
        play_one[(end - start,)](
            *inputs, counted, *slots, open_, start, view.tables.nodes, classes,
            BLOCK=size, TILE=_TILE, WEIGHTED=weighted, **constants, num_warps=4,
        )  # fmt: skip
    if not bool(torch.isfinite(slots.scores).all()):
        raise WorkError(DIVERGED)
    return slots


@torch.no_grad()
def play_shared(
    policy: Policy, view: View, episodes: Episodes, play: Play, copies: int
) -> tuple[Float[Tensor, "candidates"], Float[Tensor, "candidates"]]:
    """Play each episode ``copies`` times; return each candidate's summed keep probabilities and times kept.

    The episodes' keys must leave the copy out (`begin_episodes` with ``shared_keys``).
    """
    from gdpnet.selection.engines.triton_shared_kernel import play_copies

    assert view.tables is not None
    inputs, constants = _arguments(policy, view, episodes, view.encode(episodes), play)
    classes = view.tables.head_bias.shape[1]
    shape, device = (copies, episodes.row.numel()), episodes.row.device
    probability, kept = torch.empty(shape, device=device), torch.empty(shape, dtype=torch.int8, device=device)
    for start, end, size in groups_of(episodes):
        play_copies[(-(-(end - start) * copies // _EPISODES),)](
            *inputs, probability, kept, start, end, *shape, classes,
            ROWS=_EPISODES, TILES=max(size // SHARED_TILE, 1), TILE=SHARED_TILE, PRECISION=SHARED_PRECISION,
            **constants, num_warps=SHARED_WARPS,
        )  # fmt: skip
    total = probability.sum(dim=0)
    if not bool(torch.isfinite(total).all()):
        raise WorkError(DIVERGED)
    return total, kept.sum(dim=0, dtype=torch.float32)


def groups_of(episodes: Episodes) -> list[tuple[int, int, int]]:
    """Split the episodes, longest first, by the program size that holds them: first, last, and that size."""
    sizes = [LONGEST]
    while sizes[-1] > _SHORTEST:
        sizes.append(sizes[-1] // 2)
    # episodes of more than a size come first, so that their number is where the next group begins
    bounds = LONGEST >> torch.arange(1, len(sizes), device=episodes.offsets.device)
    bounds = torch.cat([bounds, bounds.new_zeros(1)])
    longer = (episodes.length > bounds[:, None]).sum(dim=1).tolist()
    starts = [0, *longer[:-1]]
    return [(start, end, size) for start, end, size in zip(starts, longer, sizes, strict=True) if end > start]


def _arguments(
    policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play
) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """Return the tensors that both kernels read, in the order of their arguments, and their constants."""
    tables = view.tables
    assert tables is not None
    width, (first, second) = tables.own.shape[1], policy.hidden_weight.shape
    inputs = (
        tables.own, tables.bias, tables.heads.contiguous(), tables.head_bias,
        episodes.target_row, episodes.offsets, episodes.key, episodes.ending_key,
        encoded.message, neighbour_halves(policy, encoded), encoded.probabilities,
        policy.target_weight,
        policy.target_weight[width:] if policy.extras else policy.target_weight[:2],
        policy.first_bias,
        policy.agreement_weight if policy.extras else policy.first_bias,
        policy.hidden_weight, policy.hidden_bias, policy.score_weight, policy.score_bias, policy.ending_half(),
    )  # fmt: skip
    sizes = {"WIDTH": width, "CLASSES": tables.head_bias.shape[1], "FIRST": first, "SECOND": second}
    # blocks are powers of two, and products need sixteen rows and columns or more
    blocks = {f"{name}_P": max(16, 1 << (size - 1).bit_length()) for name, size in sizes.items()}
    del sizes["CLASSES"]  # an argument: another number of classes is not compiled anew
    modes = {"GREEDY": play.greedy, "LEARNED": play.learned_order, "CAN_END": play.can_end}
    return inputs, sizes | blocks | modes | {"EXTRAS": policy.extras, "SELF_WEIGHT": tables.self_weight}
