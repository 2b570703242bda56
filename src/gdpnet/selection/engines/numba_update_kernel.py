"""The numba function of the policy's update: scores, their KL, and the gradient of the clipped surrogate.

Decisions whose state is the same, because a neighbour was dropped, share their scores. A chunk of episodes computes
the halves of the first layer; a tile of a chunk scores pairs of a state and a candidate. Chunks are grouped into
lanes, each of which adds up its own gradient. The function is compiled at its first call and cached, as that of the
engine is.
"""

from __future__ import annotations

import hashlib
import inspect
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gdpnet._core.compiled import cached
from gdpnet.selection.engines import (
    numba_layers_kernel,
    numba_products,
    numba_terms_kernel,
    numba_update_arrays,
    numba_update_products,
)
from gdpnet.selection.engines.numba_layers_kernel import (
    add_halves,
    add_matrix_gradient,
    clamp,
    first_layer,
    last_layer,
    learn_first_layer,
    learn_last_layer,
    learn_second_layer,
    second_layer,
)
from gdpnet.selection.engines.numba_terms_kernel import OPTIONS, Rows, learn, measure, record
from gdpnet.selection.engines.numba_update_arrays import LEARN, MEASURE, RECORD, TILE

_ZERO = np.float32(0.0)
_MARGIN = 128
_SPARE = 4
_SOURCES: tuple[Any, ...] = (
    numba_products, numba_update_arrays, numba_layers_kernel, numba_update_products, numba_terms_kernel,
)  # fmt: skip


class _Halves(NamedTuple):
    """The halves of the first layer of a chunk, and their slopes; the last neighbour is the ending one."""

    neighbour: NDArray
    target: NDArray
    of_neighbour: NDArray
    of_target: NDArray


class _Layers(NamedTuple):
    """The layers of a tile's rows."""

    first: NDArray
    of_first: NDArray
    hidden: NDArray  # then their slopes


@numba.njit(**OPTIONS)
def _numbers(size):
    """Allocate memory far from other arrays, as for the engine: else rounding would depend on where they are."""
    return np.empty(size + 2 * _MARGIN, np.float32)[_MARGIN : _MARGIN + size]


@numba.njit(**OPTIONS)
def _places(size):
    return np.empty(size + 2 * _MARGIN, np.int64)[_MARGIN : _MARGIN + size]


@numba.njit(**OPTIONS)
def _matrix(rows, columns):
    return _numbers(rows * columns).reshape(rows, columns)


@numba.njit(**OPTIONS)
def _begin_chunk(inputs, weights, halves, start, states, low, candidates):
    """Compute the halves of a chunk's candidates and states."""
    for row in range(candidates):
        for j in range(weights.bias.size):
            halves.neighbour[row, j] = _ZERO
    for row in range(states):
        for j in range(weights.bias.size):
            halves.target[row, j] = weights.bias[j]
    add_halves(halves.neighbour, inputs.neighbour, low, candidates, weights.neighbour)
    add_halves(halves.target, inputs.target, start, states, weights.target)
    for j in range(weights.bias.size):  # after the products, which also write to rows that fill up a block
        halves.neighbour[candidates, j] = weights.ending_half[j]


@numba.njit(**OPTIONS)
def _clear_slopes(halves, states, candidates):
    for row in range(candidates + 1):
        for j in range(halves.of_neighbour.shape[1]):
            halves.of_neighbour[row, j] = _ZERO
    for row in range(states):
        for j in range(halves.of_target.shape[1]):
            halves.of_target[row, j] = _ZERO


@numba.njit(**OPTIONS)
def _list_rows(given, rows, start, begin, end, low, ending):
    """List the pairs of the next states, at least `TILE` of them; return their number and the state after them."""
    count, state = 0, begin
    while state < end and count < TILE:
        rows.begin[state - begin] = count
        decision = given.state_decision[state]
        last = decision + 1 if given.learned else given.state_decision[state + 1]
        for pair in range(given.decision_pair[decision], given.decision_pair[last]):
            rows.candidate[count], rows.state[count] = given.place[pair] - low, state - start
            rows.pair[count], rows.agreement[count] = pair, given.agreement[pair]
            count += 1
        if given.can_end:
            rows.candidate[count], rows.state[count] = ending, state - start
            rows.pair[count], rows.agreement[count] = -1, _ZERO
            count += 1
        state += 1
    rows.begin[state - begin] = count
    return count, state


