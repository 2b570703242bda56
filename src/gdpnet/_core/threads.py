"""Run jobs in other threads, a bounded number at a time, without losing their errors."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from itertools import pairwise
from threading import Lock, Thread
from types import TracebackType
from typing import TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

RANGES_PER_THREAD = 4
"""Ranges per thread of a `Team`, so that all threads end together."""

MOST_THREADS = 8
"""Most threads beside the caller; more would wait for the disk."""


def threads_here() -> int:
    """Return how many threads to use beside the caller on this machine."""
    return min(MOST_THREADS, os.cpu_count() or 1)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads in the calling thread, that one among them.

    Other threads keep theirs, but for one that first computes in the moment in which the number is set.
    """
    import torch

    before = torch.get_num_threads()
    if before == count:
        yield
        return
    _set_torch_threads(count)
    try:
        yield
    finally:
        _set_torch_threads(before)


_SETTING = Lock()


def _set_torch_threads(count: int) -> None:
    """Set the number for the calling thread.

    Torch also gives it to every thread that computes for the first time later, which is undone: the number that
    such a thread gets is read and written by threads that end at once.
    """
    import torch

    usual: list[int] = []
    with _SETTING:
        _run_alone(lambda: usual.append(torch.get_num_threads()))
        torch.set_num_threads(count)
        _run_alone(lambda: torch.set_num_threads(usual[0]))


def _run_alone(job: Callable[[], object]) -> None:
    thread = Thread(target=job)
    thread.start()
    thread.join()


def one_torch_thread() -> AbstractContextManager[None]:
    """Let torch compute in the calling thread alone, so that sums do not depend on the number of cores."""
    return torch_threads(1)


class _OneBLASThread:
    """Lets BLAS compute with one thread, in the whole process, as long as anybody wants it to.

    Only the thread that set a limit may end it, so a thread of its own does both. It can do nothing in a block of
    threadpoolctl, which belongs to the thread that entered it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before = ExitStack()
        self._keeper = ThreadPoolExecutor(1)

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._keeper = ThreadPoolExecutor(1)
                self._keeper.submit(lambda: self._before.enter_context(_one_thread_of("blas"))).result()
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._keeper.submit(self._before.close).result()
                self._keeper.shutdown()


_ONE_BLAS_THREAD = _OneBLASThread()


def _one_thread_of(libraries: str) -> AbstractContextManager[object]:
    """Let ``openmp`` or ``blas`` compute with one thread; on leaving no other library gets its threads back."""
    from threadpoolctl import ThreadpoolController

    return cast(
        "AbstractContextManager[object]", ThreadpoolController().select(user_api=libraries).limit(limits=1)
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and OpenMP compute with one thread in the calling thread, and BLAS in the whole process."""
    # the second one of BLAS is for callers in a block of threadpoolctl
    with one_torch_thread(), _one_thread_of("openmp"), _ONE_BLAS_THREAD, _one_thread_of("blas"):
        yield


_LOOPS: ContextVar[int | None] = ContextVar("loops", default=None)


def use_loop_threads(count: int) -> None:
    """Let the compiled loops of the calling thread use this many threads, however many torch uses.

    What they compute does not depend on it.
    """
    _LOOPS.set(count)


@contextmanager
def keep_loop_threads() -> Iterator[None]:
    """Let compiled loops use as many threads as now within the block, even if torch gets fewer there."""
    token = _LOOPS.set(loop_threads())
    try:
        yield
    finally:
        _LOOPS.reset(token)


def loop_threads() -> int:
    """Return how many threads compiled loops use: as many as torch, unless told otherwise."""
    import torch

    return _LOOPS.get() or torch.get_num_threads()


class Background:
    """Run jobs in threads; with zero threads the caller runs each job immediately.

    At most twice as many jobs as threads wait, which bounds their memory. An error of a job is raised when the next
    job is submitted or on leaving; then running jobs are finished and waiting ones are dropped.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads) if threads else None
        self.pending: deque[Future[None]] = deque()

    def do(self, job: Callable[[], None]) -> None:
        """Submit a job; block while too many jobs are waiting."""
        if self.pool is None:
            job()
            return
        while len(self.pending) >= 2 * self.threads or (self.pending and self.pending[0].done()):
            self.pending.popleft().result()
        self.pending.append(self.pool.submit(job))

    def __enter__(self) -> Background:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is None:
            return
        try:
            while self.pending and error is None:
                self.pending.popleft().result()
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)


class Team:
    """Threads that share the ranges of a job with the caller; they end on leaving.

    So none of them is alive when the process forks later. The job should release the interpreter lock.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def run(self, job: Callable[[int, int], object], first: int, last: int) -> None:
        """Run a job on all parts of a range, each given by its first number and the one after its last."""
        if self.pool is None:
            job(first, last)
            return
        parts = max(min(RANGES_PER_THREAD * self.threads, last - first), 1)
        ranges = iter(list(pairwise(first + (last - first) * part // parts for part in range(parts + 1))))

        def work() -> None:
            for begin, end in ranges:
                job(begin, end)

        others = [self.pool.submit(work) for _ in range(min(self.threads, parts) - 1)]
        work()
        for other in others:
            other.result()

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True)


def in_order(job: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Run a job for each item in threads, a few items ahead, and yield the results in order."""
    threads = threads_here()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            if len(waiting) > threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(job, item))
        while waiting:
            yield waiting.popleft().result()
