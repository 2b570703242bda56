"""Devices, pipes and open files of this process in place of files: written where they stand, read with patience."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from pathlib import Path

from gdpnet._core.files.objects import ObjectPath
from gdpnet._core.files.places import Place

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MOST_LINKS = 40
_PATIENCE = 10.0
"""Seconds that a pipe may be without a process at its other end."""


def is_stream(path: Place) -> bool:
    """Return whether a path leads to a device, a pipe or an open file of this process."""
    if isinstance(path, ObjectPath):
        return False
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: Path) -> int | None:
    """Return the open file that a path such as /dev/stdout leads to."""
    path = path.absolute()
    for _ in range(_MOST_LINKS):
        if found := re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,6})", str(path)):
            return int(found[1])
        if str(path) in _STANDARD:
            return _STANDARD[str(path)]
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def open_stream(path: Path) -> int:
    """Open a device, a pipe or an open file for writing; refuse a pipe that nobody reads from after some seconds."""
    if (number := _descriptor(path)) is not None:
        return os.dup(number)
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
            if time.monotonic() > end:
                raise OSError(f"no process reads from the pipe within {_PATIENCE:.0f} seconds") from error
            time.sleep(0.05)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def read_some(path: Path, most: int) -> bytes:
    """Read at most so many bytes of a file or a pipe; refuse a pipe that nobody writes to after some seconds."""
    if not path.is_fifo() or _descriptor(path) is not None:
        with path.open("rb") as file:
            return file.read(most)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
        first = _first_of(pipe.fileno(), most)
        os.set_blocking(pipe.fileno(), True)
        return first + pipe.read(most - len(first))


def _first_of(pipe: int, most: int) -> bytes:
    """Return what is in a pipe once a process writes to it, which may be nothing yet."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            if found := os.read(pipe, most):
                return found
        except BlockingIOError:  # a process has it open, and will write
            return b""
        time.sleep(0.05)
    raise OSError(f"no process writes to the pipe within {_PATIENCE:.0f} seconds")
