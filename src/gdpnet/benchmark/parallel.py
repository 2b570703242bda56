"""Run pieces of work in turn, or several at a time in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

import torch

from gdpnet.benchmark.records import Record, append_record
from gdpnet.errors import GDPNetError

Piece = TypeVar("Piece")
Records = list[Record]

_WATCH_SECONDS = 1.0


def do_all(
    work: Callable[[Piece], Records],
    pieces: list[Piece],
    path: Path,
    jobs: int,
    on_records: Callable[[Records], None],
) -> None:
    """Run the pieces, ``jobs`` at a time, and append their records to a file as they come."""
    for records in map(work, pieces) if jobs <= 1 else _side_by_side(work, pieces, jobs):
        for record in records:
            append_record(path, record)
        on_records(records)


def _side_by_side(work: Callable[[Piece], Records], pieces: list[Piece], jobs: int) -> Iterator[Records]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
    try:
        waiting: set[Future[Records]] = {pool.submit(work, piece) for piece in pieces}
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for one in ended:
                yield one.result()
    except BrokenProcessPool as error:
        raise GDPNetError("a worker ended unexpectedly, perhaps out of memory; try fewer --jobs") from error
    finally:  # also after Ctrl-C or an error: cancel what waits and end what runs
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


def _begin(parent: int) -> None:
    """Limit a worker to one thread, and end it when its parent process ends for any reason."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
