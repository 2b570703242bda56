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

from gdpnet._core.compiled import cached
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


class _State(NamedTuple):
    """The open candidates of an episode in their order, its state and its observation; and scratch memory."""

    place: NDArray
    key: NDArray
    score: NDArray
    weight: NDArray  # e^score
    perturbed: NDArray  # score plus Gumbel noise
    total: NDArray
    embedded: NDArray
    value: NDArray  # the non-zero entries of the embedding
    column: NDArray  # their columns
    probability: NDArray
    half: NDArray
    layer: NDArray  # two rows of the first layer
    scored: NDArray  # their scores


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
def _embed(state, given, row, kept):
    """Embed the target with its kept neighbours and list the non-zero entries; return their number."""
    fold_model = row // given.nodes
    share = _ONE / (max(kept, _LEAST) if given.self_weight else _ONE + kept)
    own_share = _ONE if given.self_weight else share
    for i in range(state.total.size):
        number = state.total[i] * share + given.own[row, i] * own_share + given.bias[fold_model, i]
        state.embedded[i] = _ZERO if number < _ZERO else number
    count = 0
    for i in range(state.total.size):
        state.value[count], state.column[count] = state.embedded[i], i
        count += state.embedded[i] != _ZERO
    return count


@numba.njit(forceinline=True, **_OPTIONS)
def _probabilities(state, given, row):
    """Compute the class probabilities; return the highest."""
    fold_model = row // given.nodes
    highest = -_INFINITY
    for c in range(state.probability.size):
        number = given.head_bias[fold_model, c]
        for i in range(state.embedded.size):
            number += state.embedded[i] * given.heads[fold_model, c, i]
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
def _observe(state, given, row, kept):
    """Compute the target's half of the first layer in the present state; return the ending neighbour's score."""
    count = _embed(state, given, row, kept)
    confidence = _probabilities(state, given, row)
    for j in range(state.half.size):
        state.half[j] = given.first_bias[j]
    for panel in range(given.target.shape[0]):
        add_rows(state.half, state.value, state.column, given.target, panel, count)
    first = given.ending_half.size
    if given.extras:
        log_count = math.log1p(kept)
        for j in range(first):
            state.half[j] += confidence * given.confidence[j] + log_count * given.log_count[j]
    if not given.can_end:
        return _ZERO
    for j in range(first):
        number = state.half[j] + given.ending_half[j]
        state.layer[0, j] = _ZERO if number < _ZERO else number
    _score(state, given, 1)
    return _clamp(state.scored[0], given.bound)


@numba.njit(forceinline=True, **_OPTIONS)
def _clamp(score, bound):
    if score > bound:
        return bound
    return -bound if score < -bound else score


@numba.njit(forceinline=True, **_OPTIONS)
def _score(state, given, rows):
    """Score one or two rows of the first layer."""
    state.scored[0] = state.scored[1] = given.score_bias
    for panel in range(given.hidden.shape[0]):
        if rows == 2:
            score_two(state.scored, state.layer, given.hidden, given.hidden_bias, given.score, panel)
        else:
            score_one(state.scored, state.layer, given.hidden, given.hidden_bias, given.score, panel)


@numba.njit(forceinline=True, **_OPTIONS)
def _first_layer(state, given, candidate, row):
    """Sum up the first layer of a candidate."""
    agreement = _ZERO
    if given.extras:
        for c in range(state.probability.size):
            agreement += state.probability[c] * given.probabilities[candidate, c]
    for j in range(given.ending_half.size):
        number = given.half[candidate, j] + state.half[j] + agreement * given.agreement[j]
        state.layer[row, j] = _ZERO if number < _ZERO else number


@numba.njit(forceinline=True, **_OPTIONS)
def _score_open(state, given, start, begin, end):
    """Score some open candidates, two at a time; return whether all scores are numbers."""
    finite = True
    for one in range(begin, end, 2):
        rows = min(2, end - one)
        for row in range(rows):
            _first_layer(state, given, start + state.place[one + row], row)
        _score(state, given, rows)
        for row in range(rows):
            score = _clamp(state.scored[row], given.bound)
            finite &= not math.isnan(score)
            state.score[one + row] = score
            state.weight[one + row] = math.exp(score)
    return finite


