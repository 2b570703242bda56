"""Questions wait in a queue; a thread takes all that wait as one batch and computes it.

Groups of targets take turns, so that a question for one node does not wait for one of a thousand. Groups that several
questions of a batch ask alike are computed once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from gdpnet._core.threads import use_loop_threads
from gdpnet.web.server.metrics import Metrics
from gdpnet.web.server.problems import ProblemError, too_many

_SHARED = 64
"""Groups of stored nodes whose answers a batch keeps for the questions behind."""

Rows = list[dict[str, Any]]
Compute = Callable[[int], Rows]
"""Return the answers for a group of targets, by its place."""


@dataclass
class Job:
    """A question: what computes its groups, what was answered, and who waits."""

    compute: Compute
    keys: list[Any]
    """One per group: equal for equal groups of equal questions, None for a group that is this request's alone."""
    until: float
    done: asyncio.Future[Rows]
    rows: Rows = field(default_factory=list)
    place: int = 0
    """The group that comes next."""

    @property
    def is_dropped(self) -> bool:
        """Return whether nobody waits any more."""
        return self.done.cancelled() or time.monotonic() > self.until


class Batcher:
    """Computes questions in one thread, in batches of what waits; further threads play episodes."""

    def __init__(self, metrics: Metrics, most: int, seconds: float, threads: int) -> None:
        self.metrics, self.most, self.seconds = metrics, most, seconds
        self.waiting: deque[Job] = deque()
        self.in_flight, self.wake = 0, asyncio.Event()
        self.pool = ThreadPoolExecutor(1, "compute", initializer=use_loop_threads, initargs=(threads,))
        self.worker: asyncio.Task[None] | None = None

    async def ask(self, compute: Compute, keys: list[Any], until: float | None = None) -> Rows:
        """Compute a question when its turn comes; refuse it if too many wait, or if it takes too long.

        The time that is left may be given, as reading a request is a part of it.
        """
        if self.in_flight >= self.most:
            raise too_many(self.most)
        loop = asyncio.get_running_loop()
        until = time.monotonic() + self.seconds if until is None else until
        job = Job(compute, keys, until, loop.create_future())
        self.in_flight += 1
        self.metrics.waiting.set(self.in_flight)
        self.waiting.append(job)
        self.wake.set()
        try:
            return await asyncio.wait_for(job.done, max(0.0, until - time.monotonic()))
        except TimeoutError as error:
            rule = f"a request may take {self.seconds:g} seconds (--seconds): ask for fewer targets, or try again"
            raise ProblemError(503, rule, headers={"Retry-After": "1"}) from error
        finally:
            self.in_flight -= 1
            self.metrics.waiting.set(self.in_flight)

    def start(self) -> None:
        """Begin to compute."""
        self.worker = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Finish what is being computed, then end."""
        if self.worker is not None:
            self.worker.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self.pool.shutdown)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self.waiting:
                batch = [job for job in self.waiting if not job.is_dropped]
                self.waiting.clear()
                if batch:
                    self.metrics.batches.observe(len(batch))
                    await loop.run_in_executor(self.pool, _compute_batch, batch, loop)


def _compute_batch(batch: list[Job], loop: asyncio.AbstractEventLoop) -> None:
    """Compute the groups of a batch in turns; a question that fails does not harm the others."""
    turns, shared = deque(batch), dict[Any, Rows]()
    while turns:
        job = turns.popleft()
        if job.is_dropped:
            continue
        try:
            _compute_next(job, shared)
        except Exception as error:
            loop.call_soon_threadsafe(_fail, job, error)
            continue
        if job.place == len(job.keys):
            loop.call_soon_threadsafe(_finish, job)
        else:
            turns.append(job)


def _compute_next(job: Job, shared: dict[Any, Rows]) -> None:
    key = job.keys[job.place]
    rows = shared.get(key) if key is not None else None
    if rows is None:
        rows = job.compute(job.place)
        if key is not None and len(shared) < _SHARED:
            shared[key] = rows
    job.rows += rows
    job.place += 1


def _finish(job: Job) -> None:
    if not job.done.done():
        job.done.set_result(job.rows)


def _fail(job: Job, error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)
