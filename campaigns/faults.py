"""Faults of single file operations, by a small library that is loaded before all others (``faults.c``)."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("faults.c")
_MARK = "CAMPAIGN_LIBRARY"
_ALONE = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""A process with one thread can be forked, and two processes side by side do not fight over the cores."""


class Mode(IntEnum):
    """What happens at an operation; the numbers are those of ``faults.c``."""

    OFF = 0
    COUNT = 1
    KILL = 2
    TEAR = 3
    FULL = 4
    FULL_ONCE = 5
    READ_ONLY = 6
    INTERRUPT = 7
    TERMINATE = 8


class Fault(NamedTuple):
    """A fault at the operation number ``at`` below a folder."""

    mode: Mode
    at: int
    folder: Path

    @property
    def text(self) -> str:
        """Return the fault as a process reads it from its environment."""
        return f"{self.mode.value}:{self.at}:{self.folder}"


def why_unavailable() -> str | None:
    """Return why operations cannot be counted and disturbed here; None if they can."""
    if not sys.platform.startswith("linux"):
        return "faults of file operations need Linux"
    return None if shutil.which("gcc") else "faults of file operations need gcc"


def restart_with_library(module: str) -> None:
    """Start this program again with the library loaded and one thread, unless it already is."""
    if _MARK in os.environ:
        return
    environment = os.environ | _ALONE | {_MARK: "", "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}
    if why_unavailable() is None:
        library = build_library(Path(tempfile.mkdtemp(prefix="gdpnet-faults-")))
        before = os.environ.get("LD_PRELOAD")
        environment |= {_MARK: str(library), "LD_PRELOAD": f"{library}:{before}" if before else str(library)}
    os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environment)


def build_library(folder: Path) -> Path:
    """Compile the library into a folder."""
    library = folder / "faults.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def is_loaded() -> bool:
    """Return whether the library is loaded in this process."""
    return bool(os.environ.get(_MARK))


def remove_library() -> None:
    """Delete the library of this process, at the end of a campaign."""
    if place := os.environ.get(_MARK):
        shutil.rmtree(Path(place).parent, ignore_errors=True)


def arm(fault: Fault) -> None:
    """Switch a fault on in this process."""
    ctypes.CDLL(None).fault_arm(int(fault.mode), ctypes.c_long(fault.at), str(fault.folder).encode())


def counted() -> int:
    """Return how many operations were counted since a fault was switched on."""
    count = ctypes.CDLL(None).fault_count
    count.restype = ctypes.c_long
    return int(count())
