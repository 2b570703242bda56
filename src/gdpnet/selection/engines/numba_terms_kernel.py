"""The numba functions of the policy's update that read scores: log-probabilities, the clipped surrogate, the KL.

They are the formulas of `gdpnet.selection.ppo` and `gdpnet.selection.surrogate`, one decision at a time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from gdpnet.selection.engines.numba_products import FLAGS

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "nogil": True, "error_model": "numpy"}


class Rows(NamedTuple):
    """Pairs of a state and a candidate that are scored together; the ending neighbour is one more candidate."""

    candidate: NDArray  # numbers within the chunk
    state: NDArray
    pair: NDArray  # -1 for the ending neighbour
    agreement: NDArray
    score: NDArray
    weight: NDArray  # e^score
    old_weight: NDArray  # under the policy that acted
    slope: NDArray  # the derivative by the score, or what the KL is the mean of
    begin: NDArray  # the first row of each state
    row: NDArray  # of each candidate in the present state


@numba.njit(**OPTIONS)
def record(given, rows, begin, end):
    """Keep the scores of some states as those of the policy that acted."""
    for state in range(begin, end):
        for row in range(rows.begin[state - begin], rows.begin[state - begin + 1]):
            if rows.pair[row] < 0:
                given.ending[state] = rows.score[row]
            else:
                given.score[rows.pair[row]] = rows.score[row]


@numba.njit(forceinline=True, **OPTIONS)
def _remember(rows, low, high):
    """Write down the row of each candidate of a state."""
    for row in range(low, high):
        if rows.pair[row] >= 0:
            rows.row[rows.candidate[row]] = row


@numba.njit(forceinline=True, **OPTIONS)
def _keep_kl(old, new, old_weight, new_weight):
    """Return KL(old || new) of keep-or-drop: s(o) (o - n) + log(1 + e^n) - log(1 + e^o)."""
    chance = old_weight / (_ONE + old_weight)
    return chance * (old - new) + math.log((_ONE + new_weight) / (_ONE + old_weight))


@numba.njit(forceinline=True, **OPTIONS)
def _draw_kl(given, rows, decision, first, ending):
    """Return the KL of one decision in a learned order, from the terms of its candidates."""
    old, new, expected = _ZERO, _ZERO, _ZERO
    for pair in range(given.decision_pair[decision], given.decision_pair[decision + 1]):
        row = rows.row[given.place[pair] - first]
        old += rows.old_weight[row]
        new += rows.weight[row]
        expected += rows.old_weight[row] * rows.slope[row]
    if given.can_end:
        old += rows.old_weight[ending]
        new += rows.weight[ending]
        expected += rows.old_weight[ending] * rows.slope[ending]
    return expected / old + math.log(new / old)


@numba.njit(**OPTIONS)
def measure(given, rows, begin, end, first):
    """Return the sum of the KL of the joint action over the decisions of some states."""
    total = 0.0
    for state in range(begin, end):
        low, high = rows.begin[state - begin], rows.begin[state - begin + 1]
        for row in range(low, high):
            is_end, new = rows.pair[row] < 0, rows.score[row]
            old = given.ending[state] if is_end else given.score[rows.pair[row]]
            rows.old_weight[row] = math.exp(old)
            apart = _ZERO if is_end else _keep_kl(old, new, rows.old_weight[row], rows.weight[row])
            rows.slope[row] = apart + (old - new if given.learned else _ZERO)
        if not given.learned:
            for row in range(low, high):
                total += rows.slope[row]
            continue
        _remember(rows, low, high)
        for decision in range(given.state_decision[state], given.state_decision[state + 1]):
            total += _draw_kl(given, rows, decision, first, high - 1)
    return total


@numba.njit(forceinline=True, **OPTIONS)
def _clipped(log_prob, old_log_prob, advantage, clip):
    """Return the clipped surrogate and its derivative by the log-probability."""
    ratio = math.exp(log_prob - old_log_prob)
    plain = ratio * advantage
    value = min(max(ratio, _ONE - clip), _ONE + clip) * advantage
    if plain <= value:
        return plain, plain
    return value, _ZERO


@numba.njit(forceinline=True, **OPTIONS)
def _keep(given, decision, score):
    """Return the surrogate of keep-or-drop, and its derivative by the score."""
    sign = given.sign[decision]
    other = math.exp(-score * sign)  # the odds of the other action
    log_prob = -math.log(_ONE + other)
    gain, slope = _clipped(
        log_prob, given.keep_log_prob[decision], given.keep_advantage[decision], given.clip
    )
    return gain, slope * sign * other / (_ONE + other)


@numba.njit(forceinline=True, **OPTIONS)
def _learn_draw(given, rows, decision, first, ending):
    """Add the derivatives of one decision's surrogate to the slopes, in a learned order; return the surrogate."""
    begin, end = given.decision_pair[decision], given.decision_pair[decision + 1]
    weight = rows.weight[ending] if given.can_end else _ZERO
    for pair in range(begin, end):
        weight += rows.weight[rows.row[given.place[pair] - first]]
    drew = given.taken[decision] >= 0
    taken = rows.row[given.taken[decision] - first] if drew else ending
    log_prob, old = rows.score[taken] - math.log(weight), given.order_log_prob[decision]
    gain, slope = _clipped(log_prob, old, given.order_advantage[decision], given.clip)
    if slope != _ZERO:
        share = -slope / weight
        for pair in range(begin, end):
            row = rows.row[given.place[pair] - first]
            rows.slope[row] += share * rows.weight[row]
        if given.can_end:
            rows.slope[ending] += share * rows.weight[ending]
        rows.slope[taken] += slope
    if drew:
        of_keep, slope = _keep(given, decision, rows.score[taken])
        rows.slope[taken] += slope
        gain += of_keep
    return gain


@numba.njit(**OPTIONS)
def learn(given, rows, begin, end, first):
    """Compute the derivative of the surrogate by each score of some states; return the sum of the surrogate."""
    total = 0.0
    for state in range(begin, end):
        low, high = rows.begin[state - begin], rows.begin[state - begin + 1]
        for row in range(low, high):
            rows.slope[row] = _ZERO
        if given.learned:
            _remember(rows, low, high)
        start = given.state_decision[state]
        for decision in range(start, given.state_decision[state + 1]):
            if given.learned:
                total += _learn_draw(given, rows, decision, first, high - 1)
            else:
                row = low + decision - start
                gain, rows.slope[row] = _keep(given, decision, rows.score[row])
                total += gain
    return total
