"""Draw without replacement, in many rows at once; the work grows with what is drawn, not with what could be."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int


def distinct(
    rng: np.random.Generator, size: Int[np.ndarray, "rows"], count: Int[np.ndarray, "rows"]
) -> tuple[Int[np.ndarray, "drawn"], Int[np.ndarray, "drawn"]]:
    """Draw for each row i ``count[i]`` different numbers below ``size[i]``, every set of them as likely.

    Returns the row of each number and the number; both ascend. Rows of which over half is wanted are
    shuffled, so that in the others a drawn number is new at least every second time.
    """
    end = np.cumsum(size)
    start = end - size
    crowded = 2 * count > size
    key = np.concatenate(
        [
            _by_order(rng, start, size, np.where(crowded, count, 0), crowded),
            _by_rejection(rng, start, size, np.where(crowded, 0, count)),
        ]
    )
    key.sort()
    owner = np.searchsorted(end, key, side="right")
    return owner, key - start[owner]


def is_among(
    value: Int[np.ndarray, "*values"], ascending: Int[np.ndarray, "_"]
) -> Bool[np.ndarray, "*values"]:
    """Say of each value whether it is one of those given in ascending order."""
    if ascending.size == 0:
        return np.zeros(value.shape, dtype=bool)
    place = np.searchsorted(ascending, value)
    return ascending[np.minimum(place, ascending.size - 1)] == value


def untaken(
    owner: Int[np.ndarray, "asked"],
    rank: Int[np.ndarray, "asked"],
    row_ptr: Int[np.ndarray, "offsets"],
    taken: Int[np.ndarray, "taken"],
    width: int,
) -> Int[np.ndarray, "asked"]:
    """Return the number that is the ``rank``-th free one of its row, where some below ``width`` are taken.

    The taken numbers of a row ascend. The j-th of them, t_j, has t_j - j free ones before it; so the free
    number of rank r is r plus the count of those j with t_j - j <= r.
    """
    row = np.repeat(np.arange(row_ptr.size - 1), np.diff(row_ptr))
    before = taken - (np.arange(taken.size) - row_ptr[row])
    place = np.searchsorted(row * (width + 1) + before, owner * (width + 1) + rank, side="right")
    return rank + place - row_ptr[owner]


def _by_order(
    rng: np.random.Generator, start: np.ndarray, size: np.ndarray, count: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """Shuffle the whole of the rows asked for and take the first of each."""
    length = np.where(asked, size, 0)
    owner = np.repeat(np.arange(size.size), length)
    place = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length)
    shuffled = np.lexsort((rng.random(owner.size), owner))
    return (start[owner] + place)[shuffled[place < count[owner]]]


def _by_rejection(
    rng: np.random.Generator, start: np.ndarray, size: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Draw with replacement what is still missing, until nothing is."""
    kept = np.empty(0, dtype=np.int64)
    missing = count.copy()
    end = start + size
    while missing.any():
        owner = np.repeat(np.arange(size.size), missing)
        drawn = np.unique(start[owner] + rng.integers(0, size[owner]))
        fresh = drawn[~is_among(drawn, kept)]
        kept = np.sort(np.concatenate([kept, fresh]), kind="stable")
        missing -= np.bincount(np.searchsorted(end, fresh, side="right"), minlength=size.size)
    return kept
