"""The numba functions of the policy's update: scores, their KL, and the gradient of the clipped surrogate.

Decisions whose state is the same, because a neighbour was dropped, share their scores. A chunk of episodes computes
the halves of the first layer; a tile of a chunk scores pairs of a state and a candidate. The ending neighbour is one
more candidate. Chunks are grouped into lanes, each of which adds up its own gradient.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gdpnet.selection.engines import (
    numba_products,
    numba_update_arrays,
    numba_update_products,
    numba_update_terms,
)
from gdpnet.selection.engines.numba_update_arrays import (
    HALF_COLUMNS,
    HALF_ROWS,
    HIDDEN_COLUMNS,
    HIDDEN_ROWS,
    LEARN,
    MEASURE,
    RECORD,
    TILE,
)
from gdpnet.selection.engines.numba_update_products import add_half, add_hidden
from gdpnet.selection.engines.numba_update_terms import OPTIONS, learn, measure, record

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_MARGIN = 128
_SOURCES: tuple[Any, ...] = (numba_products, numba_update_arrays, numba_update_products, numba_update_terms)


class _Scratch(NamedTuple):
    """The memory of one thread: halves of a chunk's first layer, and rows of a tile."""

    neighbour: NDArray  # candidates, and the ending neighbour; first
    target: NDArray  # states, first
    of_neighbour: NDArray  # their gradients
    of_target: NDArray
    layer: NDArray  # rows, first
    of_layer: NDArray
    hidden: NDArray  # rows, second; then their gradients
    candidate: NDArray  # rows
    state: NDArray
    pair: NDArray  # -1 for the ending neighbour
    agreement: NDArray
    score: NDArray
    within: NDArray  # one if the score was not clamped, else zero: there it has no gradient
    weight: NDArray  # e^score
    old_weight: NDArray  # under the policy that acted
    slope: NDArray
    begin: NDArray  # states of a tile
    row: NDArray  # of each candidate
    low: NDArray  # 1; the first candidate of the chunk


@numba.njit(**OPTIONS)
def _empty(size, kind):
    """Allocate memory far from other arrays, as for the engine: else rounding would depend on where they are."""
    return np.empty(size + 2 * _MARGIN, kind)[_MARGIN : _MARGIN + size]


@numba.njit(**OPTIONS)
def _allocate(given, first, second):
    rows, candidates, states = TILE + given.longest + 4, given.most_candidates + 4, given.most_states + 4
    return _Scratch(
        _empty(candidates * first, np.float32),
        _empty(states * first, np.float32),
        _empty(candidates * first, np.float32),
        _empty(states * first, np.float32),
        _empty(rows * first, np.float32),
        _empty(rows * first, np.float32),
        _empty(rows * second, np.float32),
        _empty(rows, np.int64),
        _empty(rows, np.int64),
        _empty(rows, np.int64),
        _empty(rows, np.float32),
        _empty(rows, np.float32),
        _empty(rows, np.float32),
        _empty(rows, np.float32),
        _empty(rows, np.float32),
        _empty(rows, np.float32),
        _empty(states + 1, np.int64),
        _empty(candidates, np.int64),
        _empty(1, np.int64),
    )


@numba.njit(**OPTIONS)
def _halves(out, inputs, start, count, width, matrix, first):
    """Add the products of some rows of inputs with a matrix to rows of out."""
    for panel in range(0, first, HALF_COLUMNS):
        for row in range(0, count, HALF_ROWS):
            at = (start + row) * width
            add_half(out, row * first + panel, first, inputs, at, width, 1, width, matrix, panel, first)


@numba.njit(**OPTIONS)
def _gradient(out, at, inputs, start, count, width, slopes, first):
    """Add the gradient of a matrix to out: the products of the columns of inputs with the slopes of the halves."""
    for panel in range(0, first, HALF_COLUMNS):
        for row in range(0, width, HALF_ROWS):
            place = at + row * first + panel
            add_half(out, place, first, inputs, start * width + row, 1, width, count, slopes, panel, first)


