"""Run jobs beside the caller, each in a thread of its own.

Steps of a fit that do not need each other share the cores better than the threads of torch within one step: most
products are so small that threads wait for each other longer than they compute. What a job finds depends neither on
when it runs nor in which thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from types import TracebackType
from typing import Any, TypeVar

import torch

from gdpnet._core.profiling import phase_beside
from gdpnet._core.progress import AbandonedError, Limit, abandon, limit_by
from gdpnet._core.threads import keep_loop_threads, one_thread

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class Beside:
    """Starts jobs, if it is ``enabled`` and torch has given threads up for them; else each runs when asked for.

    With larger products the threads of torch are of use, and tables of several jobs would take too much memory.
    Leaving the block waits for all jobs and gives torch its threads back. Jobs that nobody asked for may end early.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._jobs: list[tuple[Future[Any], Limit]] = []
        self._settings = ExitStack()

    def give_torch_one_thread(self) -> None:
        """Let torch, OpenMP and BLAS compute with one thread from now on, in the caller and in jobs."""
        self._settings.enter_context(one_thread())

    def start(self, name: str, job: Callable[[], T]) -> Callable[[], T]:
        """Begin a job, if torch has one thread; return the function that waits for its result, or runs the job."""
        if not self.enabled or torch.get_num_threads() > 1:
            return cache(job)
        self._jobs = [one for one in self._jobs if not one[0].done()]
        timed, own = phase_beside(name), Limit()
        with ExitStack() as ending:
            pool = ThreadPoolExecutor(1)
            ending.callback(pool.shutdown, wait=False)  # the thread ends with the job
            found = pool.submit(_run, job, timed, own)
        self._jobs.append((found, own))
        return found.result

    def __enter__(self) -> Beside:
        self.enabled = self.enabled and torch.get_num_threads() > 1
        self._settings.enter_context(keep_loop_threads())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._settings:
            for _, own in self._jobs:  # those that were asked for have ended
                abandon(own)
            wait([found for found, _ in self._jobs])


def _run(job: Callable[[], T], timed: AbstractContextManager[None], own: Limit) -> T:
    """Run a job with one thread of torch, OpenMP and BLAS, until it ends or its limit says so."""
    with one_thread(), limit_by(own), timed:
        try:
            return job()
        except AbandonedError:
            raise
        except Exception:
            _LOG.debug("a job failed that may never be asked for", exc_info=True)
            raise
