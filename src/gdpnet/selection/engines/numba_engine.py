"""The engine for CPUs: a function compiled by numba plays one episode after the other, in several threads.

The function is in `numba_kernel.py`, which imports numba and is imported only when episodes are played with it.
The threads are Python's own, started and ended with each batch, since the compiled function releases the interpreter
lock: none of them is alive when the process forks later, and several callers do not interfere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from gdpnet._core.device import has_numba
from gdpnet._core.threads import Team, loop_threads
from gdpnet.errors import WorkError
from gdpnet.selection.episodes import Encoded, Episodes, View
from gdpnet.selection.play import DIVERGED, Play, Slots, allocate_slots, neighbour_halves
from gdpnet.selection.policy import SCORE_BOUND, Policy

LANES = 8
"""Numbers in a vector register."""

HALF_BLOCKS, HIDDEN_BLOCKS = 8, 5
HALF_PANEL, HIDDEN_PANEL = LANES * HALF_BLOCKS, LANES * HIDDEN_BLOCKS
"""Columns whose sums stay in registers: of the target's half of the first layer, and of the second layer."""

_RANGES_PER_THREAD = 8
"""Ranges of episodes per thread, of about the same work, so that all threads end together."""

_STATE_WORK = 20
"""Work of a decision and of the state after it, beside half of the squared length of an episode in scores."""

_FEW = 512
"""Candidates that one thread has played before others have started."""


class Inputs(NamedTuple):
    """What the kernel reads; a panel is a block of columns, the last one padded with zeros."""

    # the policy's weights
    target: NDArray  # panels, width, HALF_PANEL
    first_bias: NDArray  # panels * HALF_PANEL
    confidence: NDArray  # first
    log_count: NDArray  # first
    agreement: NDArray  # first
    ending_half: NDArray  # first
    hidden: NDArray  # panels, first, HIDDEN_PANEL
    hidden_bias: NDArray  # panels * HIDDEN_PANEL
    score: NDArray  # panels * HIDDEN_PANEL
    score_bias: np.float32
    bound: np.float32
    # the weights of an observation, as in `episodes.Tables`
    own: NDArray
    bias: NDArray
    heads: NDArray  # transposed: fold models, classes, width
    head_bias: NDArray
    nodes: int
    # episodes and their candidates
    target_row: NDArray
    offsets: NDArray
    key: NDArray
    ending_key: NDArray
    message: NDArray
    counted: NDArray  # empty if every candidate counts as one
    half: NDArray
    probabilities: NDArray
    # how to play
    greedy: bool
    learned: bool
    can_end: bool
    extras: bool
    self_weight: bool


def can_use_numba(view: View, episodes: Episodes) -> bool:
    """Return whether the numba kernel can play these episodes: on the CPU, in single precision, with numba."""
    tables = view.tables
    if tables is None or episodes.row.device.type != "cpu" or episodes.count == 0:
        return False
    return tables.own.dtype == torch.float32 and has_numba()


@torch.no_grad()
def play_numba(policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play) -> Slots:
    """Play every episode of a batch to its end, one after the other."""
    from gdpnet.selection.engines.numba_kernel import play_range

    # products with zeros are left out, which would hide a NaN
    if not bool(policy.target_weight.isfinite().all()):
        raise WorkError(DIVERGED)
    slots = allocate_slots(episodes)
    out = Slots(*[_array(column) for column in slots])  # the same memory
    inputs = _inputs(policy, view, episodes, encoded, play), out
    threads = loop_threads()
    cuts = _cuts(episodes, threads)
    finite = list[bool]()

    def play_cuts(first: int, last: int) -> None:
        finite.extend(play_range(*cuts[cut : cut + 2], *inputs) for cut in range(first, last))

    with Team(threads if len(cuts) > 2 else 1) as team:
        team.run(play_cuts, 0, len(cuts) - 1)
    if not all(finite):
        raise WorkError(DIVERGED)
    return slots


def sum_states(
    first: Int[Tensor, "offsets"],
    candidate: Int[Tensor, "decisions"],
    kept: Bool[Tensor, "decisions"],
    encoded: Encoded,
) -> tuple[Float[Tensor, "decisions width"], Float[Tensor, "decisions"]]:
    """Return the running sum and count before each decision, as they were when it was played."""
    from gdpnet.selection.engines.numba_gather_kernel import add_states

    message = encoded.message
    sums, counts = message.new_empty(kept.numel(), message.shape[1]), message.new_empty(kept.numel())
    counted = message.new_empty(0) if encoded.weight is None else encoded.weight
    add_states(*map(_array, (first, candidate, kept, message, counted, sums, counts)))
    return sums, counts


def _cuts(episodes: Episodes, threads: int) -> list[int]:
    """Split the episodes into ranges of similar work; the bounds do not affect decisions."""
    if threads == 1 or episodes.row.numel() <= _FEW:
        return [0, episodes.count]
    length = episodes.length
    work = (length * (length + _STATE_WORK)).cumsum(0)
    parts = threads * _RANGES_PER_THREAD
    bounds = torch.searchsorted(work, torch.arange(1, parts) * work[-1] // parts) + 1
    return torch.cat([bounds.new_zeros(1), bounds, bounds.new_full((1,), episodes.count)]).unique().tolist()


def _inputs(policy: Policy, view: View, episodes: Episodes, encoded: Encoded, play: Play) -> Inputs:
    tables = view.tables
    assert tables is not None
    width, zeros = tables.own.shape[1], torch.zeros_like(policy.first_bias)
    confidence, count = policy.target_weight[width:] if policy.extras else (zeros, zeros)
    return Inputs(
        _panels(policy.target_weight[:width], HALF_PANEL),
        _padded(policy.first_bias, HALF_PANEL),
        _array(confidence),
        _array(count),
        _array(policy.agreement_weight if policy.extras else zeros),
        _array(policy.ending_half() if play.can_end else zeros),
        _panels(policy.hidden_weight, HIDDEN_PANEL),
        _padded(policy.hidden_bias, HIDDEN_PANEL),
        _padded(policy.score_weight, HIDDEN_PANEL),
        np.float32(policy.score_bias.item()),
        np.float32(SCORE_BOUND),
        _array(tables.own),
        _array(tables.bias),
        _array(tables.heads.transpose(1, 2)),
        _array(tables.head_bias),
        tables.nodes,
        _array(episodes.target_row),
        _array(episodes.offsets),
        _array(episodes.key).view(np.uint32),
        _array(episodes.ending_key).view(np.uint32),
        _array(encoded.message),
        _array(encoded.message.new_empty(0) if encoded.weight is None else encoded.weight),
        _array(neighbour_halves(policy, encoded)),
        _array(encoded.probabilities),
        play.greedy,
        play.learned_order,
        play.can_end,
        policy.extras,
        tables.self_weight,
    )


def _padded(vector: Float[Tensor, "n"], panel: int) -> Any:
    return _array(F.pad(vector, (0, -vector.shape[0] % panel)))


def _panels(matrix: Float[Tensor, "rows columns"], panel: int) -> Any:
    """Split a matrix into panels of columns, the last one padded with zeros."""
    whole = F.pad(matrix, (0, -matrix.shape[1] % panel))
    return _array(whole.unflatten(1, (-1, panel)).transpose(0, 1))


def _array(tensor: Tensor) -> Any:
    """Return a contiguous tensor's memory as a numpy array."""
    return tensor.detach().contiguous().numpy()
