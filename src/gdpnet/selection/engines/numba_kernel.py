"""The numba functions that play episodes: an episode runs from its first draw to its end in one compiled loop.

They are compiled when they are first used, and kept beside this file or in the user's cache for the next process.
What they take and write is in `layout.py`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gdpnet.selection.engines.numba_products import FLAGS, add_rows, score_one, score_two

BUILT_ON = "bb996f433affb214"
"""The sum of `lanes.py` and `layout.py`: numba compiles anew when this file changes, and only then."""

_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_APART = 128
_INFINITY, _LEAST = np.float32(np.inf), np.float32(1e-6)
_SPACING = np.float32(1.0 / 0x800000)
_GOLDEN, _START = np.uint32(0x9E3779B9), np.uint32(0x7F4A7C15)
_FIRST_ROUND, _SECOND_ROUND = np.uint32(0x45D9F3B), np.uint32(-0x61C88647 & 0xFFFFFFFF)
_OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "nogil": True, "error_model": "numpy"}


class _Open(NamedTuple):
    """The candidates of an episode that are left, in their order; contest is room to work in."""

    place: NDArray
    key: NDArray
    score: NDArray
    chance: NDArray  # e^score
    contest: NDArray


class _State(NamedTuple):
    """What an episode has come to, and how it looks; layer and found are room to work in."""

    total: NDArray
    embedded: NDArray
    value: NDArray  # what is not zero of the embedding,
    where: NDArray  # and where that stands
    belief: NDArray
    half: NDArray
    layer: NDArray
    found: NDArray


def _kept_for_next_time(function: Any) -> Any:
    """Compile a function when it is first called; where nothing can be kept for next time, do without."""
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**_OPTIONS)(function)


@numba.njit(forceinline=True, **_OPTIONS)
def _mix(key):
    """Scramble as `draws.mix` does."""
    bits = np.uint32(key ^ (key >> np.uint32(16)))
    bits = np.uint32(bits * _FIRST_ROUND)
    bits = np.uint32(bits ^ (bits >> np.uint32(15)))
    bits = np.uint32(bits * _SECOND_ROUND)
    return np.uint32(bits ^ (bits >> np.uint32(16)))


@numba.njit(forceinline=True, **_OPTIONS)
def _uniform(key, counter):
    """Draw as `draws.uniforms` does."""
    bits = _mix(np.uint32(key + np.uint32(np.uint32(counter) * _GOLDEN + _START)))
    return (np.float32(np.int32(bits >> np.uint32(9))) + _HALF) * _SPACING


@numba.njit(forceinline=True, **_OPTIONS)
def _gumbel(key, counter):
    return -math.log(-math.log(_uniform(key, counter)))


@numba.njit(forceinline=True, **_OPTIONS)
def _embed(state, sight, mode, row, kept):
    """Embed the target with what it kept, and list what is not zero; return how much that is."""
    member = row // sight.nodes
    share = _ONE / (max(kept, _LEAST) if mode.self_weight else _ONE + kept)
    own_share = _ONE if mode.self_weight else share
    for i in range(state.total.size):
        number = state.total[i] * share + sight.own[row, i] * own_share + sight.bias[member, i]
        state.embedded[i] = _ZERO if number < _ZERO else number
    count = 0
    for i in range(state.total.size):
        state.value[count], state.where[count] = state.embedded[i], i
        count += state.embedded[i] != _ZERO
    return count


@numba.njit(forceinline=True, **_OPTIONS)
def _believe(state, sight, row):
    """Believe in classes; return the chance of the likeliest."""
    member = row // sight.nodes
    most = -_INFINITY
    for c in range(state.belief.size):
        number = sight.head_bias[member, c]
        for i in range(state.embedded.size):
            number += state.embedded[i] * sight.heads[member, c, i]
        state.belief[c] = number
        most = max(most, number)
    whole = _ZERO
    for c in range(state.belief.size):
        state.belief[c] = math.exp(state.belief[c] - most)
        whole += state.belief[c]
    for c in range(state.belief.size):
        state.belief[c] /= whole
    return _ONE / whole


@numba.njit(forceinline=True, **_OPTIONS)
def _look(state, net, sight, mode, row, kept):
    """Observe the present state: the target's half of the first layer, and the score of the ending neighbour."""
    count = _embed(state, sight, mode, row, kept)
    sure = _believe(state, sight, row)
    for j in range(state.half.size):
        state.half[j] = net.first_bias[j]
    for panel in range(net.target.shape[0]):
        add_rows(state.half, state.value, state.where, net.target, panel, count)
    first = net.ending_half.size
    if mode.extras:
        many = math.log1p(kept)
        for j in range(first):
            state.half[j] += sure * net.sure[j] + many * net.many[j]
    if not mode.can_end:
        return _ZERO
    for j in range(first):
        number = state.half[j] + net.ending_half[j]
        state.layer[0, j] = _ZERO if number < _ZERO else number
    _score(state, net, 1)
    return _within(state.found[0], net.bound)


@numba.njit(forceinline=True, **_OPTIONS)
def _within(score, bound):
    if score > bound:
        return bound
    return -bound if score < -bound else score


@numba.njit(forceinline=True, **_OPTIONS)
def _score(state, net, rows):
    """Score one row of the first layer, or two."""
    state.found[0] = state.found[1] = net.score_bias
    for panel in range(net.hidden.shape[0]):
        if rows == 2:
            score_two(state.found, state.layer, net.hidden, net.hidden_bias, net.score, panel)
        else:
            score_one(state.found, state.layer, net.hidden, net.hidden_bias, net.score, panel)


