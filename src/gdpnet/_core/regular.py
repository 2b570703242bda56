"""Files that are read must be files: a pipe would be waited for, and a device may have no end."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from gdpnet._core.files.places import Place


def check_regular(path: Place) -> None:
    """Raise an ``OSError`` for a device, a pipe and whatever else is neither a file nor a folder."""
    if not isinstance(path, Path):  # an object is always a file
        return
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it must be a file, found a device or a pipe", str(path))