@numba.njit(**OPTIONS)
def _score(weights, halves, layers, rows, count):
    """Score the listed pairs."""
    first_layer(layers.first, halves.neighbour, halves.target, rows, count, weights.agreement)
    second_layer(layers.hidden, layers.first, count, weights.first, weights.hidden, weights.hidden_bias)
    last_layer(layers.hidden, rows, count, weights.score, weights.score_bias[0])
    clamp(rows, count, weights.bound)


@numba.njit(**OPTIONS)
def _learn_tile(weights, halves, layers, rows, count, out, lane):
    """Add the gradients of the listed pairs by all layers but the matrices of the first."""
    learn_last_layer(
        layers.hidden, rows, count, weights.bound, weights.score, out.score[lane], out.score_bias[lane],
        out.hidden_bias[lane],
    )  # fmt: skip
    learn_second_layer(out.hidden, lane, layers.first, layers.hidden, count)
    learn_first_layer(
        layers.of_first, layers.first, layers.hidden, rows, count, weights.second, weights.hidden_transposed,
        halves.of_neighbour, halves.of_target, out.agreement[lane],
    )  # fmt: skip


@numba.njit(**OPTIONS)
def _end_chunk(inputs, halves, start, states, low, candidates, out, lane):
    """Add the gradients of the first layer's matrices and bias."""
    for state in range(states):
        for j in range(out.bias.shape[1]):
            out.bias[lane, j] += halves.of_target[state, j]
    for j in range(out.bias.shape[1]):
        out.ending_half[lane, j] += halves.of_neighbour[candidates, j]
    add_matrix_gradient(out.target, lane, inputs.target, start, states, halves.of_target)
    add_matrix_gradient(out.neighbour, lane, inputs.neighbour, low, candidates, halves.of_neighbour)


@numba.njit(**OPTIONS)
def _clear(out, lane):
    """Set the gradient of a lane to zero."""
    for array in (out.target, out.neighbour, out.hidden):
        for i in range(array.shape[1]):
            array[lane, i] = _ZERO
    for array in (out.agreement, out.bias, out.ending_half, out.hidden_bias, out.score, out.score_bias):
        for i in range(array.shape[1]):
            array[lane, i] = _ZERO


def _compile(sources: str) -> Any:
    """Return the compiled function, cached under a digest of the sources that are compiled into it."""
    digest = hashlib.sha256(sources.encode()).hexdigest()

    def run_lanes(task, first_lane, begin_lane, end_lane, layout, inputs, given, weights, out, total):
        """Do a task with a range of lanes, of which ``first_lane`` has the first gradient.

        The sum of the KL, or of the surrogate, is written to each lane's ``total``.
        """
        _ = digest
        columns, wide = weights.bias.size, weights.hidden_bias.size
        most, states, candidates = TILE + layout.longest + _SPARE, layout.most_states, layout.most_candidates
        halves = _Halves(
            _matrix(candidates + _SPARE, columns),
            _matrix(states + _SPARE, columns),
            _matrix(candidates + _SPARE, columns),
            _matrix(states + _SPARE, columns),
        )
        layers = _Layers(_matrix(most, columns), _matrix(most, columns), _matrix(most, wide))
        rows = Rows(
            _places(most), _places(most), _places(most), _numbers(most), _numbers(most), _numbers(most),
            _numbers(most), _numbers(most), _places(states + 1), _places(candidates),
        )  # fmt: skip
        for lane in range(begin_lane, end_lane):
            number, total[lane] = lane - first_lane, 0.0
            if task == LEARN:
                _clear(out, number)
            for chunk in range(layout.lane_chunk[lane], layout.lane_chunk[lane + 1]):
                start, end = layout.chunk_state[chunk], layout.chunk_state[chunk + 1]
                low, high = layout.chunk_candidate[chunk], layout.chunk_candidate[chunk + 1]
                _begin_chunk(inputs, weights, halves, start, end - start, low, high - low)
                if task == LEARN:
                    _clear_slopes(halves, end - start, high - low)
                begin = start
                while begin < end:
                    count, after = _list_rows(given, rows, start, begin, end, low, high - low)
                    _score(weights, halves, layers, rows, count)
                    if task == RECORD:
                        record(given, rows, begin, after)
                    elif task == MEASURE:
                        total[lane] += measure(given, rows, begin, after, low)
                    else:
                        total[lane] += learn(given, rows, begin, after, low)
                        _learn_tile(weights, halves, layers, rows, count, out, number)
                    begin = after
                if task == LEARN:
                    _end_chunk(inputs, halves, start, end - start, low, high - low, out, number)

    return cached(run_lanes, **OPTIONS)


run_lanes = _compile("".join(inspect.getsource(source) for source in _SOURCES))
