"""Sample without replacement in many rows at once.

The work grows with the sample, not with the population.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from gdpnet._core.random import mix64


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


def distinct_by_key(
    seed: int, key: Int[np.ndarray, "rows"], size: Int[np.ndarray, "rows"], most: int
) -> tuple[Int[np.ndarray, "sampled"], Int[np.ndarray, "sampled"]]:
    """Sample up to ``most`` distinct numbers below ``size[i]`` for each row i, uniformly.

    Returns the row of each number and the number. What a row gets depends on the seed, its key and its size alone,
    not on the other rows.
    """
    count = np.minimum(size, most)
    crowded = 2 * count > size
    owner = np.repeat(np.arange(size.size), np.where(crowded, size, 0))
    place = _places(owner)
    # all numbers of a crowded row in random order, of which the first ones are taken
    order = np.lexsort((mix64(seed, key[owner], place), owner))
    order = order[place < count[owner]]
    others = _keyed_by_rejection(seed, key, size, np.where(crowded, 0, count))
    return np.concatenate([owner[order], others[0]]), np.concatenate([place[order], others[1]])


def _keyed_by_rejection(
    seed: int, key: np.ndarray, size: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draw missing numbers of each row one after the other until there are enough distinct ones."""
    start = np.cumsum(size) - size
    kept = np.empty(0, dtype=np.int64)
    missing, drawn = count.copy(), np.zeros_like(count)
    while missing.any():
        row = np.repeat(np.arange(size.size), missing)
        number = mix64(~seed, key[row], drawn[row] + _places(row)) % size[row].astype(np.uint64)
        drawn += missing
        kept = np.union1d(kept, start[row] + number.astype(np.int64))
        missing = count - np.bincount(np.searchsorted(start, kept, side="right") - 1, minlength=size.size)
    row = np.searchsorted(start, kept, side="right") - 1
    return row, kept - start[row]


def _places(owner: np.ndarray) -> np.ndarray:
    """Return the place of each entry within its row, where rows lie one after the other."""
    count = np.bincount(owner) if owner.size else np.zeros(0, dtype=np.int64)
    return np.arange(owner.size) - (np.cumsum(count) - count)[owner]
