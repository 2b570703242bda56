"""Arrays in object stores, read by ranges: the bytes that are asked for are brought to a local file and mapped there.

The file is sparse and has no name, so that nothing is left of it however the process ends. It lies in the folder for
temporary files.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from threading import Lock
from weakref import finalize

import numpy as np
from jaxtyping import Bool, Int

from gdpnet._core.files.objects import ObjectError, ObjectPath, ObjectReader
from gdpnet._core.threads import in_order
from gdpnet.errors import WorkError, reason_of

CHUNK = 1 << 18
"""Bytes that are brought together."""

_GAP = 4
"""Chunks that are brought needlessly rather than by another request."""

_MOST = 64
"""Chunks of one request; more are brought by several requests at a time."""

_ARENA = 1 << 34
"""Bytes of a local file, which takes only the disk space of what was brought."""


class LocalFiles:
    """Local files in which objects have room."""

    def __init__(self) -> None:
        self._arena: _Arena | None = None

    def room_for(self, size: int) -> tuple[_Arena, int]:
        """Return a local file and the place in it where an object of a size begins."""
        if self._arena is None or self._arena.left < size:
            self._arena = _Arena(max(size, _ARENA))
        return self._arena, self._arena.take(size)


class _Arena:
    """A local file that is mapped as a whole; arrays over it keep it."""

    def __init__(self, size: int) -> None:
        try:
            with tempfile.TemporaryFile(prefix="gdpnet-") as file:
                file.truncate(size)
                self.mapped = mmap.mmap(file.fileno(), size)
                self._descriptor = os.dup(file.fileno())
        except OSError as error:
            raise WorkError(f"cannot make a file in {tempfile.gettempdir()}: {reason_of(error)}") from error
        finalize(self, os.close, self._descriptor)
        self._used, self._size = 0, size

    @property
    def left(self) -> int:
        return self._size - self._used

    def take(self, size: int) -> int:
        start = self._used
        self._used += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        return start

    def write(self, start: int, content: bytes) -> None:
        """Write at a place; a full disk is an error here, where writing to the mapping would end the process."""
        while content:
            written = os.pwrite(self._descriptor, content, start)
            start, content = start + written, content[written:]


class Fetched:
    """An object of which some bytes are here."""

    def __init__(self, place: ObjectPath, files: LocalFiles) -> None:
        self._reader = ObjectReader(place)
        self.size, self.version = self._reader.size, self._reader.version
        self._arena, self._start = files.room_for(self.size)
        self._present: Bool[np.ndarray, "chunks"] = np.zeros(-(-self.size // CHUNK), dtype=bool)
        self._lock = Lock()

    def is_current(self) -> bool:
        """Return whether the object is still the one whose bytes are here."""
        try:
            self._reader.check()
        except ObjectError:
            return False
        return True

    def array(self, dtype: np.dtype, shape: tuple[int, ...], start: int) -> np.ndarray:
        """Return the array that begins at a byte; what was not brought yet is zero."""
        count = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(self._arena.mapped, dtype, count, self._start + start).reshape(shape)
        values.flags.writeable = False
        return values

    def read(self, start: int, size: int) -> bytes:
        """Bring and return a range of bytes."""
        self.bring(np.array([start]), np.array([start + size]))
        return bytes(self._arena.mapped[self._start + start : self._start + start + size])

    def bring(self, starts: Int[np.ndarray, "ranges"], stops: Int[np.ndarray, "ranges"]) -> None:
        """Bring ranges of bytes, each from its start up to its stop, that are not here yet."""
        some = stops > starts
        first, last = starts[some] // CHUNK, (stops[some] - 1) // CHUNK + 1
        with self._lock:
            steps = np.zeros(self._present.size + 1, dtype=np.int64)
            np.add.at(steps, first, 1)
            np.add.at(steps, last, -1)
            missing = (steps.cumsum()[:-1] > 0) & ~self._present
            if not missing.any():
                return
            found = list(in_order(self._fetch, _requests(np.flatnonzero(missing))))
            self._reader.check()
            for begin, end in found:
                self._present[begin:end] = True

    def bring_all(self) -> None:
        """Bring the whole object."""
        self.bring(np.zeros(1, dtype=np.int64), np.full(1, self.size))

    def _fetch(self, chunks: tuple[int, int]) -> tuple[int, int]:
        start, stop = chunks[0] * CHUNK, min(chunks[1] * CHUNK, self.size)
        content = self._reader.read(start, stop - start)
        try:
            self._arena.write(self._start + start, content)
        except OSError as error:
            raise WorkError(
                f"cannot keep a part of {self._reader.place} in {tempfile.gettempdir()}: {reason_of(error)}; "
                "name a folder with more room in TMPDIR"
            ) from error
        return chunks


def _requests(chunks: Int[np.ndarray, "missing"]) -> Iterator[tuple[int, int]]:
    """Yield ranges that cover some chunks, which ascend: close ones together, long ones in parts."""
    bounds = np.flatnonzero(np.diff(chunks) > _GAP) + 1
    for part in np.split(chunks, bounds):
        first, last = int(part[0]), int(part[-1]) + 1
        for begin in range(first, last, _MOST):
            yield begin, min(begin + _MOST, last)
