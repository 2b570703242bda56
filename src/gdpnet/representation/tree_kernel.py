"""The numba function that evaluates boosted trees on the host; `gdpnet.representation.trees` imports it if it can."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from gdpnet._core.compiled import cached


@partial(cached, nogil=True)
def add_leaves(
    rows: NDArray,
    feature: NDArray,
    threshold: NDArray,
    left: NDArray,
    right: NDArray,
    value: NDArray,
    root: NDArray,
    output: NDArray,
    scores: NDArray,
) -> None:
    """Add to the scores of each row the values of the leaves that it falls into; trees are visited in order."""
    for row in range(rows.shape[0]):
        for tree in range(root.shape[0]):
            place = np.int64(root[tree])
            while left[place] != place:
                if rows[row, feature[place]] <= threshold[place]:
                    place = np.int64(left[place])
                else:
                    place = np.int64(right[place])
            scores[row, output[tree]] += value[place]
