"""Memory that the process has freed and still holds."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def release_freed() -> None:
    """Give memory that was freed back to the system where the C library can; else it stays for later use.

    Threads that end leave theirs behind, and nothing else will use it. This takes a few milliseconds.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # glibc has it, other libraries do not
            ctypes.CDLL(None).malloc_trim(0)
