"""Memory that the process has freed and still holds, and memory that it may use."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path


def release_freed() -> None:
    """Give memory that was freed back to the system where the C library can; else it stays for later use.

    Threads that end leave theirs behind, and nothing else will use it. This takes a few milliseconds.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # glibc has it, other libraries do not
            ctypes.CDLL(None).malloc_trim(0)


def available_memory() -> int:
    """Return the bytes that this process may still use: what is free, within the limit of its control group."""
    found = 1 << 62
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found = int(line.split()[1]) * 1024
    with suppress(OSError, ValueError):  # no limit is the word max
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        found = min(found, int(limit) - int(used))
    return max(found, 0)
