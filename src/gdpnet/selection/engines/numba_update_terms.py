"""The numba functions of the policy's update that read scores: log-probabilities, the clipped surrogate, the KL.

They are the formulas of `gdpnet.selection.ppo` and `gdpnet.selection.surrogate`, one decision at a time.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from gdpnet.selection.engines.numba_products import FLAGS

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "nogil": True, "error_model": "numpy"}


@numba.njit(**OPTIONS)
def record(given, mine, begin, end):
    """Keep the scores of some states as those of the policy that acted."""
    for state in range(begin, end):
        for row in range(mine.begin[state - begin], mine.begin[state - begin + 1]):
            if mine.pair[row] < 0:
                given.ending[state] = mine.score[row]
            else:
                given.score[mine.pair[row]] = mine.score[row]


@numba.njit(forceinline=True, **OPTIONS)
def _keep_kl(old, new, new_weight):
    """Return KL(old || new) of keep-or-drop: s(o) (o - n) + log(1 + e^n) - log(1 + e^o)."""
    old_weight = math.exp(old)
    chance = old_weight / (_ONE + old_weight)
    return chance * (old - new) + math.log((_ONE + new_weight) / (_ONE + old_weight))


@numba.njit(**OPTIONS)
def measure(given, mine, begin, end):
    """Return the sum over the decisions of some states of the KL of the joint action."""
    total = 0.0
    for state in range(begin, end):
        low, high = mine.begin[state - begin], mine.begin[state - begin + 1]
        for row in range(low, high):
            new = mine.score[row]
            if mine.pair[row] < 0:
                old, apart = given.ending[state], _ZERO
            else:
                old = given.score[mine.pair[row]]
                apart = _keep_kl(old, new, mine.weight[row])
            mine.slope[row] = apart + (old - new if given.learned else _ZERO)
            mine.old_weight[row] = math.exp(old)
        if given.learned:
            total += _measure_draws(given, mine, state, low, high)
        else:
            for row in range(low, high):
                total += mine.slope[row]
    return total


@numba.njit(**OPTIONS)
def _measure_draws(given, mine, state, low, high):
    """Return the sum of the KL over the decisions of one state, in a learned order."""
    total, first = 0.0, given.state_decision[state]
    remember_rows(given, mine, low, high)
    for decision in range(first, given.state_decision[state + 1]):
        old, new, expected = _ZERO, _ZERO, _ZERO
        for pair in range(given.decision_pair[decision], given.decision_pair[decision + 1]):
            row = mine.row[given.place[pair] - mine.low[0]]
            old += mine.old_weight[row]
            new += mine.weight[row]
            expected += mine.old_weight[row] * mine.slope[row]
        if given.can_end:
            old += mine.old_weight[high - 1]
            new += mine.weight[high - 1]
            expected += mine.old_weight[high - 1] * mine.slope[high - 1]
        total += expected / old + math.log(new / old)
    return total


@numba.njit(forceinline=True, **OPTIONS)
def remember_rows(given, mine, low, high):
    """Write down the row of each candidate of a state."""
    for row in range(low, high):
        if mine.pair[row] >= 0:
            mine.row[mine.candidate[row]] = row


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
    gain, slope = _clipped(log_prob, given.keep_log_prob[decision], given.keep_advantage[decision], given.clip)
    return gain, slope * sign * other / (_ONE + other)


@numba.njit(**OPTIONS)
def learn(given, mine, begin, end):
    """Compute the derivative of the surrogate by each score of some states; return the sum of the surrogate."""
    total = 0.0
    for state in range(begin, end):
        low, high = mine.begin[state - begin], mine.begin[state - begin + 1]
        for row in range(low, high):
            mine.slope[row] = _ZERO
        if given.learned:
            remember_rows(given, mine, low, high)
        first = given.state_decision[state]
        for decision in range(first, given.state_decision[state + 1]):
            if given.learned:
                total += _learn_draw(given, mine, decision, high - 1)
            else:
                row = low + decision - first
                gain, mine.slope[row] = _keep(given, decision, mine.score[row])
                total += gain
    return total


@numba.njit(**OPTIONS)
def _learn_draw(given, mine, decision, ending):
    """Add the derivatives of one decision's surrogate to the slopes, in a learned order; return the surrogate."""
    begin, end = given.decision_pair[decision], given.decision_pair[decision + 1]
    weight, low = mine.weight[ending] if given.can_end else _ZERO, mine.low[0]
    for pair in range(begin, end):
        weight += mine.weight[mine.row[given.place[pair] - low]]
    drew = given.drew[decision] > _ZERO
    taken = mine.row[given.place[given.taken[decision]] - low] if drew else ending
    log_prob = mine.score[taken] - math.log(weight)
    advantage = given.order_advantage[decision]
    gain, slope = _clipped(log_prob, given.order_log_prob[decision], advantage, given.clip)
    if slope != _ZERO:
        share = -slope / weight
        for pair in range(begin, end):
            row = mine.row[given.place[pair] - low]
            mine.slope[row] += share * mine.weight[row]
        if given.can_end:
            mine.slope[ending] += share * mine.weight[ending]
        mine.slope[taken] += slope
    if drew:
        of_keep, slope = _keep(given, decision, mine.score[taken])
        mine.slope[taken] += slope
        gain += of_keep
    return gain
