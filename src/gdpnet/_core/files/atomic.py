"""Write a file whole or not at all; links are followed, and devices and pipes are written to, not replaced."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gdpnet._core.files import disk
from gdpnet._core.files.objects import ObjectError, ObjectPath
from gdpnet._core.files.places import Place
from gdpnet._core.files.plain import plain
from gdpnet._core.files.streams import is_stream, open_stream
from gdpnet._core.files.temporary import check_held, make_temporary, release
from gdpnet.errors import WorkError


@contextmanager
def atomic_path(path: Place, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path, which replaces ``path`` on success and is deleted on failure.

    A file that is not ``durable`` may be lost or cut when the machine fails: its reader must know its checksum.

    The temporary path of an object is in the folder for temporary files; any other lies beside the file that ``path``
    leads to. An ``OSError`` (no space, no permission) becomes a `WorkError` of
    one sentence, and an old file stays, with its permissions. A device or a pipe gets the content at the end.
    """
    if isinstance(path, ObjectPath):
        with before_put(path) as temporary:
            yield temporary
            path.put(temporary)
        return
    place, through = disk.real(path), is_stream(path)
    place = Path(tempfile.gettempdir()) / path.name if through else place
    held = None
    try:
        check_held(place)
        disk.make_folder(place.parent)
        held = make_temporary(place)
        yield held[0]
        if through:
            _copy_to(path, held[0])
        else:
            check_held(place)
            _replace(held[0], place, durable=durable)
    except OSError as error:
        check_held(place)  # the better reason
        raise WorkError(f"cannot write {path}: {disk.reason_of(error, place.parent)}") from error
    finally:
        if held is not None:
            release(*held)


@contextmanager
def before_put(place: ObjectPath, *, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary file or folder of this machine for what will be put in an object store."""
    held, here = None, Path(tempfile.gettempdir())
    try:
        held = make_temporary(here / (place.name or "gdpnet"), folder=folder)
        yield held[0]
    except ObjectError:
        raise
    except OSError as error:
        raise WorkError(f"cannot write {place} by way of {here}: {disk.reason_of(error, here)}") from error
    finally:
        if held is not None:
            release(*held)


def _replace(temporary: Path, place: Path, *, durable: bool) -> None:
    with suppress(FileNotFoundError):
        temporary.chmod(stat.S_IMODE(place.stat().st_mode))
    if durable:
        disk.flush_file(temporary)
    temporary.replace(place)
    if durable:
        disk.flush_folder(place.parent)


def _copy_to(path: Path, content: Path) -> None:
    """Write a file to a device, a pipe or an open file, where that stands."""
    if sys.stdout is not None:
        sys.stdout.flush()
    with os.fdopen(open_stream(path), "wb") as target, content.open("rb") as source:
        shutil.copyfileobj(source, target)


def write_text(path: Place, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Place, content: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(plain(content), indent=2) + "\n")
