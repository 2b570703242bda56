"""Places of files: paths of this machine, and addresses in object stores."""

from __future__ import annotations

import re
import shutil
from os import PathLike
from pathlib import Path

from gdpnet._core.files.objects import SCHEMES, ObjectPath, is_address
from gdpnet.errors import ConfigError

Place = Path | ObjectPath

_COLLAPSED = re.compile(rf"({'|'.join(SCHEMES)}):/[^/]")


def place_of(where: str | PathLike | ObjectPath) -> Place:
    """Return the place that a path or an address names."""
    if isinstance(where, ObjectPath):
        return where
    if isinstance(where, str) and is_address(where):
        return ObjectPath.of(where)
    if is_collapsed(where):
        raise ConfigError(f"an address in an object store must be a text, not a Path: found {where}")
    return Path(where)


def is_collapsed(where: str | PathLike) -> bool:
    """Return whether a path was the address of a place in an object store: pathlib makes one slash of two."""
    return _COLLAPSED.match(str(where)) is not None


def address_of(place: Place) -> str:
    """Return what leads any process to a place: an absolute path, or an address with its options."""
    return str(place.resolve()) if isinstance(place, Path) else place.address


def size_of(place: Place) -> int | None:
    """Return the size of a file in bytes; None if there is none."""
    if isinstance(place, ObjectPath):
        return place.size()
    return place.stat().st_size if place.is_file() else None


def remove_folder(place: Place) -> None:
    """Delete a folder and what it holds, if it is there; files of this machine that cannot be deleted stay."""
    if isinstance(place, ObjectPath):
        place.remove_all()
    else:
        shutil.rmtree(place, ignore_errors=True)