@numba.njit(forceinline=True, **_OPTIONS)
def _remove(state, drawn, count):
    """Remove a candidate and close the gap."""
    for i in range(drawn, count - 1):
        state.place[i], state.key[i] = state.place[i + 1], state.key[i + 1]
        state.score[i], state.weight[i] = state.score[i + 1], state.weight[i + 1]


@numba.njit(forceinline=True, **_OPTIONS)
def _draw(state, given, count, step):
    """Draw a candidate; return the first of the best, its perturbed score, and the sum of e^l over all."""
    noisy = not (given.greedy and given.learned)
    weight = _ZERO
    for i in range(count):
        weight += state.weight[i] if given.learned else _ONE
    for i in range(count):
        state.perturbed[i] = state.score[i] if given.learned else _ZERO
    if noisy:
        for i in range(count):
            state.perturbed[i] += _gumbel(state.key[i], 2 * step)
    drawn = 0
    for i in range(1, count):
        if state.perturbed[i] > state.perturbed[drawn]:
            drawn = i
    return drawn, state.perturbed[drawn], weight


@numba.njit(forceinline=True, **_OPTIONS)
def _play_one(episode, given, out, state):
    """Play an episode; return whether all of its scores are numbers."""
    start, row = given.offsets[episode], given.target_row[episode]
    count = given.offsets[episode + 1] - start
    for i in range(count):
        state.place[i], state.key[i] = i, given.key[start + i]
    for i in range(state.total.size):
        state.total[i] = _ZERO
    kept_weight, step, stale, finite, ending = _ZERO, 0, True, True, _ZERO
    while count and finite:
        if stale:
            ending = _observe(state, given, row, kept_weight)
            if given.learned:
                finite = _score_open(state, given, start, 0, count)
        stale = False
        drawn, best, weight = _draw(state, given, count, step)
        slot = start + episode + step
        if given.can_end:
            weight += math.exp(ending)
            rival = ending if given.greedy else ending + _gumbel(given.ending_key[episode], 2 * step)
            if rival > best:
                out.score[slot], out.weight[slot] = ending, weight
                step += 1
                break
        if not given.learned:
            finite = _score_open(state, given, start, drawn, drawn + 1)
        score, candidate = state.score[drawn], start + state.place[drawn]
        kept = score > _ZERO
        if not given.greedy:
            kept = _uniform(state.key[drawn], 2 * step + 1) < _ONE / (_ONE + math.exp(-score))
        out.candidate[slot], out.kept[slot] = candidate, kept
        out.score[slot], out.weight[slot], out.scores[candidate] = score, weight, score
        _remove(state, drawn, count)
        count -= 1
        step += 1
        if kept and count:
            for i in range(state.total.size):
                state.total[i] += given.message[candidate, i]
            kept_weight += given.counted[candidate] if given.counted.size else _ONE
            stale = True
    for i in range(count):
        out.scores[start + state.place[i]] = state.score[i]
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

    def play_range(begin, end, given, out):
        """Play a range of episodes, longest first; return whether all scores are numbers."""
        _ = digest
        longest = given.offsets[begin + 1] - given.offsets[begin]
        width, first = given.message.shape[1], given.half.shape[1]
        state = _State(
            _scratch(longest, np.int64),
            _scratch(longest, np.uint32),
            _scratch(longest, np.float32),
            _scratch(longest, np.float32),
            _scratch(longest, np.float32),
            _scratch(width, np.float32),
            _scratch(width, np.float32),
            _scratch(width + 1, np.float32),
            _scratch(width + 1, np.int64),
            _scratch(given.probabilities.shape[1], np.float32),
            _scratch(given.first_bias.size, np.float32),
            _scratch(2 * first, np.float32).reshape(2, first),
            _scratch(2, np.float32),
        )
        finite = True
        for episode in range(begin, end):
            finite &= _play_one(episode, given, out, state)
        return finite

    return cached(play_range, **_OPTIONS)


play_range = _compile("".join(inspect.getsource(source) for source in _SOURCES))
