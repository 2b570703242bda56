"""Locks that the kernel releases when their process ends, however it ends.

Without ``fcntl`` (Windows), and on file systems without locks, nothing is locked. On NFS locks hold between machines
only if its lock service runs.
"""

from __future__ import annotations

import errno
import sys

if sys.platform != "win32":
    import fcntl

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


def share_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder together with others that share it; return as `try_lock` does."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _HELD else None
    return True