@numba.njit(**OPTIONS)
def _begin_chunk(given, weights, mine, chunk):
    """Compute the halves of a chunk's candidates and states."""
    first = weights.bias.size
    start, states = given.chunk_state[chunk], given.chunk_state[chunk + 1] - given.chunk_state[chunk]
    low, candidates = given.chunk_candidate[chunk], given.chunk_candidate[chunk + 1] - given.chunk_candidate[chunk]
    mine.low[0] = low
    for i in range(candidates * first):
        mine.neighbour[i] = _ZERO
    _halves(mine.neighbour, given.neighbour, low, candidates, given.neighbour_width, weights.neighbour, first)
    for state in range(states):
        for j in range(first):
            mine.target[state * first + j] = weights.bias[j]
    _halves(mine.target, given.target, start, states, given.target_width, weights.target, first)
    for j in range(first):  # after the products, which also write to the rows that fill up a block
        mine.neighbour[candidates * first + j] = weights.ending_half[j]
    for i in range((candidates + 1) * first):
        mine.of_neighbour[i] = _ZERO
    for i in range(states * first):
        mine.of_target[i] = _ZERO


@numba.njit(**OPTIONS)
def _list_rows(given, mine, chunk, tile_begin):
    """List the pairs of the next states, at least `TILE` of them; return their number and the state after them."""
    low, start = given.chunk_candidate[chunk], given.chunk_state[chunk]
    rows, state, end = 0, tile_begin, given.chunk_state[chunk + 1]
    while state < end and rows < TILE:
        mine.begin[state - tile_begin] = rows
        decision = given.state_decision[state]
        last = decision + 1 if given.learned else given.state_decision[state + 1]
        for pair in range(given.decision_pair[decision], given.decision_pair[last]):
            mine.candidate[rows], mine.state[rows] = given.place[pair] - low, state - start
            mine.pair[rows], mine.agreement[rows] = pair, given.agreement[pair]
            rows += 1
        if given.can_end:
            mine.candidate[rows], mine.state[rows] = given.chunk_candidate[chunk + 1] - low, state - start
            mine.pair[rows], mine.agreement[rows] = -1, _ZERO
            rows += 1
        state += 1
    mine.begin[state - tile_begin] = rows
    return rows, state


@numba.njit(**OPTIONS)
def _score_rows(weights, mine, rows):
    """Score the listed pairs."""
    first, second = weights.bias.size, weights.hidden_bias.size
    for row in range(rows):
        agreement = mine.agreement[row]
        at, one, other = row * first, mine.candidate[row] * first, mine.state[row] * first
        for j in range(first):
            number = mine.neighbour[one + j] + mine.target[other + j] + agreement * weights.agreement[j]
            mine.layer[at + j] = _ZERO if number < _ZERO else number
        for j in range(second):
            mine.hidden[row * second + j] = weights.hidden_bias[j]
    for panel in range(0, second, HIDDEN_COLUMNS):
        for row in range(0, rows, HIDDEN_ROWS):
            at = row * second + panel
            add_hidden(
                mine.hidden, at, second, mine.layer, row * first, first, 1, weights.first, weights.hidden, panel, second
            )  # fmt: skip
    for row in range(rows):
        score, at = weights.score_bias[0], row * second
        for j in range(second):
            number = mine.hidden[at + j]
            number = _ZERO if number < _ZERO else number
            mine.hidden[at + j] = number
        for j in range(second):
            score += mine.hidden[at + j] * weights.score[j]
        mine.score[row] = score


@numba.njit(**OPTIONS)
def _clamp_rows(mine, rows, bound):
    """Clamp the scores, and compute e^score."""
    for row in range(rows):
        score = mine.score[row]
        mine.within[row] = _ZERO if abs(score) > bound else _ONE
        mine.score[row] = bound if score > bound else (-bound if score < -bound else score)
        mine.weight[row] = math.exp(mine.score[row])


@numba.njit(**OPTIONS)
def _learn_scores(weights, mine, out, lane, rows):
    """Turn the slopes of the scores into those of the hidden rows; add up the gradients of the last layer."""
    second, last = weights.hidden_bias.size, lane * weights.hidden_bias.size
    for row in range(rows):
        slope, at = mine.slope[row] * mine.within[row], row * second
        out.score_bias[lane] += slope
        for j in range(second):
            number = mine.hidden[at + j]
            out.score[last + j] += slope * number
            mine.hidden[at + j] = slope * weights.score[j] if number > _ZERO else _ZERO
        for j in range(second):
            out.hidden_bias[last + j] += mine.hidden[at + j]


