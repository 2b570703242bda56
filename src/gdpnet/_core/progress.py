"""How far a piece of work is, and when it must end.

Loops say how far they are with `advance` and ask `is_time_up`. Both cost about a microsecond and never wait for a
GPU. Whoever runs the work listens with `watch` and limits it with `limit`; `part` divides both among pieces of work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Listener = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass
class Limit:
    """When some work must end, and whether it was told so."""

    moment: float = math.inf
    outer: Limit | None = None
    was_reached: bool = False
    """Whether `is_time_up` was true for a part of the work, which therefore ended early."""


_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
_LIMIT: ContextVar[Limit | None] = ContextVar("limit", default=None)


@contextmanager
def watch(listener: Listener | None) -> Iterator[None]:
    """Tell a function how far the work within the block is; None tells nobody."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def watcher() -> Listener:
    """Return the function that is told now; one that does nothing if there is none."""
    return _LISTENER.get() or _tell_nobody


def advance(done: float, total: float) -> None:
    """Say that some of the steps of the work are done."""
    listener = _LISTENER.get()
    if listener is not None and total > 0:
        listener(min(1.0, done / total))


@contextmanager
def limit(seconds: float) -> Iterator[Limit]:
    """Let the work within the block end after some seconds, or earlier if a limit around it says so."""
    outer, moment = _LIMIT.get(), time.perf_counter() + seconds
    with limit_by(Limit(moment if outer is None else min(moment, outer.moment), outer)) as own:
        yield own


@contextmanager
def limit_by(own: Limit) -> Iterator[Limit]:
    """Let the work within the block end when a limit says so, which may be changed meanwhile."""
    token = _LIMIT.set(own)
    try:
        yield own
    finally:
        _LIMIT.reset(token)


def seconds_left() -> float:
    """Return the seconds until the work must end, below zero if it should have; infinity without a limit."""
    innermost = _LIMIT.get()
    return math.inf if innermost is None else innermost.moment - time.perf_counter()


def is_time_up() -> bool:
    """Return whether the work must end; who asks ends then, which all limits around it remember."""
    if seconds_left() > 0:
        return False
    one = _LIMIT.get()
    while one is not None:
        one.was_reached, one = True, one.outer
    return True


class AbandonedError(Exception):
    """Nobody waits for some work any more."""


def abandon(work: Limit) -> None:
    """Let work end early that nobody waits for any more."""
    work.moment = -math.inf


def stop_if_abandoned() -> None:
    """End work that nobody waits for any more, and no other, with an error that nobody sees."""
    innermost = _LIMIT.get()
    if innermost is not None and innermost.moment == -math.inf:
        raise AbandonedError


@contextmanager
def part(number: int, parts: int) -> Iterator[None]:
    """Run one of some parts, numbered from 0: it advances the whole by its share, and shares the time left."""
    listener = _LISTENER.get()

    def tell(done: float) -> None:
        assert listener is not None
        listener((number + done) / parts)

    with watch(tell if listener is not None else None), limit(max(0.0, seconds_left()) / (parts - number)):
        yield
    advance(number + 1, parts)


def _tell_nobody(done: float) -> None:
    """Ignore how far the work is."""
