"""The engine of one process: tasks in order, without any further dependency."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from gdpnet._core.files import Place
from gdpnet.inference.engines.engine import Done, Needs, problem_here, refuse
from gdpnet.inference.passes.job import Job, open_job
from gdpnet.inference.passes.tasks import run_task


class OneProcess:
    """Run the tasks of a pass one after the other, on a device."""

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        self._job: Job | None = None

    def check(self, needs: Needs) -> None:
        """Refuse to begin where a task would fail."""
        self._job = None
        refuse("this process", problem_here(needs))

    def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        """Run a pass on some blocks."""
        if self._job is None or self._job.folder != folder:
            self._job = open_job(folder, self.device)
        for number in numbers:
            start = time.process_time()
            files = run_task(self._job, name, number)
            yield Done(number, files, time.process_time() - start)