@numba.njit(**OPTIONS)
def _learn_layers(weights, mine, out, lane, rows):
    """Add the gradients of the second layer, and the slopes of both halves of the first."""
    first, second = weights.bias.size, weights.hidden_bias.size
    hidden = lane * first * second
    for panel in range(0, second, HIDDEN_COLUMNS):
        for row in range(0, first, HIDDEN_ROWS):
            place = hidden + row * second + panel
            add_hidden(out.hidden, place, second, mine.layer, row, 1, first, rows, mine.hidden, panel, second)
    for i in range(rows * first):
        mine.of_layer[i] = _ZERO
    matrix, wide = weights.hidden_transposed, weights.second
    for panel in range(0, first, HALF_COLUMNS):
        for row in range(0, rows, HALF_ROWS):
            place = row * first + panel
            add_half(mine.of_layer, place, first, mine.hidden, row * second, second, 1, wide, matrix, panel, first)
    for row in range(rows):
        agreement = mine.agreement[row]
        at, one, other = row * first, mine.candidate[row] * first, mine.state[row] * first
        for j in range(first):
            slope = mine.of_layer[at + j] if mine.layer[at + j] > _ZERO else _ZERO
            mine.of_neighbour[one + j] += slope
            mine.of_target[other + j] += slope
            out.agreement[lane * first + j] += agreement * slope


@numba.njit(**OPTIONS)
def _end_chunk(given, weights, mine, out, lane, chunk):
    """Add the gradients of the first layer."""
    first = weights.bias.size
    start, states = given.chunk_state[chunk], given.chunk_state[chunk + 1] - given.chunk_state[chunk]
    low, candidates = given.chunk_candidate[chunk], given.chunk_candidate[chunk + 1] - given.chunk_candidate[chunk]
    for state in range(states):
        for j in range(first):
            out.bias[lane * first + j] += mine.of_target[state * first + j]
    for j in range(first):
        out.ending_half[lane * first + j] += mine.of_neighbour[candidates * first + j]
    width, lanes = given.target_width, out.gain.size
    at = lane * (out.target.size // lanes)
    _gradient(out.target, at, given.target, start, states, width, mine.of_target, first)
    width, at = given.neighbour_width, lane * (out.neighbour.size // lanes)
    _gradient(out.neighbour, at, given.neighbour, low, candidates, width, mine.of_neighbour, first)


@numba.njit(**OPTIONS)
def _run_chunk(task, given, weights, mine, out, lane, chunk):
    """Score the pairs of a chunk and do the task with them; return the sum of the KL or of the surrogate."""
    _begin_chunk(given, weights, mine, chunk)
    total, begin = 0.0, given.chunk_state[chunk]
    while begin < given.chunk_state[chunk + 1]:
        rows, end = _list_rows(given, mine, chunk, begin)
        _score_rows(weights, mine, rows)
        _clamp_rows(mine, rows, given.bound)
        if task == RECORD:
            record(given, mine, begin, end)
        elif task == MEASURE:
            total += measure(given, mine, begin, end)
        else:
            total += learn(given, mine, begin, end)
            _learn_scores(weights, mine, out, lane, rows)
            _learn_layers(weights, mine, out, lane, rows)
        begin = end
    if task == LEARN:
        _end_chunk(given, weights, mine, out, lane, chunk)
    return total


@numba.njit(**OPTIONS)
def _clear(array, lane, lanes):
    size = array.size // lanes
    for i in range(lane * size, (lane + 1) * size):
        array[i] = _ZERO


@numba.njit(**OPTIONS)
def _clear_lane(out, lane):
    """Set the gradient of a lane to zero."""
    lanes = out.gain.size
    for array in (
        out.target, out.neighbour, out.agreement, out.bias, out.ending_half, out.hidden, out.hidden_bias, out.score,
        out.score_bias,
    ):  # fmt: skip
        _clear(array, lane, lanes)
    out.gain[lane] = 0.0


def _compile(sources: str) -> Any:
    """Return the compiled function, cached as that of the engine is: under a digest of the sources."""
    digest = hashlib.sha256(sources.encode()).hexdigest()

    def run_lanes(task, first_lane, begin, end, given, weights, out):
        """Do a task with a range of lanes; of a batch whose lanes begin at ``first_lane``, if it is to learn."""
        _ = digest
        mine = _allocate(given, weights.bias.size, weights.hidden_bias.size)
        for lane in range(begin, end):
            if task == LEARN:
                _clear_lane(out, lane - first_lane)
            total = 0.0
            for chunk in range(given.lane_chunk[lane], given.lane_chunk[lane + 1]):
                total += _run_chunk(task, given, weights, mine, out, lane - first_lane, chunk)
            if task == MEASURE:
                given.divergence[lane] = total
            elif task == LEARN:
                out.gain[lane - first_lane] = total

    try:
        return numba.njit(cache=True, **OPTIONS)(run_lanes)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**OPTIONS)(run_lanes)


run_lanes = _compile("".join(inspect.getsource(source) for source in _SOURCES))
