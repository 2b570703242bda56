"""Locks that the kernel releases when their process ends, however it ends.

Without ``fcntl`` (Windows), and on file systems without locks, nothing is locked. On NFS locks hold between machines
only if its lock service runs.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gdpnet._core.files.disk import make_folder, reason_of
from gdpnet.errors import RunFolderError, WorkError

if sys.platform != "win32":
    import fcntl

LOCK = ".gdpnet.lock"
"""The lock file of a folder that is being written to; it is deleted when the writer ends."""

_HELD = (errno.EWOULDBLOCK, errno.EACCES)


def try_lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder; return whether it is ours now, None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _HELD else None
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold a folder against other writers, and make it if need be; refuse one that another process holds."""
    path = folder / LOCK
    try:
        make_folder(folder)
        descriptor = _acquire(path)
    except OSError as error:
        raise WorkError(f"cannot write {folder}: {reason_of(error, folder)}") from error
    try:
        yield
    finally:
        with suppress(OSError):  # it may be gone with its folder
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if try_lock(descriptor) is False:
            os.close(descriptor)
            raise RunFolderError(
                f"another process is writing to {path.parent}; wait until it ends, or choose another folder"
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)  # its last owner deleted it after we opened it
