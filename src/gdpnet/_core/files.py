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

from gdpnet.errors import GraphError, WorkError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, which replaces ``path`` on success and is deleted on failure.

    An ``OSError`` (no space, no permission) becomes a `WorkError` of one sentence, and an old file stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(path)
    except OSError as error:
        raise WorkError(f"cannot write {path}: {_reason(error)}") from error
    finally:
        if temporary.parent.is_dir():
            temporary.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    """Flush the content to disk, so that a power cut cannot leave an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def check_new(folder: Path) -> None:
    """Refuse a folder that is not empty."""
    if folder.is_dir() and any(folder.iterdir()):
        raise GraphError(f"{folder} must be a new or an empty folder, found files in it")
    if folder.exists() and not folder.is_dir():
        raise GraphError(f"{folder} must be a new or an empty folder, found a file")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``folder``, which becomes ``folder`` on success and is deleted on failure."""
    check_new(folder)
    place = folder.resolve()
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.replace(place)
    except OSError as error:
        raise WorkError(f"cannot write {folder}: {_reason(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(plain(content), indent=2) + "\n")


def plain(value: Any) -> Any:
    """Return a record as JSON has it, at any depth: None for NaN and infinity, plain numbers, and paths as text."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):  # a number or an array of numpy or torch
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
