"""What the compiled functions are handed and write, as numpy arrays laid out the way they read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 8
"""Numbers in a vector of the compiled code."""

HALF_BLOCKS, HIDDEN_BLOCKS = 8, 5
HALF_PANEL, HIDDEN_PANEL = LANES * HALF_BLOCKS, LANES * HIDDEN_BLOCKS
"""Columns whose sums are held in registers at once: of the target's half of the first layer, of the second layer."""


class Net(NamedTuple):
    """The policy's weights; a panel is a block of columns, zeros after the last."""

    target: NDArray  # panels, width, HALF_PANEL
    first_bias: NDArray  # panels * HALF_PANEL
    sure: NDArray  # first
    many: NDArray  # first
    agreement: NDArray  # first
    ending_half: NDArray  # first
    hidden: NDArray  # panels, first, HIDDEN_PANEL
    hidden_bias: NDArray  # panels * HIDDEN_PANEL
    score: NDArray  # panels * HIDDEN_PANEL
    score_bias: np.float32
    bound: np.float32


class Sight(NamedTuple):
    """What an observation is made of, as in `episodes.Tables`, heads transposed."""

    own: NDArray
    bias: NDArray
    heads: NDArray  # members, classes, width
    head_bias: NDArray
    nodes: int


class Batch(NamedTuple):
    """Episodes and their candidates; ``counted`` is empty where every candidate counts as one."""

    target_row: NDArray
    offsets: NDArray
    key: NDArray
    ending_key: NDArray
    given: NDArray
    counted: NDArray
    half: NDArray
    beliefs: NDArray


class Output(NamedTuple):
    """What is written; decision t of episode e lies at slot ``offsets[e] + e + t``."""

    candidate: NDArray
    kept: NDArray
    score: NDArray
    weight: NDArray
    decisions: NDArray
    scores: NDArray
    ending: NDArray


class Mode(NamedTuple):
    """How to play."""

    greedy: bool
    learned: bool
    can_end: bool
    extras: bool
    self_weight: bool
