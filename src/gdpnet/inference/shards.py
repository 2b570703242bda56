"""A folder of shards, one Parquet file per range of targets; a resumed run writes the missing ones.

``shards.json`` describes the shards. During a run ``work`` holds intermediate results, one file per shard; it
is deleted at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.files import atomic_path, write_json
from gdpnet._core.threads import Background
from gdpnet.data.io.csv_parquet import write_table
from gdpnet.errors import GDPNetError, RunFolderError

FORMAT, VERSION = "gdpnet-shards", 1

ABOUT = "shards.json"


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

    def write(self, number: int, table: Any) -> None:
        """Write a shard atomically."""
        write_table(table, self.part(number))

    def column(
        self,
        name: str,
        offsets: np.ndarray,
        compute: Callable[[tuple[int, int]], Tensor],
        writing: Background,
        device: torch.device,
    ) -> Float[Tensor, "rows edges"]:
        """Return rows of values of all edges, block by block: computed, or read if a stopped run saved them.

        ``compute`` returns the values of one block, and ``offsets`` holds the first edge of each block.
        Computed values are saved for a resumed run.
        """
        whole: Tensor | None = None
        for number, block in enumerate(self.blocks):
            path = self.path / "work" / f"{name}-{number:05d}.npy"
            if path.is_file():
                values = torch.from_numpy(np.load(path, allow_pickle=False)).to(device)
            else:
                values = compute(block)
                writing.do(partial(_save, path, values.cpu().numpy()))
            if whole is None:
                whole = torch.empty(values.shape[0], int(offsets[-1]), device=device)
            whole[:, offsets[number] : offsets[number + 1]] = values
        assert whole is not None
        return whole

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary, and delete intermediate and temporary files."""
        write_json(self.path / ABOUT, self.about | {"summary": summary})
        shutil.rmtree(self.path / "work", ignore_errors=True)
        for left in self.path.glob(".part-*.tmp"):
            left.unlink()

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


def _save(path: Path, values: np.ndarray) -> None:
    """Write an array atomically."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, values)


def open_shards(path: Path, about: dict[str, Any], blocks: list[tuple[int, int]]) -> ShardFolder:
    """Start a folder of shards, or resume one of the same model, graph and settings."""
    about = {"format": FORMAT, "version": VERSION} | about | {"shards": [list(block) for block in blocks]}
    shards = ShardFolder(path, about, blocks)
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, shards need a folder")
    if (path / ABOUT).exists():
        _check_same(path, _read(path / ABOUT), about)
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


def _check_same(path: Path, there: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse a folder of another model, graph, command or other settings."""
    for key, value in wanted.items():
        if there.get(key) != value:
            what = {"model": "another model", "graph": "another graph", "kind": "another command"}.get(key)
            found = what or f"other settings ({key})"
            raise RunFolderError(f"{path} holds shards of {found}; choose another --out, or delete it")
