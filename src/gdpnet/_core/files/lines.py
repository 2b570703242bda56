"""Files of JSON Lines: append a line whole or not at all, and read what a full disk or a kill has left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gdpnet._core.files import disk
from gdpnet._core.files.atomic import is_stream
from gdpnet._core.files.locks import try_lock
from gdpnet.errors import GDPNetError, WorkError

_BLOCK = 1 << 16
_MOST_SHOWN = 60


def append_line(path: Path, line: str, *, durable: bool = True) -> None:
    """Append a line with one write, flushed to disk if it is ``durable``; take it back if that fails.

    The file is locked meanwhile, so lines of several processes do not mix. A torn last line is removed first.
    """
    content = line.encode() + b"\n"
    flags = os.O_WRONLY if is_stream(path) else os.O_RDWR | os.O_CREAT | os.O_APPEND
    try:
        disk.make_folder(path.parent)
        is_new = not path.exists()
        descriptor = os.open(path, flags, 0o666)
        try:
            if flags == os.O_WRONLY:
                _write_all(descriptor, content)
            else:
                try_lock(descriptor, wait=True)
                _append(descriptor, content, durable=durable)
        finally:
            os.close(descriptor)
        if is_new:
            disk.flush_folder(Path(os.path.realpath(path)).parent)
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
    """Return the last line of a file, with its newline if it has one."""
    found, start = b"", size
    while start > 0 and b"\n" not in found[:-1]:
        step = min(_BLOCK, start)
        start -= step
        found = os.pread(descriptor, step, start) + found
    return found[found.rfind(b"\n", 0, -1) + 1 :]


def _is_torn(line: bytes) -> bool:
    """Return whether a last line is the beginning of an object, or empty blocks of a disk; other text is not ours."""
    text = line.strip()
    return text.startswith((b"{", b"\0")) and not isinstance(_parsed(text), dict)


def _parsed(line: bytes) -> Any:
    """Return a line of JSON, or the reason why it is none as an exception."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return error


def has_torn_end(path: Path) -> bool:
    """Return whether the last line of a file of objects was cut short."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        return _is_torn(_last_line(file.fileno(), size))


def read_objects(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a file with their line numbers; none if there is no file or it is a device.

    A torn last line is left out. Any other line that is no object is refused.
    """
    if not path.exists() or is_stream(path):
        return []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise GDPNetError(f"cannot read {path}: {error.strerror}") from error
    filled = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if filled and _is_torn(filled[-1][1]):
        del filled[-1]
    found = [(number, _parsed(line)) for number, line in filled]
    for (number, value), (_, line) in zip(found, filled, strict=True):
        if not isinstance(value, dict):
            shown = line[:_MOST_SHOWN].decode(errors="replace")
            raise GDPNetError(
                f"line {number} of {path} is not a record: it must be a JSON object, found '{shown}'; mend or delete "
                "the line"
            )
    return found
