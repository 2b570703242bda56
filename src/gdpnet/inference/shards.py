"""A folder of shards, one Parquet file per range of targets, and its summary; a resumed run writes the missing ones.

``shards.json`` describes the shards, with size and SHA-256 of each once all are written. During a run ``work`` holds
intermediate results, one file per shard, and ``done.jsonl``, a line with size and SHA-256 of every file that is
finished; it is deleted at the end. A file that does not fit its line is made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gdpnet._core.files import (
    Place,
    append_line,
    atomic_path,
    check_no_links,
    clear_lines,
    found_in,
    read_objects,
    size_of,
    write_json,
)
from gdpnet._core.json_file import read_json
from gdpnet.errors import GDPNetError, RunFolderError, WorkError
from gdpnet.inference.shard_work import (
    DONE,
    GRAPH,
    MODEL,
    PLAN,
    WORK,
    begin_work,
    check_own,
    is_own,
    remove_work,
)
from gdpnet.inference.tally import Tally

__all__ = [
    "ABOUT",
    "DONE",
    "GRAPH",
    "MODEL",
    "PLAN",
    "WORK",
    "Seal",
    "ShardFolder",
    "Tally",
    "begin_work",
    "check_place",
    "open_shards",
    "sealed",
]

FORMAT, VERSION = "gdpnet-shards", 1

ABOUT = "shards.json"

_PART = re.compile(r"part-\d{5,}\.parquet", re.ASCII)
"""The name of a shard; other programs write other files that begin with ``part-``."""

_PIECE = 1 << 20


class Seal(NamedTuple):
    """What a finished file must be."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards, and the range of targets of each."""

    path: Place
    about: dict[str, Any]
    blocks: list[tuple[int, int]]
    seals: dict[str, Seal] = field(default_factory=dict)
    """By file name: what is finished."""
    verified: set[str] = field(default_factory=set)
    """Names of the files whose content was compared with their seal, or written by this process."""

    def part(self, number: int) -> Place:
        """Return the path of a shard."""
        return self.path / f"part-{number:05d}.parquet"

    @property
    def missing(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the number and the range of each shard that is missing, cut short or damaged."""
        for number, block in enumerate(self.blocks):
            if not self.is_whole(self.part(number)):
                yield number, block

    def is_whole(self, path: Place) -> bool:
        """Return whether a file is as it was when it was finished."""
        if path.name in self.verified:
            return True
        seal = self.seals.get(path.name)
        if seal is None or size_of(path) != seal.bytes or sealed(path) != seal:
            return False
        self.verified.add(path.name)
        return True

    def seal(self, path: Place, found: Seal | None = None) -> None:
        """Note that a file is finished."""
        found = found or sealed(path)
        append_line(self.path / WORK / DONE, json.dumps({"file": path.name, **found._asdict()}))
        self.seals[path.name] = found
        self.verified.add(path.name)

    def place(self, name: str) -> Place:
        """Return the path of a shard or of an intermediate result, by its name."""
        return self.path / name if name.startswith("part-") else self.work(name)

    def add_seals(self, lines: list[dict[str, Any]]) -> None:
        """Add what some lines of the list of finished files say."""
        self.seals.update(_seals_in(lines))

    def work(self, name: str) -> Place:
        """Return the path of an intermediate result."""
        return self.path / WORK / name

    def save(self, name: str, values: np.ndarray) -> None:
        """Write an intermediate result."""
        buffer, path = io.BytesIO(), self.work(name)
        np.save(buffer, values)
        content = buffer.getbuffer()
        begin_work(self.path / WORK)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)
        self.seal(path, Seal(len(content), hashlib.sha256(content).hexdigest()))

    def load(self, name: str) -> np.ndarray | None:
        """Return an intermediate result; None if it is missing, cut short or damaged."""
        path, seal = self.work(name), self.seals.get(name)
        if seal is None or size_of(path) != seal.bytes:
            return None
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != seal.sha256:
            return None
        values: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
        return values

    @property
    def summary(self) -> dict[str, Any] | None:
        """Return the summary of the run, if it is complete and all shards are whole."""
        found = _read(self.path / ABOUT).get("summary")
        if not isinstance(found, dict) or any(True for _ in self.missing):
            return None
        remove_work(self.path / WORK)  # the process may have ended before it did so
        return found

    def finish(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Write and return the summary, and delete intermediate results."""
        if _difference(self.path, self.about):
            raise RunFolderError(
                f"{self.path} was begun anew by another command while this one was writing to it"
            )
        summary = summary | {"shards": len(self.blocks)}
        parts = [self.seals[self.part(number).name]._asdict() for number in range(len(self.blocks))]
        write_json(self.path / ABOUT, self.about | {"parts": parts, "summary": summary})
        remove_work(self.path / WORK)
        return summary

    @contextmanager
    def saying_what_stays(self) -> Iterator[None]:
        """Add to errors how many shards are finished and how to resume."""
        try:
            yield
        except GDPNetError as error:
            total = len(self.blocks)
            done = sum(self.part(number).name in self.verified for number in range(total))
            kind = WorkError if isinstance(error, WorkError) else GDPNetError
            raise kind(
                f"{error}; {done} of {total} shards are finished and stay valid; run the command again to resume"
            ) from error


def sealed(path: Place) -> Seal:
    """Return size and checksum of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return Seal(size, digest.hexdigest())


def check_place(path: Place, *, force: bool = False) -> None:
    """Refuse a file, and a folder with other files; with ``force`` shards are written beside them."""
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, shards need a folder")
    if force or not path.is_dir() or (path / ABOUT).exists():
        return
    if found := found_in(path):
        raise RunFolderError(
            f"{path} must be a new or an empty folder or hold shards, found '{found[0][:80]}' in it; choose another "
            "--out, or write beside it with --force"
        )


def open_shards(
    path: Place, about: dict[str, Any], blocks: list[tuple[int, int]], *, force: bool = False
) -> ShardFolder:
    """Start a folder of shards, or resume one of the same model, graph and settings; ``force`` replaces others."""
    about = {"format": FORMAT, "version": VERSION} | about | {"shards": [list(block) for block in blocks]}
    check_place(path, force=force)
    if isinstance(path, Path):
        check_no_links(path, _own_files(path))
    # asked first: who begins a folder writes its description before anything else
    has_work = (path / WORK).exists()
    shards = ShardFolder(path, about, blocks)
    if (path / ABOUT).exists():
        reason = _difference(path, about)
        if reason and not force:
            raise RunFolderError(f"{reason}; choose another --out, or replace it with --force")
        if not reason:
            shards.seals.update(_seals_of(path))
            if not is_own(path / WORK) and shards.summary is None:
                check_own(path / WORK, described=True)  # a finished folder is not written to
            return shards
    check_own(path / WORK, described=_is_described(path))
    if has_work:
        remove_work(path / WORK)
    if (path / ABOUT).exists():
        for old in filter(_is_part, path.glob("part-*.parquet")):
            old.unlink(missing_ok=True)
    write_json(path / ABOUT, about)  # after the others: it says that they are ours
    return shards


def _is_part(place: Place) -> bool:
    return _PART.fullmatch(place.name) is not None


def _is_described(path: Place) -> bool:
    """Return whether a folder has a description of shards."""
    try:
        return bool(_read(path / ABOUT))
    except RunFolderError:
        return False


def _own_files(path: Path) -> list[Path]:
    """Return the files of shards and of intermediate results that are there or will be written first."""
    parts = filter(_is_part, path.glob("part-*.parquet"))
    return [path / ABOUT, path / WORK, *parts, *(path / WORK).rglob("*")]


def _difference(path: Place, about: dict[str, Any]) -> str:
    """Return why shards that are there are others than those asked for; nothing if they are the same."""
    try:
        there = _read(path / ABOUT)
    except RunFolderError as error:
        return str(error)
    other = [key for key, value in about.items() if there.get(key) != value]
    if not other:
        return ""
    what = {"model": "another model", "graph": "another graph", "kind": "another command"}
    return f"{path} holds shards of {what.get(other[0], f'other settings ({other[0]})')}"


def _seals_of(path: Place) -> dict[str, Seal]:
    """Return what is finished: the shards that ``shards.json`` lists, and what was noted after that."""
    parts = _read(path / ABOUT).get("parts")
    listed: list[dict[str, Any]] = [
        {"file": f"part-{number:05d}.parquet"} | one
        for number, one in enumerate(parts if isinstance(parts, list) else ())
        if isinstance(one, dict)
    ]
    try:
        listed += [one for _, one in read_objects(path / WORK / DONE)]
    except GDPNetError:  # damaged: what it says cannot be trusted, so that all of it is made again
        clear_lines(path / WORK / DONE)
    return _seals_in(listed)


def _seals_in(listed: list[dict[str, Any]]) -> dict[str, Seal]:
    return {
        str(one.get("file")): Seal(one["bytes"], one["sha256"])
        for one in listed
        if isinstance(one.get("bytes"), int) and isinstance(one.get("sha256"), str)
    }


def _read(path: Place) -> dict[str, Any]:
    about: dict[str, Any] = read_json(path, error=RunFolderError)
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise RunFolderError(f"{path} must describe shards of version {VERSION}, found something else")
    return about
