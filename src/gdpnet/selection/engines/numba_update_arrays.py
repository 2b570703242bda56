"""What the compiled update of the policy reads and writes, as flat arrays; this module does not need numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RECORD, MEASURE, LEARN = 0, 1, 2
"""What to do with scores: keep them as those of the policy that acted, measure the KL, add up the gradient."""

TILE = 64
"""Pairs of a state and a candidate that are scored together, which fit into the cache of a CPU."""

CHUNK = 96
"""Candidates of a chunk; a longer episode is a chunk of its own."""

HALF_ROWS, HALF_COLUMNS = 3, 32
HIDDEN_ROWS, HIDDEN_COLUMNS = 2, 40
"""Rows and columns whose sums stay in registers: of a half of the first layer, and of the second layer."""

SPARE_ROWS = HALF_ROWS - 1
"""Rows after the last one that products may read, to fill up a block."""


class Layout(NamedTuple):
    """How the episodes of a roll-out are split: lanes consist of chunks, and chunks of whole episodes."""

    lane_chunk: NDArray  # the first chunk of each lane
    chunk_state: NDArray  # the first state of each chunk
    chunk_candidate: NDArray  # the first candidate of each chunk
    longest: int  # pairs of a state, the ending neighbour included
    most_states: int  # of a chunk
    most_candidates: int


class Inputs(NamedTuple):
    """The inputs of both halves of the first layer, with `SPARE_ROWS` more rows."""

    target: NDArray  # states, width
    neighbour: NDArray  # candidates, width


class Decisions(NamedTuple):
    """The decisions of a roll-out in the order of an update, and pairs of a decision and one of its candidates."""

    state_decision: NDArray  # the first decision of each state
    decision_pair: NDArray  # the first pair of each decision
    place: NDArray  # the candidate of each pair
    agreement: NDArray  # of each pair
    taken: NDArray  # the candidate that each decision drew; negative for the ending neighbour
    sign: NDArray  # one if it was kept, else minus one
    order_log_prob: NDArray
    keep_log_prob: NDArray
    order_advantage: NDArray
    keep_advantage: NDArray
    # under the policy that acted; in a learned order written by RECORD
    score: NDArray  # of each pair; of pairs that share their score, the first
    ending: NDArray  # of each state
    # how they were played
    learned: bool
    can_end: bool
    clip: np.float32


class Source(NamedTuple):
    """A roll-out in its own order, and what its states and candidates look like."""

    first: NDArray  # the first decision of each episode
    offsets: NDArray  # the first candidate of each episode
    candidate: NDArray  # of each decision
    kept: NDArray
    visited_at: NDArray  # the step of each candidate
    score: NDArray  # of each decision
    order_log_prob: NDArray
    keep_log_prob: NDArray
    order_advantage: NDArray
    keep_advantage: NDArray
    target_embedded: NDArray  # decisions, width
    target_probabilities: NDArray  # decisions, classes
    counts: NDArray  # of each decision
    neighbour_embedded: NDArray  # candidates, width
    neighbour_probabilities: NDArray  # candidates, classes
    pairs: NDArray  # candidates, pairs
    pair_mean: NDArray
    pair_scale: NDArray
    extras: bool


class Weights(NamedTuple):
    """The policy's weights; rows are padded with zeros to whole blocks of columns."""

    target: NDArray  # width, columns
    neighbour: NDArray  # width, columns
    agreement: NDArray  # columns
    bias: NDArray
    ending_half: NDArray
    hidden: NDArray  # columns, hidden columns
    hidden_transposed: NDArray  # hidden columns, columns
    hidden_bias: NDArray  # hidden columns
    score: NDArray
    score_bias: NDArray  # 1
    first: int  # widths without padding
    second: int
    bound: np.float32  # of scores


class Gradients(NamedTuple):
    """The gradient of each lane, laid out as `Weights`; the rows of both matrices are padded to whole blocks."""

    target: NDArray  # lanes, rows * columns
    neighbour: NDArray  # lanes, rows * columns
    hidden: NDArray  # lanes, columns * hidden columns
    agreement: NDArray  # lanes, columns
    bias: NDArray
    ending_half: NDArray
    hidden_bias: NDArray  # lanes, hidden columns
    score: NDArray
    score_bias: NDArray  # lanes, 1


class Parameters(NamedTuple):
    """The policy's parameters, or their gradient: the same memory, in the order of `Policy.parameters`."""

    target: NDArray
    neighbour: NDArray
    agreement: NDArray
    bias: NDArray
    hidden: NDArray
    hidden_bias: NDArray
    score: NDArray
    score_bias: NDArray
    ending: NDArray


def round_up(size: int, block: int) -> int:
    """Return the least multiple of a block that is not smaller."""
    return -(-size // block) * block
