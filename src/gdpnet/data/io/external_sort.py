"""Distribute numbers over bucket files, as a sort larger than memory needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Int


class Buckets:
    """Bucket files of 64-bit numbers in a folder."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        self.count = count
        self.paths = [folder / f"{name}-{number:05d}" for number in range(count)]

    def put(self, values: Int[np.ndarray, "n"], bucket: Int[np.ndarray, "n"]) -> None:
        """Append each value to its bucket."""
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        for path, part in zip(self.paths, np.split(values[order], ends[:-1]), strict=True):
            with path.open("ab") as file:
                file.write(part.astype(np.int64, copy=False).tobytes())

    def take(self, number: int) -> Int[np.ndarray, "n"]:
        """Return all values of a bucket and delete its file."""
        path = self.paths[number]
        values = np.fromfile(path, dtype=np.int64) if path.exists() else np.zeros(0, dtype=np.int64)
        path.unlink(missing_ok=True)
        return values

    def replace(self, number: int, values: Int[np.ndarray, "n"]) -> None:
        """Replace the values of a bucket."""
        self.paths[number].write_bytes(values.tobytes())
