"""Make what was written last: flush files and folders to disk, and say in one sentence why a write failed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gdpnet.errors import WorkError

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def flush_file(path: Path) -> None:
    """Flush the content of a file to disk, so that a power cut cannot leave it empty."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def flush_folder(path: Path) -> None:
    """Flush the names in a folder to disk, so that a power cut cannot undo a new or a renamed file."""
    if os.name != "posix":  # other systems cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot do it
            raise
    finally:
        os.close(descriptor)


def real(path: Path) -> Path:
    """Return a path with links followed; refuse one below a current folder that was deleted."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise WorkError(f"cannot write {path}: the current folder was deleted") from error


def make_folder(path: Path) -> None:
    """Make a folder and its parents, each flushed to disk; links are followed, also to what is not there yet."""
    absent, path = [], real(path)
    for folder in (path, *path.parents):  # a loop: there may be more levels than Python has frames
        if folder.is_dir():
            break
        if folder.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        absent.append(folder)
    for folder in reversed(absent):
        folder.mkdir(exist_ok=True)
        flush_folder(folder.parent)


def reason_of(error: OSError, folder: Path) -> str:
    """Return why a write failed; a folder that cannot be written to is named."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _REFUSED and folder.is_dir():
        return f"the folder {folder} cannot be written to ({reason})"
    return reason