@numba.njit(forceinline=True, **_OPTIONS)
def _lay(state, net, batch, mode, candidate, row):
    """Add up the first layer of a candidate."""
    agree = _ZERO
    if mode.extras:
        for c in range(state.belief.size):
            agree += state.belief[c] * batch.beliefs[candidate, c]
    for j in range(net.ending_half.size):
        number = batch.half[candidate, j] + state.half[j] + agree * net.agreement[j]
        state.layer[row, j] = _ZERO if number < _ZERO else number


@numba.njit(forceinline=True, **_OPTIONS)
def _score_open(state, net, batch, mode, left, start, begin, end):
    """Score some of the candidates that are left, two at a time; say whether all scores are numbers."""
    finite = True
    for one in range(begin, end, 2):
        rows = min(2, end - one)
        for row in range(rows):
            _lay(state, net, batch, mode, start + left.place[one + row], row)
        _score(state, net, rows)
        for row in range(rows):
            score = _within(state.found[row], net.bound)
            finite &= not math.isnan(score)
            left.score[one + row] = score
            left.chance[one + row] = math.exp(score)
    return finite


@numba.njit(forceinline=True, **_OPTIONS)
def _take_off(left, drawn, count):
    """Close the gap that a candidate leaves."""
    for i in range(drawn, count - 1):
        left.place[i], left.key[i] = left.place[i + 1], left.key[i + 1]
        left.score[i], left.chance[i] = left.score[i + 1], left.chance[i + 1]


@numba.njit(forceinline=True, **_OPTIONS)
def _draw(left, mode, count, step):
    """Draw a candidate: the first that does best, how well it does, and the sum of e^l over all."""
    noisy = not (mode.greedy and mode.learned)
    weight = _ZERO
    for i in range(count):
        weight += left.chance[i] if mode.learned else _ONE
    for i in range(count):
        left.contest[i] = left.score[i] if mode.learned else _ZERO
    if noisy:
        for i in range(count):
            left.contest[i] += _gumbel(left.key[i], 2 * step)
    drawn = 0
    for i in range(1, count):
        if left.contest[i] > left.contest[drawn]:
            drawn = i
    return drawn, left.contest[drawn], weight


@numba.njit(forceinline=True, **_OPTIONS)
def _keeps(score, key, mode, step):
    if mode.greedy:
        return score > _ZERO
    return _uniform(key, 2 * step + 1) < _ONE / (_ONE + math.exp(-score))


@numba.njit(forceinline=True, **_OPTIONS)
def _play_one(episode, net, sight, batch, out, mode, left, state):
    """Play an episode; say whether all of its scores are numbers."""
    start, row = batch.offsets[episode], batch.target_row[episode]
    count = batch.offsets[episode + 1] - start
    for i in range(count):
        left.place[i], left.key[i] = i, batch.key[start + i]
    for i in range(state.total.size):
        state.total[i] = _ZERO
    kept_weight, step, looks, finite, ending = _ZERO, 0, True, True, _ZERO
    while count and finite:
        if looks:
            ending = _look(state, net, sight, mode, row, kept_weight)
            if mode.learned:
                finite = _score_open(state, net, batch, mode, left, start, 0, count)
        looks = False
        drawn, best, weight = _draw(left, mode, count, step)
        slot = start + episode + step
        if mode.can_end:
            weight += math.exp(ending)
            against = ending if mode.greedy else ending + _gumbel(batch.ending_key[episode], 2 * step)
            if against > best:
                out.score[slot], out.weight[slot] = ending, weight
                step += 1
                break
        if not mode.learned:
            finite = _score_open(state, net, batch, mode, left, start, drawn, drawn + 1)
        score, candidate = left.score[drawn], start + left.place[drawn]
        kept = _keeps(score, left.key[drawn], mode, step)
        out.candidate[slot], out.kept[slot] = candidate, kept
        out.score[slot], out.weight[slot], out.scores[candidate] = score, weight, score
        _take_off(left, drawn, count)
        count -= 1
        step += 1
        if kept and count:
            for i in range(state.total.size):
                state.total[i] += batch.given[candidate, i]
            kept_weight += batch.counted[candidate] if batch.counted.size else _ONE
            looks = True
    for i in range(count):
        out.scores[start + left.place[i]] = left.score[i]
    out.decisions[episode], out.ending[episode] = step, ending
    return finite


@numba.njit(**_OPTIONS)
def _room(size, kind):
    """Make room that lies well apart from all other: what is done by eights must not depend on where it lies."""
    return np.empty(size + 2 * _APART, kind)[_APART : _APART + size]


@_kept_for_next_time
def play_some(begin, end, net, sight, batch, out, mode):
    """Play the episodes of a range, longest first; say whether all scores are numbers."""
    longest = batch.offsets[begin + 1] - batch.offsets[begin]
    width, first = batch.given.shape[1], batch.half.shape[1]
    left = _Open(
        _room(longest, np.int64),
        _room(longest, np.uint32),
        _room(longest, np.float32),
        _room(longest, np.float32),
        _room(longest, np.float32),
    )
    state = _State(
        _room(width, np.float32),
        _room(width, np.float32),
        _room(width + 1, np.float32),
        _room(width + 1, np.int64),
        _room(batch.beliefs.shape[1], np.float32),
        _room(net.first_bias.size, np.float32),
        _room(2 * first, np.float32).reshape(2, first),
        _room(2, np.float32),
    )
    finite = True
    for episode in range(begin, end):
        finite &= _play_one(episode, net, sight, batch, out, mode, left, state)
    return finite
