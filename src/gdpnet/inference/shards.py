"""A folder of shards, one Parquet file per range of targets, and its summary; a resumed run writes the missing ones.

``shards.json`` describes the shards. During a run ``work`` holds intermediate results, one file per shard; it
is deleted at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from gdpnet._core.files import write_json
from gdpnet.errors import GDPNetError, RunFolderError

FORMAT, VERSION = "gdpnet-shards", 1

ABOUT = "shards.json"

BINS = 1 << 16
"""Bins of the keep probability in a summary; edges in one bin count as ties."""


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards, and the range of targets of each."""

    path: Path
    about: dict[str, Any]
    blocks: list[tuple[int, int]]

    def part(self, number: int) -> Path:
        """Return the path of a shard."""
        return self.path / f"part-{number:05d}.parquet"

    @property
    def missing(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the number and the range of each missing shard."""
        for number, block in enumerate(self.blocks):
            if not self.part(number).is_file():
                yield number, block

    @property
    def summary(self) -> dict[str, Any] | None:
        """Return the summary of the run, if it is complete."""
        found: dict[str, Any] | None = _read(self.path / ABOUT).get("summary")
        return found

    def finish(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Write and return the summary, and delete intermediate and temporary files."""
        summary = summary | {"shards": len(self.blocks)}
        write_json(self.path / ABOUT, self.about | {"summary": summary})
        shutil.rmtree(self.path / "work", ignore_errors=True)
        for left in self.path.glob(".part-*.tmp"):
            left.unlink()
        return summary

    @contextmanager
    def saying_what_stays(self) -> Iterator[None]:
        """Add to errors how many shards are finished and how to resume."""
        try:
            yield
        except GDPNetError as error:
            total = len(self.blocks)
            done = total - sum(1 for _ in self.missing)
            raise GDPNetError(
                f"{error}; {done} of {total} shards are finished and stay valid; run the command again to resume"
            ) from error


def open_shards(path: Path, about: dict[str, Any], blocks: list[tuple[int, int]]) -> ShardFolder:
    """Start a folder of shards, or resume one of the same model, graph and settings."""
    about = {"format": FORMAT, "version": VERSION} | about | {"shards": [list(block) for block in blocks]}
    shards = ShardFolder(path, about, blocks)
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, shards need a folder")
    if (path / ABOUT).exists():
        there = _read(path / ABOUT)
        if other := [key for key, value in about.items() if there.get(key) != value]:
            what = {"model": "another model", "graph": "another graph", "kind": "another command"}
            found = what.get(other[0], f"other settings ({other[0]})")
            raise RunFolderError(f"{path} holds shards of {found}; choose another --out, or delete it")
    elif path.is_dir() and any(path.iterdir()):
        raise RunFolderError(
            f"{path} must be a new or an empty folder or hold shards, found other files in it"
        )
    else:
        write_json(path / ABOUT, about)
    return shards


def _read(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("version") != VERSION:
        raise RunFolderError(f"{path} must describe shards of version {VERSION}, found something else")
    return about


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
