"""Run jobs beside the caller, each in a thread of its own.

Steps of a fit that do not need each other share the cores better than the threads of torch within one step: most
products are so small that threads wait for each other longer than they compute. What a job finds depends neither on
when it runs nor in which thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits

from gdpnet._core.profiling import phase_beside
from gdpnet._core.progress import Limit, limit_by
from gdpnet._core.threads import keep_loop_threads, one_torch_thread

T = TypeVar("T")


class Beside:
    """Starts jobs, if it is ``enabled`` and torch has given threads up for them; else each runs when asked for.

    With larger products the threads of torch are of use, and tables of several jobs would take too much memory.
    Leaving the block waits for all jobs, which are ended early after an error, and gives torch its threads back.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled and torch.get_num_threads() > 1
        self._jobs: list[tuple[Future[Any], Limit]] = []
        self._settings = ExitStack()
        self._settings.enter_context(keep_loop_threads())

    def give_torch_one_thread(self) -> None:
        """Let torch compute with one thread from now on, in the caller and in jobs."""
        self._settings.enter_context(one_torch_thread())

    def start(self, name: str, job: Callable[[], T]) -> Callable[[], T]:
        """Begin a job, if torch has one thread; return the function that waits for its result, or runs the job."""
        if not self.enabled or torch.get_num_threads() > 1:
            return job
        self._jobs = [one for one in self._jobs if not one[0].done()]
        timed, own = phase_beside(name), Limit()
        with ExitStack() as ending:
            pool = ThreadPoolExecutor(1)
            ending.callback(pool.shutdown, wait=False)  # the thread ends with the job
            found = pool.submit(_run, job, timed, own)
        self._jobs.append((found, own))
        return found.result

    def __enter__(self) -> Beside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._settings:
            if error is not None:
                for _, own in self._jobs:
                    own.moment = -math.inf
            wait([found for found, _ in self._jobs])


def _run(job: Callable[[], T], timed: AbstractContextManager[None], own: Limit) -> T:
    """Run a job with one thread of torch and of OpenMP, until it ends or its limit says so."""
    with one_torch_thread(), threadpool_limits(1, user_api="openmp"), limit_by(own), timed:
        return job()
