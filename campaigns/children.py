"""Run work in a child of its own, with limits on memory and time, and see how it ends."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from campaigns.faults import Fault, arm

LIMIT_SECONDS = 180.0
"""A child that takes longer hangs, even if other work keeps the machine busy."""

_ENDING = {signal.SIGINT, signal.SIGTERM}


class Outcome(NamedTuple):
    """How a child ended; the code is negative if a signal ended it."""

    code: int
    seconds: float
    out: str
    err: str
    hung: bool = False
    peak_mib: int = 0
    own_seconds: float = 0.0
    """Time of processors that it used."""


class Shot(NamedTuple):
    """A signal to send to a child, and the seconds after its start."""

    number: signal.Signals
    after: float


class Child:
    """A process under way, whose output goes to two files of a folder."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid, self.log, self.start = pid, log, time.perf_counter()
        self._watch = os.pidfd_open(pid)

    def _ended(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._watch, select.POLLIN)
        return bool(poll.poll(max(0.0, 1000 * seconds)))

    def pause(self, seconds: float) -> None:
        """Wait some seconds, less if the child ends before."""
        self._ended(seconds)

    def wait(self, limit: float = LIMIT_SECONDS, shot: Shot | None = None) -> Outcome:
        """Wait for the end, and kill the child if it does not come; ``shot`` sends a signal on the way."""
        if shot is not None and not self._ended(shot.after):
            os.kill(self.pid, shot.number)
        hung = not self._ended(limit - (time.perf_counter() - self.start))
        with contextlib.suppress(ProcessLookupError):  # its own children too, which may outlive it
            os.killpg(self.pid, signal.SIGKILL)
        _, status, used = os.wait4(self.pid, 0)
        os.close(self._watch)
        out, err = (_read(self.log.with_suffix(end)) for end in (".out", ".err"))
        seconds = time.perf_counter() - self.start
        code, peak, own = (
            os.waitstatus_to_exitcode(status),
            used.ru_maxrss >> 10,
            used.ru_utime + used.ru_stime,
        )
        return Outcome(code, seconds, out, err, hung, peak, own)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def fork(
    work: Callable[[], int],
    log: Path,
    *,
    fault: Fault | None = None,
    memory: int | None = None,
    folder: Path | None = None,
) -> Child:
    """Start work in a fork of this process, which has all modules loaded; its answer is the exit code.

    ``memory`` is what it may take beyond what this process has, in bytes; ``folder`` is its working folder.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until the child is ready for them
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            _redirect(log)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the program has its handler
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            if folder is not None:
                os.chdir(folder)
            if memory is not None:
                limit = _mapped() + memory
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if fault is not None:
                arm(fault)
            code = _code_of(work)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    return Child(pid, log)


def _code_of(work: Callable[[], int]) -> int:
    """Return the exit code of work as Python would: an exception that escapes is printed, and is 1."""
    try:
        return work()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1


def _redirect(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for number, end in ((1, ".out"), (2, ".err")):
        file = os.open(log.with_suffix(end), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, number)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _mapped() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def spawn(words: list[str], log: Path, *, fault: Fault | None = None, folder: Path | None = None) -> Child:
    """Start ``python -m gdpnet`` as a user would, in a process group of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "CAMPAIGN_FAULT"}
    environment |= {} if fault is None else {"CAMPAIGN_FAULT": fault.text}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "gdpnet", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    process.returncode = 0  # `Child` waits for it
    return Child(process.pid, log)
