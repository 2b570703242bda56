"""What a graph that is cleaned in shards is summarised by: counts of edges, which several threads may add to."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

BINS = 1 << 16
"""Bins of the keep probability in a summary; edges in one bin count as ties."""


class Tally:
    """Counts of edges by keep probability, by known noise, and by whether they were kept."""

    def __init__(self) -> None:
        self.bins = np.zeros((2, BINS), dtype=np.int64)
        self.kept = np.zeros((2, 2), dtype=np.int64)
        self.lock = Lock()

    def add(
        self,
        probability: Float[np.ndarray, "edges"],
        kept: Bool[np.ndarray, "edges"],
        spurious: Bool[np.ndarray, "edges"] | None,
    ) -> None:
        """Count some edges, all as genuine without known noise; threads may count at the same time."""
        noise = np.zeros(kept.size, dtype=np.int64) if spurious is None else spurious.astype(np.int64)
        place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        bins = np.bincount(noise * BINS + place, minlength=2 * BINS).reshape(2, BINS)
        with self.lock:
            self.bins += bins
            self.kept += np.bincount(noise * 2 + kept, minlength=4).reshape(2, 2)

    def packed(self, *, by_probability: bool) -> Int[np.ndarray, "counts"]:
        """Return the counts as one array; those by keep probability are needed only with known noise."""
        filled = np.flatnonzero(self.bins) if by_probability else np.zeros(0, dtype=np.int64)
        return np.concatenate([self.kept.ravel(), filled, self.bins.ravel()[filled]])

    def add_packed(self, counts: Int[np.ndarray, "counts"]) -> None:
        """Add what `packed` returned."""
        filled, found = counts[4:].reshape(2, -1)
        self.kept += counts[:4].reshape(2, 2)
        self.bins.ravel()[filled] += found

    def summary(self) -> dict[str, Any]:
        """Return the share kept and, with known noise, shares by truth and the ROC AUC."""
        edges, kept = int(self.kept.sum()), int(self.kept[:, 1].sum())
        result: dict[str, Any] = {"edges": edges, "kept": kept, "kept_share": kept / edges if edges else None}
        genuine, spurious = self.kept.sum(axis=1).tolist()
        if genuine and spurious:
            result["spurious_removed"] = int(self.kept[1, 0]) / spurious
            result["genuine_kept"] = int(self.kept[0, 1]) / genuine
            below = np.cumsum(self.bins[1]) - self.bins[1] / 2  # ties count half
            result["keep_auc"] = float((self.bins[0] / genuine * (below / spurious)).sum())
        return result
