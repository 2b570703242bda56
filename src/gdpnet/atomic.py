"""Write a file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gdpnet.errors import GDPNetError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; put it in place on success, delete it on failure.

    An ``OSError`` on the way (no space, no permission) becomes one sentence; what stood at ``path`` stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise GDPNetError(f"cannot write {path}: {reason}") from error
    finally:
        if temporary.parent.is_dir():
            temporary.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    """Wait until the content is on the disk, so that a power cut cannot leave the name without it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
