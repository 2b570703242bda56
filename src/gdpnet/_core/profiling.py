"""Measure where the time of a run goes: named phases, nested, as a table and as a trace that a browser opens.

Code marks its phases with `phase`, which costs about a microsecond while nobody measures. Within `Profile.measure`
every phase is timed; on a GPU its beginning and end wait for the device, so that work counts where it is launched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import torch

from gdpnet._core.files import write_text
from gdpnet._core.profile_page import HEADER, cells_of, page_of

_SEPARATOR = " / "


class Event(NamedTuple):
    """One phase that ran: its name after those around it, and its times in seconds since the profile began."""

    path: tuple[str, ...]
    start: float
    seconds: float
    lane: int = 0
    """Zero for phases of the caller; those of other threads have numbers so that none overlap."""

    @property
    def is_beside(self) -> bool:
        """Return whether it ran in another thread, beside the phases of the caller."""
        return self.lane > 0


class Row(NamedTuple):
    """One line of the table."""

    phase: str
    calls: int
    seconds: float
    own_seconds: float
    """Seconds outside the phases within it."""
    share: float = 0.0
    """Share of the seconds of the phase ``fit`` or, without one, of all outermost phases."""

    @property
    def depth(self) -> int:
        """Return the number of phases that it lies within."""
        return self.phase.count(_SEPARATOR)

    @property
    def name(self) -> str:
        """Return its name without those of the phases around it."""
        return self.phase.rpartition(_SEPARATOR)[2]


@dataclass
class Profile:
    """The phases of a run in the order in which they ended."""

    events: list[Event] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)
    _lanes: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

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

    @contextmanager
    def beside(self, name: str) -> Iterator[None]:
        """Time a phase that runs in another thread."""
        with self._lock:
            lane = next(lane for lane in count(1) if lane not in self._lanes)
            self._lanes.add(lane)
        start = self._now()
        try:
            yield
        finally:
            self.events.append(Event((f"beside: {name}",), start, self._now() - start, lane))
            with self._lock:
                self._lanes.discard(lane)

    def rows(self) -> list[Row]:
        """Return calls and seconds per phase, phases within others after them, in the order of their first start."""
        calls: dict[tuple[str, ...], int] = {}
        seconds: dict[tuple[str, ...], float] = {}
        first: dict[tuple[str, ...], float] = {}
        beside = {event.path for event in self.events if event.is_beside}
        for path, start, took, _ in self.events:
            calls[path] = calls.get(path, 0) + 1
            seconds[path] = seconds.get(path, 0.0) + took
            first[path] = min(first.get(path, start), start)
        within = dict.fromkeys(seconds, 0.0)
        for path, took in seconds.items():
            if path[:-1] in within:
                within[path[:-1]] += took
        outermost = (took for path, took in seconds.items() if len(path) == 1 and path not in beside)
        total = seconds.get(("fit",)) or sum(outermost) or 1.0
        order = sorted(seconds, key=lambda path: [first[path[: end + 1]] for end in range(len(path))])
        return [
            Row(
                _SEPARATOR.join(path),
                calls[path],
                seconds[path],
                seconds[path] - within[path],
                seconds[path] / total,
            )
            for path in order
        ]

    def trace(self) -> str:
        """Return the phases in the Trace Event Format, which browsers show (chrome://tracing, ui.perfetto.dev)."""
        events = [
            {"name": path[-1], "ph": "X", "ts": start * 1e6, "dur": took * 1e6, "pid": 0, "tid": lane}
            for path, start, took, lane in sorted(
                self.events, key=lambda event: (event.start, -event.seconds)
            )
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def __str__(self) -> str:
        """Return the table as text."""
        lines = [HEADER, *map(cells_of, self.rows())]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines
        )

    def save(self, folder: str | Path, title: str = "Profile of a fit") -> list[Path]:
        """Write ``profile.html``, a page with timeline and table, and ``profile.json``, the trace; return both."""
        content = {"html": page_of(title, self.events, self.rows()), "json": self.trace()}
        paths = [Path(folder) / f"profile.{suffix}" for suffix in content]
        for path, text in zip(paths, content.values(), strict=True):
            write_text(path, text)
        return paths

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


def phase_beside(name: str) -> AbstractContextManager[None]:
    """Return what times a job of another thread as a phase of the profile that is being measured here, if any."""
    profile = _ACTIVE.get()
    return nullcontext() if profile is None else profile.beside(name)
