"""The numba functions that lay out the policy's weights for its update, and add up the gradients of all lanes."""

from __future__ import annotations

import hashlib
import inspect
import math
from typing import Any

import numba
import numpy as np

from gdpnet.selection.engines import numba_update_arrays
from gdpnet.selection.engines.numba_update_terms import OPTIONS

_ZERO, _SMALL = np.float32(0.0), 1e-6


@numba.njit(**OPTIONS)
def _copy_rows(out, columns, matrix):
    """Copy a matrix to the beginnings of wider rows."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i * columns + j] = matrix[i, j]


@numba.njit(**OPTIONS)
def _copy(out, vector):
    for j in range(vector.size):
        out[j] = vector[j]


@numba.njit(**OPTIONS)
def _transpose(out, columns, matrix):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[j * columns + i] = matrix[i, j]


@numba.njit(**OPTIONS)
def _add_lanes(out, columns, lanes, used, matrix):
    """Write the sum of the lanes' gradients of a matrix."""
    size = out.size // lanes
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = out[i * columns + j]
        for lane in range(1, used):
            for j in range(matrix.shape[1]):
                matrix[i, j] += out[lane * size + i * columns + j]


@numba.njit(**OPTIONS)
def _add_vectors(out, lanes, used, vector):
    size = out.size // lanes
    for j in range(vector.size):
        vector[j] = out[j]
    for lane in range(1, used):
        for j in range(vector.size):
            vector[j] += out[lane * size + j]


@numba.njit(**OPTIONS)
def _add_ending(gradient, parameters, half):
    """Add the gradients of the ending neighbour's half, which is the product of its input and a matrix."""
    for i in range(parameters.ending.size):
        number = _ZERO
        for j in range(half.size):
            number += parameters.neighbour[i, j] * half[j]
        gradient.ending[i] = number
        for j in range(half.size):
            gradient.neighbour[i, j] += parameters.ending[i] * half[j]


@numba.njit(**OPTIONS)
def _scale(gradient, share, most):
    """Multiply the gradient, and bound its norm as `torch.nn.utils.clip_grad_norm_` does."""
    total = 0.0
    for i in range(gradient.size):
        total += np.float64(gradient[i]) * np.float64(gradient[i])
    norm = math.sqrt(total) * abs(share)
    factor = np.float32(share * min(1.0, most / (norm + _SMALL)) if norm == norm else norm)
    for i in range(gradient.size):
        gradient[i] *= factor


def _compile(sources: str) -> Any:
    """Return the compiled functions, cached as that of the engine is: under a digest of the sources."""
    digest = hashlib.sha256(sources.encode()).hexdigest()

    def lay_out(parameters, weights, can_end):
        """Copy the parameters into the layout that products read."""
        _ = digest
        columns, wide = weights.bias.size, weights.hidden_bias.size
        _copy_rows(weights.target, columns, parameters.target)
        _copy_rows(weights.neighbour, columns, parameters.neighbour)
        _copy_rows(weights.hidden, wide, parameters.hidden)
        _transpose(weights.hidden_transposed, columns, parameters.hidden)
        _copy(weights.agreement, parameters.agreement)
        _copy(weights.bias, parameters.bias)
        _copy(weights.hidden_bias, parameters.hidden_bias)
        _copy(weights.score, parameters.score)
        _copy(weights.score_bias, parameters.score_bias)
        if can_end:
            for j in range(columns):
                weights.ending_half[j] = _ZERO
            for i in range(parameters.ending.size):
                for j in range(parameters.bias.size):
                    weights.ending_half[j] += parameters.ending[i] * parameters.neighbour[i, j]

    def add_up(out, used, parameters, gradient, half, flat, can_end, share, most):
        """Write the gradient of a batch, ``flat`` in memory, from its lanes; return the sum of the surrogate."""
        _ = digest
        lanes = out.gain.size
        columns, wide = out.bias.size // lanes, out.hidden_bias.size // lanes
        _add_lanes(out.target, columns, lanes, used, gradient.target)
        _add_lanes(out.neighbour, columns, lanes, used, gradient.neighbour)
        _add_lanes(out.hidden, wide, lanes, used, gradient.hidden)
        _add_vectors(out.agreement, lanes, used, gradient.agreement)
        _add_vectors(out.bias, lanes, used, gradient.bias)
        _add_vectors(out.hidden_bias, lanes, used, gradient.hidden_bias)
        _add_vectors(out.score, lanes, used, gradient.score)
        _add_vectors(out.score_bias, lanes, used, gradient.score_bias)
        if can_end:
            _add_vectors(out.ending_half, lanes, used, half)
            _add_ending(gradient, parameters, half)
        _scale(flat, share, most)
        return out.gain[:used].sum()

    try:
        return numba.njit(cache=True, **OPTIONS)(lay_out), numba.njit(cache=True, **OPTIONS)(add_up)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**OPTIONS)(lay_out), numba.njit(**OPTIONS)(add_up)


lay_out, add_up = _compile(inspect.getsource(numba_update_arrays))
