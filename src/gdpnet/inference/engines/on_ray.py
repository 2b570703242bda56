"""The engine on Ray: tasks run on the workers of a cluster, this machine alone or many that share files.

Ray carries block numbers and checksums, never tables. Whatever dies, the files stay.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import torch

from gdpnet._core.files import Place, address_of, place_of
from gdpnet.errors import ConfigError, WorkError, reason_of
from gdpnet.inference.engines.engine import Done, Needs, as_error, problem_here, refuse
from gdpnet.inference.passes.job import Job, open_job
from gdpnet.inference.passes.tasks import bytes_of_task, run_task
from gdpnet.inference.shards import Seal

RETRIES = 5
"""How often a task is run again whose worker or machine was lost."""

_TASKS_PER_WORKER = 2
"""Tasks that are handed to Ray at a time, per worker."""

_FREE_WORKERS, _WORKERS_PER_CORE = 16, 4
"""Workers of one machine: Ray starts a process for each at once, and a very large number would take the machine."""

_JOBS: dict[tuple[str, str], Job] = {}
"""The run that this worker takes part in."""


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "workers need Ray, which is not installed: install gdpnet[ray], or leave --workers and --ray out"
        ) from error
    return ray


def _work(
    folder: str, token: str, device: str, name: str, number: int
) -> tuple[dict[str, tuple[int, str]], float]:
    """Run a task in a worker, which keeps the run open for the next one; return its files and seconds of the CPU."""
    start = time.process_time()
    if (folder, token) not in _JOBS:
        _JOBS.clear()
        _JOBS[folder, token] = open_job(place_of(folder), torch.device(device))
    files = run_task(_JOBS[folder, token], name, number)
    return {file: (seal.bytes, seal.sha256) for file, seal in files.items()}, time.process_time() - start


class OnRay:
    """Run the tasks of a pass on a Ray cluster.

    Args:
        address: the address of a cluster, or ``auto`` for that which this machine belongs to; None starts Ray here.
        workers: how many tasks run at a time; by default as many as the cluster has cores, or GPUs.
        device: ``cpu``, or ``cuda`` for one GPU per task.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, device: str | torch.device = "cpu"
    ) -> None:
        if workers is not None and workers < 1:
            raise ConfigError(f"there must be at least one worker, found {workers}")
        most = max(_FREE_WORKERS, _WORKERS_PER_CORE * (os.cpu_count() or 1))
        if address is None and workers is not None and workers > most:
            raise ConfigError(f"this machine can have at most {most} workers, found {workers}")
        self.address, self.workers, self.device = address, workers, torch.device(device).type
        self.token, self._began = secrets.token_hex(8), False

    def __enter__(self) -> OnRay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._began:
            _import_ray().shutdown()
            self._began = False

    def check(self, needs: Needs) -> None:
        """Connect, and refuse to begin where a machine of the cluster cannot take part."""
        self._connect()
        ray = _import_ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.token = secrets.token_hex(8)  # files of an earlier run may have been replaced
        nodes = [node for node in ray.nodes() if node["Alive"]]
        check = ray.remote(num_cpus=0, max_retries=1)(problem_here)
        found = [
            check.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(needs)
            for node in nodes
        ]
        for node, one in zip(nodes, found, strict=True):
            refuse(
                f"machine {node['NodeManagerAddress']}", self._result(ray, one, "the check of the cluster")
            )

    def _connect(self) -> None:
        ray = _import_ray()
        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self.address is None:
            here = {"num_cpus": self.workers} if self.device == "cpu" else {"num_gpus": self.workers}
            quiet |= here | {"include_dashboard": False, "address": "local"}
        else:
            quiet |= {"address": self.address}
        try:
            ray.init(**quiet)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            raise WorkError(
                f"cannot connect to Ray at {self.address or 'this machine'}: {reason_of(error)}"
            ) from error
        self._began = True

    def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        """Run a pass on some blocks; a bounded number of tasks is with Ray at a time."""
        ray = _import_ray()
        self._connect()
        resources = self._resources(ray, folder)
        work = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD", **resources)(_work)
        waiting = iter(numbers)
        running: dict[Any, int] = {}
        try:
            while True:
                while len(running) < self._window(ray) and (number := next(waiting, None)) is not None:
                    given = (address_of(folder), self.token, self.device, name, number)
                    running[work.remote(*given)] = number
                if not running:
                    return
                for one in ray.wait(list(running), num_returns=1)[0]:
                    number = running.pop(one)
                    files, seconds = self._result(ray, one, f"pass '{name}' on block {number}")
                    yield Done(number, {file: Seal(*seal) for file, seal in files.items()}, seconds)
        finally:
            for one in running if ray.is_initialized() else ():
                ray.cancel(one, force=False)

    def _resources(self, ray: Any, folder: Place) -> dict[str, int]:
        """Return what a task takes of a machine, by which Ray decides how many run there at a time.

        A machine with less memory than a task needs runs one task at a time.
        """
        found = {"num_cpus": 1} | ({} if self.device == "cpu" else {"num_gpus": 1})
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        there = [int(one["memory"]) for one in machines if one.get("CPU", 0) >= 1 and "memory" in one]
        if there:
            needed = bytes_of_task(open_job(folder, torch.device("cpu")))
            found["memory"] = min(needed, *there)
        return found

    def _window(self, ray: Any) -> int:
        """Return how many tasks may be with Ray; machines may come and go."""
        if self.workers is not None and self.address is not None:
            return self.workers
        name = "CPU" if self.device == "cpu" else "GPU"
        return _TASKS_PER_WORKER * max(1, int(ray.cluster_resources().get(name, 1)))

    @staticmethod
    def _result(ray: Any, task: Any, what: str) -> Any:
        """Return what a task returned; the error of a user as it is, and everything else as one sentence."""
        try:
            return ray.get(task)
        except ray.exceptions.RayError as error:
            known = as_error(error)
            if known is not None:
                raise type(known)(str(known)) from error
            said = reason_of(error).splitlines()[0][:120]
            raise WorkError(
                f"{what} failed in a worker, after {RETRIES} retries if one was lost: {said}"
            ) from error
