"""The arrays that the numba kernel reads, and their layout. What it writes are `gdpnet.selection.play.Slots`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 8
"""Numbers in a vector register."""

HALF_BLOCKS, HIDDEN_BLOCKS = 8, 5
HALF_PANEL, HIDDEN_PANEL = LANES * HALF_BLOCKS, LANES * HIDDEN_BLOCKS
"""Columns whose sums stay in registers: of the target's half of the first layer, and of the second layer."""


class Network(NamedTuple):
    """The policy's weights; a panel is a block of columns, the last one padded with zeros."""

    target: NDArray  # panels, width, HALF_PANEL
    first_bias: NDArray  # panels * HALF_PANEL
    confidence: NDArray  # first
    log_count: NDArray  # first
    agreement: NDArray  # first
    ending_half: NDArray  # first
    hidden: NDArray  # panels, first, HIDDEN_PANEL
    hidden_bias: NDArray  # panels * HIDDEN_PANEL
    score: NDArray  # panels * HIDDEN_PANEL
    score_bias: np.float32
    bound: np.float32


class Observation(NamedTuple):
    """The weights of an observation, as in `episodes.Tables`, heads transposed."""

    own: NDArray
    bias: NDArray
    heads: NDArray  # fold models, classes, width
    head_bias: NDArray
    nodes: int


class Batch(NamedTuple):
    """Episodes and their candidates; ``counted`` is empty if every candidate counts as one."""

    target_row: NDArray
    offsets: NDArray
    key: NDArray
    ending_key: NDArray
    message: NDArray
    counted: NDArray
    half: NDArray
    probabilities: NDArray


class Mode(NamedTuple):
    """How to play."""

    greedy: bool
    learned: bool
    can_end: bool
    extras: bool
    self_weight: bool
