"""Files of JSON Lines: append a line whole or not at all, and read what a full disk or a kill has left."""

from __future__ import annotations

import errno
import io
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gdpnet._core.files import disk
from gdpnet._core.files.atomic import write_text
from gdpnet._core.files.locks import try_lock
from gdpnet._core.files.objects import ObjectPath
from gdpnet._core.files.places import Place
from gdpnet._core.files.streams import is_stream, open_stream
from gdpnet._core.files.temporary import check_held
from gdpnet._core.limits import MOST_JSON_BYTES
from gdpnet._core.strict_json import HugeNumberError, load_json
from gdpnet._core.threads import in_order
from gdpnet.errors import GDPNetError, WorkError

_BLOCK = 1 << 16
_MOST_SHOWN = 60


def append_line(path: Place, line: str, *, durable: bool = True) -> None:
    """Append a line with one write, flushed to disk if it is ``durable``; take it back if that fails.

    The file is locked meanwhile, so lines of several processes do not mix. A torn last line is removed first. In an
    object store each line is an object of its own, whose name begins with the time.
    """
    content = line.encode() + b"\n"
    if isinstance(path, ObjectPath):
        (path / f"{time.time_ns():020d}-{secrets.token_hex(4)}.jsonl").put_bytes(content)
        return
    place = disk.real(path)
    flags = 0 if is_stream(path) else os.O_RDWR | os.O_CREAT | os.O_APPEND
    try:
        check_held(place)
        disk.make_folder(place.parent)
        is_new = not path.exists()
        descriptor = os.open(path, flags, 0o666) if flags else open_stream(path)
        try:
            if not flags:
                _write_all(descriptor, content)
            else:
                try_lock(descriptor, wait=True)
                _append(descriptor, content, durable=durable)
        finally:
            os.close(descriptor)
        if is_new:
            disk.flush_folder(place.parent)
    except OSError as error:
        raise WorkError(f"cannot write {path}: {disk.reason_of(error, path.parent)}") from error


def _append(descriptor: int, content: bytes, *, durable: bool) -> None:
    size = os.fstat(descriptor).st_size
    last = _last_line(descriptor, size)
    end = size - len(last) if _is_torn(last) else size
    before = b"\n" if end == size and last and not last.endswith(b"\n") else b""
    os.ftruncate(descriptor, end)
    try:
        _write_all(descriptor, before + content)
        if durable:
            os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, end)
        raise


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _last_line(descriptor: int, size: int) -> bytes:
    """Return the last line of a file, with its newline if it has one; of a line that is too long only the end."""
    start, least = size - 1, max(0, size - MOST_JSON_BYTES - 2)  # the last byte is no newline before the line
    while start > least:
        first = max(least, start - _BLOCK)
        place = os.pread(descriptor, start - first, first).rfind(b"\n")
        if place >= 0:
            return os.pread(descriptor, size - first - place - 1, first + place + 1)
        start = first
    return os.pread(descriptor, size - least, least)


def _is_torn(line: bytes) -> bool:
    """Return whether a last line is the beginning of an object, or empty blocks of a disk; other text is not ours."""
    text = line.strip()
    if len(line) > MOST_JSON_BYTES or not text.startswith((b"{", b"\0")):
        return False
    return not isinstance(_parsed(text), dict | RecursionError | UnicodeEncodeError | HugeNumberError)


def _parsed(line: bytes) -> Any:
    """Return a line of JSON, or the reason why it is none as an exception."""
    try:
        return load_json(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return error


def has_torn_end(path: Path) -> bool:
    """Return whether the last line of a file of objects was cut short."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            return _is_torn(_last_line(file.fileno(), size))
    except OSError as error:
        raise GDPNetError(f"cannot read {path}: {error.strerror}") from error


def clear_lines(path: Place) -> None:
    """Delete the lines of a file."""
    if isinstance(path, ObjectPath):
        path.remove_all()
    else:
        write_text(path, "")


def check_lines(path: Path) -> None:
    """Refuse a file that no line can be added to, and one in a folder that cannot be made, before work is done."""
    place = disk.real(path)
    if is_stream(path):
        return
    if place.is_dir():
        raise WorkError(f"cannot write {path}: {os.strerror(errno.EISDIR)}")
    there = next(one for one in (place, *place.parents) if one.exists())
    if there != place and not there.is_dir():
        raise WorkError(f"cannot write {path}: {os.strerror(errno.ENOTDIR)}")
    if not os.access(there, os.W_OK):
        refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise WorkError(f"cannot write {path}: {disk.reason_of(refused, there)}")


def start_lines(path: Path) -> None:
    """Make a file that has no lines yet, if it is not there."""
    try:
        check_held(disk.real(path))
        disk.make_folder(path.parent)
        path.touch()
        disk.flush_folder(path.parent)
    except OSError as error:
        raise WorkError(f"cannot write {path}: {disk.reason_of(error, path.parent)}") from error


def read_objects(path: Place) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a file with their line numbers; none if there is no file or it is a device.

    A torn last line is left out. Any other line that is no object is refused.
    """
    if isinstance(path, ObjectPath):
        content = b"".join(in_order(ObjectPath.read_bytes, path.iterdir()))
        return _objects_of(list(_filled_lines(io.BytesIO(content), path)), path)
    if not path.exists() or is_stream(path):
        return []
    try:
        with path.open("rb") as file:
            filled = list(_filled_lines(file, path))
    except OSError as error:
        raise GDPNetError(f"cannot read {path}: {error.strerror}") from error
    if filled and _is_torn(filled[-1][1]):
        del filled[-1]
    return _objects_of(filled, path)


def _objects_of(filled: list[tuple[int, bytes]], path: Place) -> list[tuple[int, dict[str, Any]]]:
    found = [(number, _parsed(line)) for number, line in filled]
    for (number, value), (_, line) in zip(found, filled, strict=True):
        if not isinstance(value, dict):
            shown = line[:_MOST_SHOWN].decode(errors="replace")
            raise GDPNetError(
                f"line {number} of {path} is not a record: it must be a JSON object, found '{shown}'; mend or delete "
                "the line"
            )
    return found


def _filled_lines(file: io.BufferedIOBase, path: Place) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with their numbers; refuse one that is too long before it is read."""
    number = 0
    while line := file.readline(MOST_JSON_BYTES + 1):
        number += 1
        if len(line) > MOST_JSON_BYTES:
            raise GDPNetError(
                f"line {number} of {path} is not a record: it must have at most {MOST_JSON_BYTES:,} bytes"
            )
        if line.strip():
            yield number, line
