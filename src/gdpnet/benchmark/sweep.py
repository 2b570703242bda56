"""Sweeps: plan the trials that a file of records lacks, run them side by side, and summarise their records."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from gdpnet._core.files import check_lines, plain
from gdpnet._core.progress import part
from gdpnet.benchmark.baselines.registry import load_plugins
from gdpnet.benchmark.record_types import as_records_must_be
from gdpnet.benchmark.records import Record, append_record, make_record, read_records
from gdpnet.errors import GDPNetError, WorkError


@runtime_checkable
class Trial(Protocol):
    """The work of one process."""

    @property
    def stub(self) -> Record:
        """Return the record of the trial without its metrics: what identifies it, its seed and its settings."""

    def run(self) -> list[Record]:
        """Return the records of the trial; an expected failure is a record with an ``error``."""


AnyTrial = TypeVar("AnyTrial", bound=Trial)
AnyRow = TypeVar("AnyRow")

_ALWAYS = ("graph", "method", "seed", "metrics", "config", "commit")
_WATCH_SECONDS = 1.0

FAILURES = (GDPNetError, RuntimeError, ValueError)
"""Errors that a graph or a device may cause; all others are mistakes of the program and end the sweep."""


@dataclass(frozen=True)
class Sweep:
    """The records of one experiment."""

    kind: str
    """The kind of its records."""
    group: tuple[str, ...]
    """Keys that identify a trial, apart from its seed and settings."""
    share_settings: tuple[str, ...] = ()
    """Keys that identify the trials that must have the same settings: those of the newest record count."""
    settings: Callable[[Record], Any] = lambda record: record["config"]
    """The part of a record that tells two trials of a group and seed apart."""

    def of(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of this experiment; raise an error if one lacks a key that its kind requires."""
        found = [record for record in records if record.get("kind") == self.kind]
        for record in found:
            for key in (*_ALWAYS, *self.group):
                if key not in record:
                    raise GDPNetError(f"a record of kind '{self.kind}' lacks its '{key}'")
        return found

    def current(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of this experiment on the content that each graph had last."""
        mine = self.of(records)
        content = {one["graph"]: one.get("content") for one in mine}
        return [one for one in mine if one.get("content") == content[one["graph"]]]

    def key(self, record: Record) -> str:
        """Return what identifies the trial of a record or of a stub, the content of its graph included."""
        place = [record.get("content"), *(record[name] for name in (*self.group, "seed"))]
        return repr([place, self.settings(record)])

    @as_records_must_be()
    def ended(self, path: Path) -> dict[str, Record]:
        """Return the records of a file that did not fail, by key; the newest of each."""
        return {self.key(record): record for record in self.of(read_records(path)) if has_ended(record)}

    def missing(self, trials: Iterable[AnyTrial], path: Path) -> list[AnyTrial]:
        """Return the trials that a file of records does not hold yet; failed ones are tried again."""
        done = self.ended(path)
        return [trial for trial in trials if self.key(trial.stub) not in done]

    @as_records_must_be()
    def newest(self, records: Iterable[Record]) -> list[Record]:
        """Return the newest record per group and seed; one that ended comes before one that failed."""
        mine = self.current(records)
        settings = {_values(one, self.share_settings): self.settings(one) for one in mine}
        newest: dict[tuple[Any, ...], Record] = {}
        for one in mine:
            place = _values(one, (*self.group, "seed"))
            current = settings[_values(one, self.share_settings)] == self.settings(one)
            if current and (has_ended(one) or place not in newest or not has_ended(newest[place])):
                newest[place] = one
        return list(newest.values())

    @as_records_must_be()
    def latest(self, records: Iterable[Record]) -> dict[tuple[str, str], Record]:
        """Return the newest record per graph and method that did not fail, whatever its settings."""
        return {(one["graph"], one["method"]): one for one in self.current(records) if has_ended(one)}

    def summarise(
        self, records: Iterable[Record], measures: Iterable[str], row: Callable[..., AnyRow]
    ) -> list[AnyRow]:
        """Return one row per group: how many seeds ended and failed, and mean and deviation of each measure."""
        groups: dict[tuple[Any, ...], list[Record]] = {}
        with as_records_must_be():
            for record in self.newest(records):
                groups.setdefault(_values(record, self.group), []).append(record["metrics"])
            return [
                row(**dict(zip(self.group, group, strict=True)), **_summary(metrics, measures))
                for group, metrics in groups.items()
            ]


def run_all(
    trials: list[AnyTrial], path: Path, jobs: int, on_records: Callable[[list[Record]], None]
) -> None:
    """Run trials, ``jobs`` at a time, and append their records to a file as they come."""
    check_lines(path)
    for records in _one_by_one(trials) if jobs <= 1 else _side_by_side(trials, jobs):
        for record in records:
            append_record(path, record)
        on_records(records)


def _one_by_one(trials: Sequence[Trial]) -> Iterator[list[Record]]:
    for number, trial in enumerate(trials):
        with part(number, len(trials)):
            records = trial.run()
        yield records


def _side_by_side(trials: Iterable[Trial], jobs: int) -> Iterator[list[Record]]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
    try:
        running = {pool.submit(_run_and_release, trial): trial for trial in trials}
        again = []
        for ended in as_completed(running):
            if any(map(_lacked_memory, ended.result())):
                again.append(running[ended])
            else:
                yield ended.result()
        for trial in again:  # what several at a time leave too little memory for, one at a time
            yield pool.submit(_run_and_release, trial).result()
    except BrokenProcessPool as error:
        raise WorkError("a worker ended unexpectedly, perhaps out of memory; try fewer --jobs") from error
    finally:  # also after Ctrl-C or an error: cancel what waits and end what runs
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


def _run_and_release(trial: Trial) -> list[Record]:
    """Run a trial, and leave the memory of the GPU to others."""
    records = trial.run()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return records


def _lacked_memory(record: Record) -> bool:
    return "out of memory" in str(record.get("metrics", {}).get("error", ""))


def _begin(parent: int) -> None:
    """Limit a worker to one thread, and end it when its parent process ends for any reason."""
    torch.set_num_threads(1)
    load_plugins()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def record_of(stub: Record, device: str, measure: Callable[[], Record]) -> Record:
    """Return the record of a stub with what ``measure`` returns, or with the reason why it failed.

    A ``config`` among the metrics replaces that of the stub: it also names what a method chose while it ran.
    """
    try:
        metrics = measure()
    except FAILURES as error:
        return failure_of(stub, device, error)
    return make_record(stub | {"config": metrics.pop("config", stub["config"])}, device, plain(metrics))


def failure_of(stub: Record, device: str, error: Exception) -> Record:
    """Return the record of a trial that failed."""
    return make_record(stub, device, {"error": " ".join(str(error).split())})


def has_ended(record: Record) -> bool:
    """Return whether a trial did not fail."""
    return "error" not in record["metrics"]


def _values(record: Record, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(record[name] for name in names)


def _summary(metrics: list[Record], measures: Iterable[str]) -> dict[str, Any]:
    ended = [one for one in metrics if "error" not in one]
    known = {name: np.array([one[name] for one in ended if one.get(name) is not None]) for name in measures}
    return {
        "seeds": len(ended),
        "failed": len(metrics) - len(ended),
        "mean": {name: float(found.mean()) if found.size else math.nan for name, found in known.items()},
        "deviation": {
            name: float(found.std(ddof=1)) if found.size > 1 else 0.0 for name, found in known.items()
        },
    }
