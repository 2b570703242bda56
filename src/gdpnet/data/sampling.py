"""Sample without replacement in many rows at once; the work grows with the sample, not with the population."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int


def distinct(
    rng: np.random.Generator, size: Int[np.ndarray, "rows"], count: Int[np.ndarray, "rows"]
) -> tuple[Int[np.ndarray, "sampled"], Int[np.ndarray, "sampled"]]:
    """Sample ``count[i]`` distinct numbers below ``size[i]`` for each row i, uniformly.

    Returns the row of each number and the number; both ascend. Rows of which more than half is sampled are shuffled
    whole, so that rejection in the other rows accepts at least every second number.
    """
    end = np.cumsum(size)
    start = end - size
    crowded = 2 * count > size
    shuffled = _by_order(rng, start, np.where(crowded, size, 0), count)
    key = np.sort(np.concatenate([shuffled, _by_rejection(rng, start, size, np.where(crowded, 0, count))]))
    owner = np.searchsorted(end, key, side="right")
    return owner, key - start[owner]


def is_among(value: Int[np.ndarray, "*n"], ascending: Int[np.ndarray, "_"]) -> Bool[np.ndarray, "*n"]:
    """Return whether each value is in an ascending array."""
    if ascending.size == 0:
        return np.zeros(value.shape, dtype=bool)
    place = np.searchsorted(ascending, value)
    return ascending[np.minimum(place, ascending.size - 1)] == value


def untaken(
    owner: Int[np.ndarray, "wanted"],
    rank: Int[np.ndarray, "wanted"],
    row_ptr: Int[np.ndarray, "offsets"],
    taken: Int[np.ndarray, "taken"],
    width: int,
) -> Int[np.ndarray, "wanted"]:
    """Return the ``rank``-th free number below ``width`` of each row, where some numbers are taken.

    The taken numbers of a row ascend. The j-th of them, t_j, has t_j - j free numbers before it; so the free number
    of rank r is r plus the count of j with t_j - j <= r.
    """
    row = np.repeat(np.arange(row_ptr.size - 1), np.diff(row_ptr))
    before = taken - (np.arange(taken.size) - row_ptr[row])
    place = np.searchsorted(row * (width + 1) + before, owner * (width + 1) + rank, side="right")
    return rank + place - row_ptr[owner]


def _by_order(rng: np.random.Generator, start: np.ndarray, size: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Shuffle whole rows and take the first numbers of each."""
    owner = np.repeat(np.arange(size.size), size)
    place = np.arange(owner.size) - np.repeat(np.cumsum(size) - size, size)
    shuffled = np.lexsort((rng.random(owner.size), owner))
    return (start[owner] + place)[shuffled[place < count[owner]]]


def _by_rejection(
    rng: np.random.Generator, start: np.ndarray, size: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Sample missing numbers with replacement until there are enough distinct ones."""
    kept = np.empty(0, dtype=np.int64)
    missing = count.copy()
    end = start + size
    while missing.any():
        owner = np.repeat(np.arange(size.size), missing)
        sampled = np.unique(start[owner] + rng.integers(0, size[owner]))
        fresh = sampled[~is_among(sampled, kept)]
        kept = np.sort(np.concatenate([kept, fresh]), kind="stable")
        missing -= np.bincount(np.searchsorted(end, fresh, side="right"), minlength=size.size)
    return kept
