"""The numba functions that lay out the policy's weights for its update, and add up the gradients of all lanes."""

from __future__ import annotations

import hashlib
import inspect
import math
from typing import Any

import numba
import numpy as np

from gdpnet._core.compiled import cached
from gdpnet.selection.engines import numba_update_arrays
from gdpnet.selection.engines.numba_terms_kernel import OPTIONS

_ZERO, _SMALL = np.float32(0.0), 1e-6


@numba.njit(**OPTIONS)
def _copy_rows(out, matrix):
    """Copy a matrix to the beginnings of wider rows."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i, j] = matrix[i, j]


@numba.njit(**OPTIONS)
def _copy(out, vector):
    for j in range(vector.size):
        out[j] = vector[j]


@numba.njit(**OPTIONS)
def _add_lanes(out, used, columns, matrix):
    """Write the sum of the lanes' gradients of a matrix."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = out[0, i * columns + j]
    for lane in range(1, used):
        for i in range(matrix.shape[0]):
            for j in range(matrix.shape[1]):
                matrix[i, j] += out[lane, i * columns + j]


@numba.njit(**OPTIONS)
def _add_vectors(out, used, vector):
    for j in range(vector.size):
        vector[j] = out[0, j]
    for lane in range(1, used):
        for j in range(vector.size):
            vector[j] += out[lane, j]


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
    factor = np.float32(share * min(1.0, most / (norm + _SMALL)) if math.isfinite(norm) else math.nan)
    for i in range(gradient.size):
        gradient[i] *= factor


def _compile(sources: str) -> Any:
    """Return the compiled functions, cached as that of the engine is: under a digest of the sources."""
    digest = hashlib.sha256(sources.encode()).hexdigest()

    def lay_out(parameters, weights, can_end):
        """Copy the parameters into the layout that products read."""
        _ = digest
        _copy_rows(weights.target, parameters.target)
        _copy_rows(weights.neighbour, parameters.neighbour)
        _copy_rows(weights.hidden, parameters.hidden)
        _copy_rows(weights.hidden_transposed, parameters.hidden.T)
        _copy(weights.agreement, parameters.agreement)
        _copy(weights.bias, parameters.bias)
        _copy(weights.hidden_bias, parameters.hidden_bias)
        _copy(weights.score, parameters.score)
        _copy(weights.score_bias, parameters.score_bias)
        if can_end:
            for j in range(weights.ending_half.size):
                weights.ending_half[j] = _ZERO
            for i in range(parameters.ending.size):
                for j in range(parameters.bias.size):
                    weights.ending_half[j] += parameters.ending[i] * parameters.neighbour[i, j]

    def add_up(out, used, parameters, gradient, half, can_end):
        """Write the gradient of a batch, a sum over its decisions, from its lanes."""
        _ = digest
        columns, wide = out.bias.shape[1], out.hidden_bias.shape[1]
        _add_lanes(out.target, used, columns, gradient.target)
        _add_lanes(out.neighbour, used, columns, gradient.neighbour)
        _add_lanes(out.hidden, used, wide, gradient.hidden)
        _add_vectors(out.agreement, used, gradient.agreement)
        _add_vectors(out.bias, used, gradient.bias)
        _add_vectors(out.hidden_bias, used, gradient.hidden_bias)
        _add_vectors(out.score, used, gradient.score)
        _add_vectors(out.score_bias, used, gradient.score_bias)
        if can_end:
            _add_vectors(out.ending_half, used, half)
            _add_ending(gradient, parameters, half)

    def scale(flat, share, most):
        """Turn a sum over decisions into their mean with a bounded norm."""
        _ = digest
        _scale(flat, share, most)

    return cached(lay_out, **OPTIONS), cached(add_up, **OPTIONS), cached(scale, **OPTIONS)


lay_out, add_up, scale = _compile(inspect.getsource(numba_update_arrays))
