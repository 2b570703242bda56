"""Temporary files and folders: names that no other process has, and removal of those that dead processes left.

A process holds a lock on each of its temporaries. One whose lock can be taken is left over.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from gdpnet._core.files.locks import try_lock
from gdpnet.errors import WorkError

_HOST = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
"""Tells the temporaries of this machine from those of others in a shared folder, which are left alone."""

_NAME = re.compile(rf"\..{{0,40}}\.gdpnet-{_HOST}-\d+-[0-9a-f]{{8}}\.tmp", re.DOTALL)

_MOVING = "moving.json"
"""In a temporary folder: the names that are being moved to the folder around it, and the inode of each."""

_MOST_MOVING = 1 << 20

_CLEANED: set[Path] = set()
"""Folders that this process has cleaned; once is enough."""

_OWN: dict[Path, int | None] = {}
"""Temporaries and lock files that this process has made and not deleted yet, with the descriptors of lock files."""

_HELD: dict[int, tuple[Path, Path]] = {}
"""By descriptor: the lock files that this process holds, and their folders with links followed."""


def is_temporary(name: str) -> bool:
    """Return whether a file name is that of a temporary of this machine."""
    return _NAME.fullmatch(name) is not None


def make_temporary(place: Path, *, within: Path | None = None, folder: bool = False) -> tuple[Path, int]:
    """Make a temporary file or ``folder`` beside a place, or ``within`` a folder; return it and its lock."""
    parent = place.parent if within is None else within
    if parent not in _CLEANED:
        remove_dead(parent)
        _CLEANED.add(parent)
    while True:
        path = parent / f".{place.name[:40]}.gdpnet-{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
        _OWN[path] = None
        try:
            descriptor = _make(path, folder=folder)
        except BaseException:
            _delete_own(path)
            raise
        if descriptor is not None:
            return path, descriptor
        del _OWN[path]


def _make(path: Path, *, folder: bool) -> int | None:
    """Make and lock a temporary; return None if another process took it for a dead one before it was locked."""
    if folder:
        path.mkdir()
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
    else:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    if try_lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
        return descriptor
    os.close(descriptor)
    return None


def release(path: Path, descriptor: int) -> None:
    """Delete a temporary, if it is still there, and give its lock back."""
    _HELD.pop(descriptor, None)
    _delete_own(path)
    os.close(descriptor)


def own_lock(path: Path, descriptor: int) -> None:
    """Note a lock file of this process, which it holds until `release`."""
    _OWN[path] = descriptor
    _HELD[descriptor] = path, Path(os.path.realpath(path.parent))


def check_held(place: Path) -> None:
    """Refuse to write into a folder that this process held, and that was moved or deleted since.

    Its files would be made anew at its old path, which nobody holds, and where another process may write.
    """
    for descriptor, (path, folder) in list(_HELD.items()):
        if folder in place.parents and not _is_at(path, descriptor):
            raise WorkError(
                f"the folder {path.parent} was moved or deleted, or its lock file was, while this command wrote to it"
            )


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path leads to an open file, and not to another one of that name or none."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def delete_left() -> None:
    """Delete what this process still has, at its end; a signal may have come while it was being deleted."""
    for path in list(_OWN):
        _delete_own(path)


def _delete_own(path: Path) -> None:
    """Delete a temporary or a lock file of this process; another process may have a new lock file of that name."""
    descriptor = _OWN.get(path)
    with suppress(OSError):  # it was not made yet, it was renamed, or its folder is gone
        if descriptor is None or _is_at(path, descriptor):
            _take_back(path)
            _delete(path)
    _OWN.pop(path, None)


def remove_dead(folder: Path) -> None:
    """Delete what dead processes of this machine left in a folder, and take back what they had half moved."""
    with suppress(OSError):  # a folder that we may not read
        for path in folder.iterdir():
            if is_temporary(path.name):
                _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR
    try:
        descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))
    except OSError:  # gone, or of another user
        return
    try:
        mine = os.fstat(descriptor).st_uid == os.geteuid() if os.name == "posix" else False
        if mine and try_lock(descriptor) is True:
            _take_back(path)
            with suppress(OSError):
                _delete(path)
    finally:
        os.close(descriptor)


def move_up(folder: Path, last: str) -> None:
    """Move all that a temporary folder holds to the folder around it, the file ``last`` at the end.

    If the process dies meanwhile, `remove_dead` takes back what was moved.
    """
    names = sorted((path.name for path in folder.iterdir()), key=lambda name: (name == last, name))
    with (folder / _MOVING).open("w", encoding="utf-8") as file:
        json.dump({name: os.lstat(folder / name).st_ino for name in names}, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        for name in names:
            (folder / name).rename(folder.parent / name)
    except BaseException:
        _take_back(folder)
        raise


def _take_back(folder: Path) -> None:
    """Delete what was moved from a temporary folder to the one around it, unless all of it was.

    The list may come from others, in an archive that was unpacked: only what was moved has the name and the inode.
    """
    if not (folder / _MOVING).is_file():
        return
    with suppress(ValueError, RecursionError, OSError):  # cut short: then nothing was moved yet
        with (folder / _MOVING).open("rb") as file:
            inodes = json.loads(file.read(_MOST_MOVING))
        if not isinstance(inodes, dict) or any(Path(name).name != name for name in inodes):
            return
        moved = [name for name in inodes if not os.path.lexists(folder / name)]
        for name in moved if len(moved) < len(inodes) else ():
            with suppress(FileNotFoundError):  # a process died while it took back
                if os.lstat(folder.parent / name).st_ino == inodes[name]:
                    _delete(folder.parent / name)
        (folder / _MOVING).unlink()  # what has these names from now on is not ours


def _delete(path: Path) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()
