"""Write a folder of files whole or not at all, and hold one against other writers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gdpnet._core.files import disk
from gdpnet._core.files.atomic import before_put
from gdpnet._core.files.locks import try_lock
from gdpnet._core.files.objects import ObjectPath
from gdpnet._core.files.places import Place
from gdpnet._core.files.temporary import (
    check_held,
    is_temporary,
    make_temporary,
    move_up,
    own_lock,
    release,
    remove_dead,
)
from gdpnet.errors import GraphError, RunFolderError, WorkError

LOCK = ".gdpnet.lock"
"""The lock file of a folder that is being written to; it is deleted when the writer ends."""


def found_in(folder: Place) -> list[str]:
    """Return the names in a folder, without locks and temporaries of GDPNet; dead processes' ones are deleted."""
    if isinstance(folder, ObjectPath):
        return [one.name for one in folder.iterdir()]
    remove_dead(folder)
    names = (path.name for path in folder.iterdir())
    return sorted(name for name in names if name != LOCK and not is_temporary(name))


def check_new(folder: Place) -> None:
    """Refuse a folder that is not empty."""
    if folder.exists() and not folder.is_dir():
        raise GraphError(f"{folder} must be a new or an empty folder, found a file")
    if folder.is_dir() and (found := found_in(folder)):
        raise GraphError(
            f"{folder} must be a new or an empty folder, found '{found[0][:80]}' in it; choose another --out"
        )


def check_no_links(folder: Path, paths: Iterable[Path]) -> None:
    """Refuse links in place of files that are written into a folder: they would be followed to files elsewhere."""
    for path in paths:
        if path.is_symlink():
            raise RunFolderError(
                f"{folder} must hold files of its own, found the link '{path.relative_to(folder)}': delete it"
            )


@contextmanager
def new_folder(folder: Place, last: str = "") -> Iterator[Path]:
    """Yield a temporary folder, which becomes ``folder`` on success and is deleted on failure.

    A folder that exists and is empty stays, as it may be the current one or a mounted one: the files are moved into
    it, that named ``last`` at the end. In an object store they are put one after the other.
    """
    check_new(folder)
    if isinstance(folder, ObjectPath):
        with before_put(folder, folder=True) as temporary:
            yield temporary
            for path in sorted(temporary.iterdir(), key=lambda one: (one.name == last, one.name)):
                (folder / path.name).put(path)
        return
    place, exists = disk.real(folder), folder.is_dir()
    held = None
    try:
        check_held(place)
        disk.make_folder(place.parent)
        held = temporary, _ = make_temporary(place, within=place if exists else None, folder=True)
        yield temporary
        _flush(temporary)
        if exists:
            with _one_at_a_time(place):
                check_new(folder)
                move_up(temporary, last)
        else:
            temporary.rename(place)
        disk.flush_folder(place if exists else place.parent)
    except WorkError as error:  # of a file in the temporary folder, which the user has not named
        hidden = "" if held is None else str(held[0])
        raise WorkError(str(error).replace(hidden, str(folder)) if hidden else str(error)) from error
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another process was faster
            check_new(folder)
        raise WorkError(f"cannot write {folder}: {disk.reason_of(error, place.parent)}") from error
    finally:
        if held is not None:
            release(*held)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process moves files into a folder; one that comes later finds them and is refused."""
    descriptor = os.open(folder, os.O_RDONLY) if os.name == "posix" else None
    try:
        if descriptor is not None:
            try_lock(descriptor, wait=True)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        disk.flush_file(path)
    disk.flush_folder(folder)


@contextmanager
def locked_folder(folder: Place) -> Iterator[None]:
    """Hold a folder against other writers, and make it if need be; refuse one that another process holds.

    Object stores have no locks: there, processes that write to one folder must put the same objects.
    """
    if isinstance(folder, ObjectPath):
        yield
        return
    path = folder / LOCK
    try:
        disk.make_folder(folder)
        descriptor = _acquire(path)
    except OSError as error:
        raise WorkError(f"cannot write {folder}: {disk.reason_of(error, folder)}") from error
    try:
        remove_dead(folder)
        yield
    finally:
        release(path, descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        if try_lock(descriptor) is False:
            os.close(descriptor)
            raise RunFolderError(
                f"another process is writing to {path.parent}; wait until it ends, or choose another folder"
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                own_lock(path, descriptor)
                return descriptor
        os.close(descriptor)  # its last owner deleted it after we opened it
