"""Measure where the time of a run goes: named phases, nested, as a table and as a trace that a browser opens.

Code marks its phases with `phase`, which costs about a microsecond while nobody measures. Within `Profile.measure`
every phase is timed; on a GPU its beginning and end wait for the device, so that work counts where it is launched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

_SEPARATOR = " / "


class Event(NamedTuple):
    """One phase that ran: its name after those around it, and its times in seconds since the profile began."""

    path: tuple[str, ...]
    start: float
    seconds: float


class Row(NamedTuple):
    """One line of the table."""

    phase: str
    calls: int
    seconds: float
    own_seconds: float
    """Seconds outside the phases within it."""


@dataclass
class Profile:
    """The phases of a run in the order in which they ended."""

    events: list[Event] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)

    @contextmanager
    def measure(self) -> Iterator[Profile]:
        """Time the phases within the block."""
        token = _ACTIVE.set(self)
        try:
            yield self
        finally:
            _ACTIVE.reset(token)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase."""
        self._open.append(name)
        start = self._now()
        try:
            yield
        finally:
            self.events.append(Event(tuple(self._open), start, self._now() - start))
            self._open.pop()

    def rows(self) -> list[Row]:
        """Return calls and seconds per phase, phases within others after them, in the order of their first start."""
        calls: dict[tuple[str, ...], int] = {}
        seconds: dict[tuple[str, ...], float] = {}
        first: dict[tuple[str, ...], float] = {}
        for path, start, took in self.events:
            calls[path] = calls.get(path, 0) + 1
            seconds[path] = seconds.get(path, 0.0) + took
            first[path] = min(first.get(path, start), start)
        within = dict.fromkeys(seconds, 0.0)
        for path, took in seconds.items():
            if path[:-1] in within:
                within[path[:-1]] += took
        order = sorted(seconds, key=lambda path: [first[path[: end + 1]] for end in range(len(path))])
        return [
            Row(_SEPARATOR.join(path), calls[path], seconds[path], seconds[path] - within[path])
            for path in order
        ]

    def trace(self) -> str:
        """Return the phases in the Trace Event Format, which browsers show (chrome://tracing, ui.perfetto.dev)."""
        events = [
            {"name": path[-1], "ph": "X", "ts": start * 1e6, "dur": took * 1e6, "pid": 0, "tid": 0}
            for path, start, took in sorted(self.events, key=lambda event: (event.start, -event.seconds))
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def _now(self) -> float:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter() - self._began


_ACTIVE: ContextVar[Profile | None] = ContextVar("profile", default=None)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Time the block as a phase of the profile that is being measured, if there is one."""
    profile = _ACTIVE.get()
    if profile is None:
        yield
    else:
        with profile.phase(name):
            yield
