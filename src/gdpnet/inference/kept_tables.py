"""The folder in which a server keeps tables, one folder per model and store in it, and those that nobody needs."""

from __future__ import annotations

import os
import re
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gdpnet._core.files import Place, remove_folder
from gdpnet._core.files.folders import LOCK
from gdpnet._core.files.locks import share_lock, try_lock
from gdpnet._core.json_file import read_json
from gdpnet.errors import GDPNetError, RunFolderError
from gdpnet.inference.engines.engine import store_sum
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.shards import ABOUT

KIND = "tables"

_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_LETTERS = 16


class Kept(NamedTuple):
    """Tables that were made before."""

    path: Path
    bytes: int
    is_of_store: bool
    """Whether they are of the store that is served now, and another model."""


def tables_beside(store: Path) -> Path:
    """Return the folder for the tables of a store where none is named."""
    return store.with_name(f"{store.resolve().name}.tables")


def own_folder(folder: Path, model: TrainedModel, store: Place) -> Path:
    """Return the folder for a model's tables of a store, below a folder."""
    return folder / f"{model.fingerprint()}-{store_sum(store)[:_LETTERS]}"


def hold(owner: object, place: Path) -> None:
    """Keep a folder of tables from being deleted by other processes while an object is there."""
    if sys.platform == "win32":  # folders are not opened there, and nothing is deleted
        return
    descriptor = os.open(place, os.O_RDONLY)
    share_lock(descriptor)
    weakref.finalize(owner, os.close, descriptor)


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
        descriptor = os.open(kept.path, os.O_RDONLY)
    except OSError:
        return False
    try:
        if try_lock(descriptor) is not True or (kept.path / LOCK).exists():
            return False
        remove_folder(kept.path)
        return not kept.path.exists()
    finally:
        os.close(descriptor)
