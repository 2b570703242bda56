"""The numba functions of the policy's update that compute its layers, and their gradients."""

from __future__ import annotations

import math

import numba
import numpy as np

from gdpnet.selection.engines.numba_terms_kernel import OPTIONS
from gdpnet.selection.engines.numba_update_arrays import (
    HALF_COLUMNS,
    HALF_ROWS,
    HIDDEN_COLUMNS,
    HIDDEN_ROWS,
)
from gdpnet.selection.engines.numba_update_products import add_half, add_hidden

_ZERO = np.float32(0.0)


@numba.njit(**OPTIONS)
def add_halves(out, inputs, start, count, matrix):
    """Add the products of some rows of the inputs with a matrix to the rows of out."""
    width, columns = matrix.shape
    for panel in range(0, columns, HALF_COLUMNS):
        for row in range(0, count, HALF_ROWS):
            at = (start + row) * width
            add_half(out, row * columns + panel, columns, inputs, at, width, 1, width, matrix, panel, columns)


@numba.njit(**OPTIONS)
def add_matrix_gradient(out, lane, inputs, start, count, slopes):
    """Add the gradient of a matrix: the products of the columns of some inputs with the slopes of the halves."""
    width, columns, base = inputs.shape[1], slopes.shape[1], lane * out.shape[1]
    for panel in range(0, columns, HALF_COLUMNS):
        for row in range(0, width, HALF_ROWS):
            at = start * width + row
            place = base + row * columns + panel
            add_half(out, place, columns, inputs, at, 1, width, count, slopes, panel, columns)


@numba.njit(**OPTIONS)
def first_layer(layer, neighbour, target, rows, count, factor):
    """Sum up the first layer of some pairs."""
    for row in range(count):
        agreement, one, other = rows.agreement[row], rows.candidate[row], rows.state[row]
        for j in range(layer.shape[1]):
            number = neighbour[one, j] + target[other, j] + agreement * factor[j]
            layer[row, j] = _ZERO if number < _ZERO else number


@numba.njit(**OPTIONS)
def second_layer(hidden, layer, count, first, matrix, bias):
    """Compute the hidden rows of some pairs."""
    columns, wide = layer.shape[1], hidden.shape[1]
    for row in range(count):
        for j in range(wide):
            hidden[row, j] = bias[j]
    for panel in range(0, wide, HIDDEN_COLUMNS):
        for row in range(0, count, HIDDEN_ROWS):
            at = row * wide + panel
            add_hidden(hidden, at, wide, layer, row * columns, columns, 1, first, matrix, panel, wide)
    for row in range(count):
        for j in range(wide):
            hidden[row, j] = _ZERO if hidden[row, j] < _ZERO else hidden[row, j]


@numba.njit(**OPTIONS)
def last_layer(hidden, rows, count, factor, bias):
    """Compute the scores of some pairs, before they are clamped."""
    for row in range(count):
        score = _ZERO
        for j in range(hidden.shape[1]):
            score += hidden[row, j] * factor[j]
        rows.score[row] = score + bias


@numba.njit(**OPTIONS)
def clamp(rows, count, bound):
    """Clamp the scores, and compute e^score."""
    for row in range(count):
        score = rows.score[row]
        rows.score[row] = bound if score > bound else (-bound if score < -bound else score)
    for row in range(count):
        rows.weight[row] = math.exp(rows.score[row])


@numba.njit(**OPTIONS)
def learn_last_layer(hidden, rows, count, bound, factor, of_factor, of_bias, of_hidden_bias):
    """Add the gradients of the last layer; turn the hidden rows into their slopes."""
    for row in range(count):
        # a score at the bound was clamped, and has no gradient
        slope = _ZERO if abs(rows.score[row]) >= bound else rows.slope[row]
        of_bias[0] += slope
        for j in range(hidden.shape[1]):
            number = hidden[row, j]
            of_factor[j] += slope * number
            number = slope * factor[j] if number > _ZERO else _ZERO
            hidden[row, j] = number
            of_hidden_bias[j] += number


@numba.njit(**OPTIONS)
def learn_second_layer(out, lane, layer, hidden, count):
    """Add the gradient of the second layer's matrix."""
    columns, wide, base = layer.shape[1], hidden.shape[1], lane * out.shape[1]
    for panel in range(0, wide, HIDDEN_COLUMNS):
        for row in range(0, columns, HIDDEN_ROWS):
            place = base + row * wide + panel
            add_hidden(out, place, wide, layer, row, 1, columns, count, hidden, panel, wide)


@numba.njit(**OPTIONS)
def learn_first_layer(
    of_layer, layer, hidden, rows, count, second, matrix, of_neighbour, of_target, of_factor
):
    """Add the slopes of both halves of the first layer, and the gradient of the agreement's weights."""
    columns, wide = layer.shape[1], hidden.shape[1]
    for row in range(count):
        for j in range(columns):
            of_layer[row, j] = _ZERO
    for panel in range(0, columns, HALF_COLUMNS):
        for row in range(0, count, HALF_ROWS):
            place = row * columns + panel
            add_half(of_layer, place, columns, hidden, row * wide, wide, 1, second, matrix, panel, columns)
    for row in range(count):
        agreement, one, other = rows.agreement[row], rows.candidate[row], rows.state[row]
        for j in range(columns):
            slope = of_layer[row, j] if layer[row, j] > _ZERO else _ZERO
            of_neighbour[one, j] += slope
            of_target[other, j] += slope
            of_factor[j] += agreement * slope
