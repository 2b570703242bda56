"""Work that is done by other threads while the caller goes on: few jobs at a time, and none is lost silently."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_THREADS = 8
"""Threads that work beside the caller; more would wait for the disk."""


def threads_here() -> int:
    """Return how many threads may work beside the caller on this machine."""
    return min(MOST_THREADS, os.cpu_count() or 1)


class Background:
    """Jobs that threads do in turn; with no thread the caller does each at once.

    At most twice as many jobs as threads wait, so that what they hold is bounded. An error of a job is raised by the
    next one that is handed over, or on leaving; jobs that are under way are finished first, others are dropped.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads) if threads else None
        self.under_way: deque[Future[None]] = deque()

    def do(self, job: Callable[[], None]) -> None:
        """Hand over a job; wait while too many are waiting."""
        if self.pool is None:
            job()
            return
        while len(self.under_way) >= 2 * self.threads or (self.under_way and self.under_way[0].done()):
            self.under_way.popleft().result()
        self.under_way.append(self.pool.submit(job))

    def __enter__(self) -> Background:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is None:
            return
        try:
            while self.under_way and error is None:
                self.under_way.popleft().result()
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)


def in_order(job: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Do a job for each item in some threads, and yield the results in order; a few items are worked on ahead."""
    threads = threads_here()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            if len(waiting) > threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(job, item))
        while waiting:
            yield waiting.popleft().result()
