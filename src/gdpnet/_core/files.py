"""Write a file, or a folder of files, whole or not at all."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gdpnet.errors import GDPNetError, GraphError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; put it in place on success, delete it on failure.

    An ``OSError`` on the way (no space, no permission) becomes one sentence; what stood at ``path`` stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(path)
    except OSError as error:
        raise GDPNetError(f"cannot write {path}: {_reason(error)}") from error
    finally:
        if temporary.parent.is_dir():
            temporary.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    """Wait until the content is on the disk, so that a power cut cannot leave the name without it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def check_new(folder: Path) -> None:
    """Refuse a folder that already holds something."""
    if folder.is_dir() and any(folder.iterdir()):
        raise GraphError(f"{folder} must be a new or an empty folder, found files in it")
    if folder.exists() and not folder.is_dir():
        raise GraphError(f"{folder} must be a new or an empty folder, found a file")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``folder``; put it in place on success, delete it on failure."""
    check_new(folder)
    place = folder.resolve()
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.replace(place)
    except OSError as error:
        raise GDPNetError(f"cannot write {folder}: {_reason(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def write_text(path: Path, text: str) -> None:
    """Write a text file, all or nothing."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, all or nothing."""
    write_text(path, json.dumps(plain(content), indent=2) + "\n")


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with NaN and infinity, which JSON does not know, as nothing, however deep they lie."""
    return {key: _plain_value(value) for key, value in record.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_plain_value(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
