"""Whole episodes on the CPU: a function compiled by numba plays one episode after the other, in some threads.

The function itself is in `native.py`, which imports numba and is imported only where episodes are played with it.
Threads are Python's own, started for a batch and ended with it, as the compiled function lets go of the interpreter's
lock: none is alive when a process forks, and several callers do not meet.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet._core.device import has_numba
from gdpnet.errors import GDPNetError
from gdpnet.selection.engines.numba_layout import HALF_PANEL, HIDDEN_PANEL, Batch, Mode, Net, Output, Sight
from gdpnet.selection.episodes import Episodes, Met, Tables, View
from gdpnet.selection.play import DIVERGED, ENDING, Play, Played
from gdpnet.selection.policy import SCORE_BOUND, Policy

_HALF_ROWS = 1 << 12
"""Candidates whose half of the first layer is computed at once: few enough for the cache."""

_RANGES_A_THREAD = 8
"""Ranges of episodes for each thread, of about the same work, so that all threads end together."""

_STATE_WORK = 20
"""What a decision and the state after it take, beside half of the square of an episode's length in scores."""

_FEW = 512
"""Candidates that one thread has played before others have started."""


def can_compile(view: View, episodes: Episodes) -> bool:
    """Say whether compiled functions can play these episodes: on the CPU, in single precision, with numba."""
    tables = view.tables
    if tables is None or episodes.row.device.type != "cpu" or episodes.count == 0:
        return False
    return tables.own.dtype == torch.float32 and has_numba()


@torch.no_grad()
def play_compiled(policy: Policy, view: View, episodes: Episodes, met: Met, play: Play) -> Played:
    """Play every episode of a batch to its end, one after the other."""
    from gdpnet.selection.engines.numba_kernel import play_some

    assert view.tables is not None
    # products with zeros are left out, and so would be what is no number
    if not bool(policy.target_weight.isfinite().all()):
        raise GDPNetError(DIVERGED)
    mode = Mode(play.greedy, play.learned_order, play.can_end, policy.extras, view.tables.self_weight)
    out = _room(episodes)
    arguments = _net(policy, play), _sight(view.tables), _batch(policy, episodes, met), out, mode
    cuts = _cuts(episodes, torch.get_num_threads())

    def play_range(first: int, last: int) -> bool:
        return play_some(first, last, *arguments)

    if len(cuts) == 2:
        finite = play_range(*cuts)
    else:
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            finite = all(list(pool.map(play_range, cuts[:-1], cuts[1:])))
    if not finite:
        raise GDPNetError(DIVERGED)
    return _laid_out(episodes, out)


def _cuts(episodes: Episodes, threads: int) -> list[int]:
    """Cut the episodes into ranges of like work; the bounds do not touch what is decided."""
    if threads == 1 or episodes.row.numel() <= _FEW:
        return [0, episodes.count]
    length = episodes.length
    work = (length * (length + _STATE_WORK)).cumsum(0)
    parts = threads * _RANGES_A_THREAD
    bounds = torch.searchsorted(work, torch.arange(1, parts) * work[-1] // parts) + 1
    return torch.cat([bounds.new_zeros(1), bounds, bounds.new_full((1,), episodes.count)]).unique().tolist()


def _net(policy: Policy, play: Play) -> Net:
    """Lay out the policy's weights."""
    width = policy.target_weight.shape[0] - 2 * policy.extras
    nothing = torch.zeros_like(policy.first_bias)
    sure, many = policy.target_weight[width:] if policy.extras else (nothing, nothing)
    return Net(
        _panels(policy.target_weight[:width], HALF_PANEL),
        _padded(policy.first_bias, HALF_PANEL),
        _array(sure),
        _array(many),
        _array(policy.agreement_weight if policy.extras else nothing),
        _array(policy.ending_half() if play.can_end else nothing),
        _panels(policy.hidden_weight, HIDDEN_PANEL),
        _padded(policy.hidden_bias, HIDDEN_PANEL),
        _padded(policy.score_weight, HIDDEN_PANEL),
        np.float32(policy.score_bias.item()),
        np.float32(SCORE_BOUND),
    )


def _sight(tables: Tables) -> Sight:
    heads = _array(tables.heads.transpose(1, 2))
    return Sight(_array(tables.own), _array(tables.bias), heads, _array(tables.head_bias), tables.nodes)


def _batch(policy: Policy, episodes: Episodes, met: Met) -> Batch:
    return Batch(
        _array(episodes.target_row),
        _array(episodes.offsets),
        _array(episodes.key).view(np.uint32),
        _array(episodes.ending_key).view(np.uint32),
        _array(met.given),
        _array(met.given.new_empty(0) if met.weight is None else met.weight),
        _array(_halves(policy, met)),
        _array(met.beliefs),
    )


def _room(episodes: Episodes) -> Output:
    """Make room for what is played."""
    candidates = episodes.row.numel()
    slots = candidates + episodes.count
    return Output(
        np.full(slots, ENDING, np.int64),
        np.zeros(slots, np.bool_),
        np.zeros(slots, np.float32),
        np.zeros(slots, np.float32),
        np.zeros(episodes.count, np.int64),
        np.zeros(candidates, np.float32),
        np.zeros(episodes.count, np.float32),
    )


def _halves(policy: Policy, met: Met) -> Float[Tensor, "candidates first"]:
    """Return each candidate's half of the first layer."""
    half = met.given.new_empty(met.given.shape[0], policy.first_bias.numel())
    for start in range(0, half.shape[0], _HALF_ROWS):
        part = slice(start, start + _HALF_ROWS)
        half[part] = policy.neighbour_half(met.embedded[part], met.beliefs[part], met.pairs[part])
    return half


def _laid_out(episodes: Episodes, out: Output) -> Played:
    """Lay the decisions end to end."""
    first = episodes.offsets[:-1] + torch.arange(episodes.count)
    episode, slot = ranges(first, torch.from_numpy(out.decisions))
    candidate, kept, score, weight = (
        torch.from_numpy(column).index_select(0, slot)
        for column in (out.candidate, out.kept, out.score, out.weight)
    )
    step = slot - first.index_select(0, episode)
    scores, ending = torch.from_numpy(out.scores), torch.from_numpy(out.ending)
    return Played(episode, step, candidate, kept, score, weight, scores, ending)


def _padded(vector: Float[Tensor, "n"], panel: int) -> Any:
    return _array(F.pad(vector, (0, -vector.shape[0] % panel)))


def _panels(matrix: Float[Tensor, "rows columns"], panel: int) -> Any:
    """Cut a matrix into panels of columns, zeros after the last."""
    whole = F.pad(matrix, (0, -matrix.shape[1] % panel))
    return _array(whole.unflatten(1, (-1, panel)).transpose(0, 1))


def _array(tensor: Tensor) -> Any:
    """Show a tensor to numpy, rows one after the other, as compiled functions want them."""
    return tensor.detach().contiguous().numpy()
