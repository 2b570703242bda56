"""The numba functions that play episodes: an episode runs from its first draw to its end in one compiled loop.

They are compiled at their first call and cached, beside this file or in the user's cache folder, for later processes.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gdpnet.selection.engines import numba_engine, numba_products
from gdpnet.selection.engines.numba_products import FLAGS, add_rows, score_one, score_two
from gdpnet.selection.play import Slots

_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_MARGIN = 128
_INFINITY, _LEAST = np.float32(np.inf), np.float32(1e-6)
_SPACING = np.float32(1.0 / 0x800000)
_GOLDEN, _START = np.uint32(0x9E3779B9), np.uint32(0x7F4A7C15)
_FIRST_ROUND, _SECOND_ROUND = np.uint32(0x45D9F3B), np.uint32(-0x61C88647 & 0xFFFFFFFF)
_SOURCES: tuple[Any, ...] = (numba_engine, numba_products, Slots)
_OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "nogil": True, "error_model": "numpy"}


class _Open(NamedTuple):
    """The open candidates of an episode, in their order; ``perturbed`` is scratch memory."""

    place: NDArray
    key: NDArray
    score: NDArray
    weight: NDArray  # e^score
    perturbed: NDArray  # score plus Gumbel noise


class _State(NamedTuple):
    """The state of an episode and its observation; ``layer`` and ``score`` are scratch memory."""

    total: NDArray
    embedded: NDArray
    value: NDArray  # the non-zero entries of the embedding
    column: NDArray  # their columns
    probability: NDArray
    half: NDArray
    layer: NDArray
    score: NDArray


@numba.njit(forceinline=True, **_OPTIONS)
def _mix(key):
    """Mix the bits as `gdpnet._core.random.mix` does."""
    bits = np.uint32(key ^ (key >> np.uint32(16)))
    bits = np.uint32(bits * _FIRST_ROUND)
    bits = np.uint32(bits ^ (bits >> np.uint32(15)))
    bits = np.uint32(bits * _SECOND_ROUND)
    return np.uint32(bits ^ (bits >> np.uint32(16)))


@numba.njit(forceinline=True, **_OPTIONS)
def _uniform(key, counter):
    """Draw as `gdpnet._core.random.uniforms` does."""
    bits = _mix(np.uint32(key + np.uint32(np.uint32(counter) * _GOLDEN + _START)))
    return (np.float32(np.int32(bits >> np.uint32(9))) + _HALF) * _SPACING


@numba.njit(forceinline=True, **_OPTIONS)
def _gumbel(key, counter):
    return -math.log(-math.log(_uniform(key, counter)))


@numba.njit(forceinline=True, **_OPTIONS)
def _embed(state, observation, mode, row, kept):
    """Embed the target with its kept neighbours and list the non-zero entries; return their number."""
    fold_model = row // observation.nodes
    share = _ONE / (max(kept, _LEAST) if mode.self_weight else _ONE + kept)
    own_share = _ONE if mode.self_weight else share
    for i in range(state.total.size):
        number = (
            state.total[i] * share + observation.own[row, i] * own_share + observation.bias[fold_model, i]
        )
        state.embedded[i] = _ZERO if number < _ZERO else number
    count = 0
    for i in range(state.total.size):
        state.value[count], state.column[count] = state.embedded[i], i
        count += state.embedded[i] != _ZERO
    return count


@numba.njit(forceinline=True, **_OPTIONS)
def _probabilities(state, observation, row):
    """Compute the class probabilities; return the highest."""
    fold_model = row // observation.nodes
    highest = -_INFINITY
    for c in range(state.probability.size):
        number = observation.head_bias[fold_model, c]
        for i in range(state.embedded.size):
            number += state.embedded[i] * observation.heads[fold_model, c, i]
        state.probability[c] = number
        highest = max(highest, number)
    total = _ZERO
    for c in range(state.probability.size):
        state.probability[c] = math.exp(state.probability[c] - highest)
        total += state.probability[c]
    for c in range(state.probability.size):
        state.probability[c] /= total
    return _ONE / total


@numba.njit(forceinline=True, **_OPTIONS)
def _observe(state, net, observation, mode, row, kept):
    """Compute the target's half of the first layer in the present state; return the ending neighbour's score."""
    count = _embed(state, observation, mode, row, kept)
    confidence = _probabilities(state, observation, row)
    for j in range(state.half.size):
        state.half[j] = net.first_bias[j]
    for panel in range(net.target.shape[0]):
        add_rows(state.half, state.value, state.column, net.target, panel, count)
    first = net.ending_half.size
    if mode.extras:
        log_count = math.log1p(kept)
        for j in range(first):
            state.half[j] += confidence * net.confidence[j] + log_count * net.log_count[j]
    if not mode.can_end:
        return _ZERO
    for j in range(first):
        number = state.half[j] + net.ending_half[j]
        state.layer[0, j] = _ZERO if number < _ZERO else number
    _score(state, net, 1)
    return _clamp(state.score[0], net.bound)


@numba.njit(forceinline=True, **_OPTIONS)
def _clamp(score, bound):
    if score > bound:
        return bound
    return -bound if score < -bound else score


@numba.njit(forceinline=True, **_OPTIONS)
def _score(state, net, rows):
    """Score one or two rows of the first layer."""
    state.score[0] = state.score[1] = net.score_bias
    for panel in range(net.hidden.shape[0]):
        if rows == 2:
            score_two(state.score, state.layer, net.hidden, net.hidden_bias, net.score, panel)
        else:
            score_one(state.score, state.layer, net.hidden, net.hidden_bias, net.score, panel)


@numba.njit(forceinline=True, **_OPTIONS)
def _first_layer(state, net, batch, mode, candidate, row):
    """Sum up the first layer of a candidate."""
    agreement = _ZERO
    if mode.extras:
        for c in range(state.probability.size):
            agreement += state.probability[c] * batch.probabilities[candidate, c]
    for j in range(net.ending_half.size):
        number = batch.half[candidate, j] + state.half[j] + agreement * net.agreement[j]
        state.layer[row, j] = _ZERO if number < _ZERO else number


@numba.njit(forceinline=True, **_OPTIONS)
def _score_open(state, net, batch, mode, open_, start, begin, end):
    """Score some open candidates, two at a time; return whether all scores are numbers."""
    finite = True
    for one in range(begin, end, 2):
        rows = min(2, end - one)
        for row in range(rows):
            _first_layer(state, net, batch, mode, start + open_.place[one + row], row)
        _score(state, net, rows)
        for row in range(rows):
            score = _clamp(state.score[row], net.bound)
            finite &= not math.isnan(score)
            open_.score[one + row] = score
            open_.weight[one + row] = math.exp(score)
    return finite


@numba.njit(forceinline=True, **_OPTIONS)
def _remove(open_, drawn, count):
    """Remove a candidate and close the gap."""
    for i in range(drawn, count - 1):
        open_.place[i], open_.key[i] = open_.place[i + 1], open_.key[i + 1]
        open_.score[i], open_.weight[i] = open_.score[i + 1], open_.weight[i + 1]


@numba.njit(forceinline=True, **_OPTIONS)
def _draw(open_, mode, count, step):
    """Draw a candidate; return the first of the best, its perturbed score, and the sum of e^l over all."""
    noisy = not (mode.greedy and mode.learned)
    weight = _ZERO
    for i in range(count):
        weight += open_.weight[i] if mode.learned else _ONE
    for i in range(count):
        open_.perturbed[i] = open_.score[i] if mode.learned else _ZERO
    if noisy:
        for i in range(count):
            open_.perturbed[i] += _gumbel(open_.key[i], 2 * step)
    drawn = 0
    for i in range(1, count):
        if open_.perturbed[i] > open_.perturbed[drawn]:
            drawn = i
    return drawn, open_.perturbed[drawn], weight


@numba.njit(forceinline=True, **_OPTIONS)
def _play_one(episode, net, observation, batch, out, mode, open_, state):
    """Play an episode; return whether all of its scores are numbers."""
    start, row = batch.offsets[episode], batch.target_row[episode]
    count = batch.offsets[episode + 1] - start
    for i in range(count):
        open_.place[i], open_.key[i] = i, batch.key[start + i]
    for i in range(state.total.size):
        state.total[i] = _ZERO
    kept_weight, step, stale, finite, ending = _ZERO, 0, True, True, _ZERO
    while count and finite:
        if stale:
            ending = _observe(state, net, observation, mode, row, kept_weight)
            if mode.learned:
                finite = _score_open(state, net, batch, mode, open_, start, 0, count)
        stale = False
        drawn, best, weight = _draw(open_, mode, count, step)
        slot = start + episode + step
        if mode.can_end:
            weight += math.exp(ending)
            rival = ending if mode.greedy else ending + _gumbel(batch.ending_key[episode], 2 * step)
            if rival > best:
                out.score[slot], out.weight[slot] = ending, weight
                step += 1
                break
        if not mode.learned:
            finite = _score_open(state, net, batch, mode, open_, start, drawn, drawn + 1)
        score, candidate = open_.score[drawn], start + open_.place[drawn]
        kept = score > _ZERO
        if not mode.greedy:
            kept = _uniform(open_.key[drawn], 2 * step + 1) < _ONE / (_ONE + math.exp(-score))
        out.candidate[slot], out.kept[slot] = candidate, kept
        out.score[slot], out.weight[slot], out.scores[candidate] = score, weight, score
        _remove(open_, drawn, count)
        count -= 1
        step += 1
        if kept and count:
            for i in range(state.total.size):
                state.total[i] += batch.message[candidate, i]
            kept_weight += batch.counted[candidate] if batch.counted.size else _ONE
            stale = True
    for i in range(count):
        out.scores[start + open_.place[i]] = open_.score[i]
    out.decisions[episode], out.ending[episode] = step, ending
    return finite


@numba.njit(**_OPTIONS)
def _scratch(size, kind):
    """Allocate memory far from other arrays: loops are vectorised only if their arrays are not close together.

    Without the margin, rounding would depend on where arrays happen to be.
    """
    return np.empty(size + 2 * _MARGIN, kind)[_MARGIN : _MARGIN + size]


def _compile(sources: str) -> Any:
    """Return the compiled kernel, cached under a digest of the sources that are compiled into it.

    Numba compiles again when this file changes. Of other files it knows nothing, but the variables of a closure are
    part of its cache key.
    """
    digest = hashlib.sha256(sources.encode()).hexdigest()

    def play_range(begin, end, net, observation, batch, out, mode):
        """Play a range of episodes, longest first; return whether all scores are numbers."""
        _ = digest
        longest = batch.offsets[begin + 1] - batch.offsets[begin]
        width, first = batch.message.shape[1], batch.half.shape[1]
        open_ = _Open(
            _scratch(longest, np.int64),
            _scratch(longest, np.uint32),
            _scratch(longest, np.float32),
            _scratch(longest, np.float32),
            _scratch(longest, np.float32),
        )
        state = _State(
            _scratch(width, np.float32),
            _scratch(width, np.float32),
            _scratch(width + 1, np.float32),
            _scratch(width + 1, np.int64),
            _scratch(batch.probabilities.shape[1], np.float32),
            _scratch(net.first_bias.size, np.float32),
            _scratch(2 * first, np.float32).reshape(2, first),
            _scratch(2, np.float32),
        )
        finite = True
        for episode in range(begin, end):
            finite &= _play_one(episode, net, observation, batch, out, mode, open_, state)
        return finite

    try:
        return numba.njit(cache=True, **_OPTIONS)(play_range)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**_OPTIONS)(play_range)


play_range = _compile("".join(inspect.getsource(source) for source in _SOURCES))
