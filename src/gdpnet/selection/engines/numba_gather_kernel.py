"""The numba functions that recompute the states of a roll-out, and gather the inputs of the policy's update.

They are compiled at their first call and cached, as that of the engine is.
"""

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

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@numba.njit(forceinline=True, **OPTIONS)
def _highest(row):
    found = row[0]
    for c in range(1, row.size):
        found = max(found, row[c])
    return found


@numba.njit(forceinline=True, **OPTIONS)
def _write_neighbour(out, at, given, candidate):
    """Write the input of a neighbour's half, as `Policy.neighbour_input` does."""
    width, pairs = given.neighbour_embedded.shape[1], given.pair_mean.size
    for j in range(width):
        out[at, j] = given.neighbour_embedded[candidate, j]
    for j in range(pairs):
        out[at, width + j] = (given.pairs[candidate, j] - given.pair_mean[j]) / given.pair_scale[j]
    if given.extras:
        out[at, width + pairs] = _highest(given.neighbour_probabilities[candidate])


@numba.njit(forceinline=True, **OPTIONS)
def _write_target(out, at, given, decision):
    """Write the input of a target's half, as `Policy.target_input` does."""
    width = given.target_embedded.shape[1]
    for j in range(width):
        out[at, j] = given.target_embedded[decision, j]
    if given.extras:
        out[at, width] = _highest(given.target_probabilities[decision])
        out[at, width + 1] = math.log1p(given.counts[decision])


@numba.njit(forceinline=True, **OPTIONS)
def _write_decision(out, at, given, decision):
    out.sign[at] = _ONE if given.kept[decision] else -_ONE
    out.order_log_prob[at], out.keep_log_prob[at] = (
        given.order_log_prob[decision],
        given.keep_log_prob[decision],
    )
    out.order_advantage[at], out.keep_advantage[at] = (
        given.order_advantage[decision],
        given.keep_advantage[decision],
    )


@numba.njit(forceinline=True, **OPTIONS)
def _agreement(given, decision, candidate):
    number = _ZERO
    if given.extras:
        for c in range(given.target_probabilities.shape[1]):
            number += given.target_probabilities[decision, c] * given.neighbour_probabilities[candidate, c]
    return number


@numba.njit(forceinline=True, **OPTIONS)
def _write_pairs(out, pair, at, given, step, decision, low, high):
    """Write the candidates of a decision, those not yet visited; return the pair after them."""
    if not out.learned:
        candidate = given.candidate[decision]
        out.place[pair], out.score[pair] = at + candidate - low, given.score[decision]
        out.agreement[pair] = _agreement(given, decision, candidate)
        return pair + 1
    for candidate in range(low, high):
        if given.visited_at[candidate] >= step:
            out.place[pair] = at + candidate - low
            out.agreement[pair] = _agreement(given, decision, candidate)
            pair += 1
    return pair


def _compile(sources: str) -> Any:
    """Return the compiled functions, cached under a digest of the sources that are compiled into them."""
    digest = hashlib.sha256(sources.encode()).hexdigest()

    def gather_episodes(begin, end, sequence, begins, given, inputs, out):
        """Gather a range of episodes; ``begins`` is where their decisions, pairs, candidates and states go."""
        _ = digest
        for number in range(begin, end):
            episode = sequence[number]
            at, pair, place, state = begins[number]
            low, high = given.offsets[episode], given.offsets[episode + 1]
            for i in range(high - low):
                _write_neighbour(inputs.neighbour, place + i, given, low + i)
            first, is_new = given.first[episode], True
            for step in range(given.first[episode + 1] - first):
                decision = first + step
                if is_new:
                    out.state_decision[state] = at + step
                    _write_target(inputs.target, state, given, decision)
                    state += 1
                is_new = given.kept[decision]
                candidate = given.candidate[decision]
                out.taken[at + step] = candidate if candidate < 0 else place + candidate - low
                out.decision_pair[at + step] = pair
                _write_decision(out, at + step, given, decision)
                pair = _write_pairs(out, pair, place, given, step, decision, low, high)

    def add_states(first, candidate, kept, message, counted, sums, counts):
        """Write the sum of the kept messages before each decision of an episode, and that of their weights."""
        _ = digest
        for episode in range(first.size - 1):
            for decision in range(first[episode], first[episode + 1]):
                if decision == first[episode]:
                    sums[decision], counts[decision] = _ZERO, _ZERO
                    continue
                for j in range(sums.shape[1]):
                    sums[decision, j] = sums[decision - 1, j]
                counts[decision] = counts[decision - 1]
                if kept[decision - 1]:
                    drawn = candidate[decision - 1]
                    for j in range(sums.shape[1]):
                        sums[decision, j] += message[drawn, j]
                    counts[decision] += counted[drawn] if counted.size else _ONE

    return tuple(cached(one, **OPTIONS) for one in (gather_episodes, add_states))


gather_episodes, add_states = _compile(inspect.getsource(numba_update_arrays))
