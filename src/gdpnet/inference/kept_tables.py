"""The folder in which a server keeps tables, one folder per model and store in it, and those that nobody needs."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gdpnet._core.files import Place, disk, locked_folder, remove_folder
from gdpnet._core.files.locks import share_lock, try_lock
from gdpnet._core.json_file import read_json
from gdpnet.errors import GDPNetError, RunFolderError, WorkError
from gdpnet.inference.engines.engine import store_sum
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.shards import ABOUT

KIND = "tables"

_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_LETTERS = 16

_WAIT, _LONGEST_WAIT = 0.2, 600.0
"""Seconds between tries, and in all, to hold tables that another process is deleting."""


class Kept(NamedTuple):
    """Tables that were made before."""

    path: Path
    bytes: int
    is_of_store: bool
    """Whether they are of the store that is served now, and another model."""


def tables_beside(store: Path) -> Path:
    """Return the folder for the tables of a store where none is named."""
    place = store.resolve() if store.name in ("", "..") else store
    return Path(f"{place}.tables")


def own_folder(folder: Path, model: TrainedModel, store: Place) -> Path:
    """Return the folder for a model's tables of a store, below a folder."""
    return folder / f"{model.fingerprint()}-{store_sum(store)[:_LETTERS]}"


@contextmanager
def held(place: Path) -> Iterator[None]:
    """Keep other processes from deleting a folder of tables, which is made if need be; wait while one deletes it."""
    if sys.platform == "win32":  # folders are not opened there, and nothing is deleted
        yield
        return
    until = time.monotonic() + _LONGEST_WAIT
    while (descriptor := _share(place)) is None:
        if time.monotonic() >= until:
            raise RunFolderError(
                f"another process is deleting {place}; wait until it ends, or choose another folder"
            )
        time.sleep(_WAIT)
    try:
        yield
    finally:
        with suppress(OSError):
            place.rmdir()  # only if it is empty, as when nothing could be written
        os.close(descriptor)


def _share(place: Path) -> int | None:
    """Return the descriptor of a folder, locked together with others; None if a process is deleting the folder."""
    try:
        disk.make_folder(place)
        descriptor = os.open(place, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkError(f"cannot write {place}: {disk.reason_of(error, place)}") from error
    if share_lock(descriptor) is not False and _is_there(place, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _is_there(place: Path, descriptor: int) -> bool:
    """Return whether a place has the folder that was opened, and not another one of that name or none."""
    try:
        return os.path.samestat(place.stat(), os.fstat(descriptor))
    except OSError:
        return False


def kept_beside(own: Path) -> Iterator[Kept]:
    """Yield all tables that lie beside some, and only what certainly is tables."""
    store = own.name[-_LETTERS:]
    for path in sorted(own.parent.iterdir()):
        if path == own or path.is_symlink() or not _NAME.fullmatch(path.name):
            continue
        with suppress(GDPNetError, OSError):
            if read_json(path / ABOUT, dict, RunFolderError).get("kind") == KIND:
                size = sum(one.lstat().st_size for one in path.rglob("*") if one.is_file())
                yield Kept(path, size, path.name.endswith(store))


def remove_unused(kept: Kept) -> bool:
    """Delete tables unless a process reads or writes them; return whether they were deleted."""
    try:
        descriptor = os.open(kept.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        if try_lock(descriptor) is not True or not _is_there(kept.path, descriptor):
            return False
        with suppress(GDPNetError), locked_folder(kept.path):  # refused while another process writes
            remove_folder(kept.path)
        return not kept.path.exists()
    finally:
        os.close(descriptor)
