"""Clean, embed or predict by passes over blocks: all state is files, so that memory follows the block.

``work/plan.json`` says that a folder is filled in this way. Each pass is finished on every block before the next one
begins; ``work/done.jsonl`` has a line for every finished file and task. So any engine can continue a folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from gdpnet._core.files import (
    Place,
    address_of,
    append_line,
    clear_lines,
    locked_folder,
    read_objects,
    write_json,
)
from gdpnet._core.threads import in_order
from gdpnet.data.edge_features import without_edge_features
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint
from gdpnet.data.io.store import is_store, store_of, write_store
from gdpnet.data.schema import MadeRows
from gdpnet.errors import ConfigError, GDPNetError, RunFolderError
from gdpnet.inference.engines.engine import Done, Engine, Share, needs_of, versions_here
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.passes.job import Job, open_job
from gdpnet.inference.passes.tasks import Pass, passes_of, task_name
from gdpnet.inference.shards import (
    DONE,
    GRAPH,
    MODEL,
    PLAN,
    WORK,
    ShardFolder,
    Tally,
    begin_work,
    check_place,
    open_shards,
)
from gdpnet.inference.starting import Progress, check_model, ranges_of

_WAIT, _LONGEST_WAIT = 0.2, 600.0
"""Seconds between tries, and in all, to begin a folder that another process is just beginning."""


class Asked(NamedTuple):
    """What the user asked for."""

    kind: str
    settings: dict[str, Any]
    """What decides on the result, and is written to ``shards.json``."""
    weigh: bool = False
    """Whether kept edges of a weighted graph weigh their keep probability."""
    edges_per_shard: int | None = None
    force: bool = False
    some: range | Share | None = None
    """The blocks that this process works on; None for all."""


def run_by_blocks(
    model: TrainedModel,
    graph: Graph,
    folder: Place,
    asked: Asked,
    engine: Engine,
    progress: Progress | None,
    summary_of: Callable[[ShardFolder], dict[str, Any]],
) -> dict[str, Any]:
    """Run all passes and return the summary.

    With ``asked.some``, other processes work on other blocks. A pass that they have not finished ends this run; the
    key ``unfinished`` then has a sentence that says which one it is.
    """
    graph = model.matched(graph)
    check_model(model)
    ranges = ranges_of(graph, asked.edges_per_shard, model.device)
    read, made = _read_by(model, graph)
    store = None if made else store_of(read)
    check_place(folder, force=asked.force)
    engine.check(needs_of(store, folder))
    about = {"kind": asked.kind, "model": model.fingerprint(), "graph": fingerprint(graph)} | asked.settings
    with beginning(folder, wait=asked.some is not None):
        shards = open_shards(folder, about, ranges, force=asked.force)
        if (summary := shards.summary) is not None:
            return summary
        _write_plan(model, read, made, folder, asked)
        if asked.some is None:
            _run(shards, engine, None, progress)
            return shards.finish(summary_of(shards))
    unfinished = _run(shards, engine, asked.some, progress)
    return {"unfinished": unfinished} if unfinished else _finish(shards, summary_of)


def make_tables(model: TrainedModel, graph: Graph, folder: Place, progress: Progress | None = None) -> Job:
    """Run the passes that decide on all edges, or continue them, and keep what they write; return the opened run."""
    graph = model.matched(graph)
    check_model(model)
    (read, made), ranges = _read_by(model, graph), ranges_of(graph, None, model.device)
    about = {"kind": "tables", "model": model.fingerprint(), "graph": fingerprint(graph)}
    with beginning(folder, wait=True):
        shards = open_shards(folder, about, ranges)
        _write_plan(model, read, made, folder, Asked("tables", {}))
        _run(shards, OneProcess(model.device), None, progress)
    return open_job(folder, model.device)


def _read_by(model: TrainedModel, graph: Graph) -> tuple[Graph, dict[str, MadeRows]]:
    """Return the arrays of a graph that a model reads, and those that it reads in place of the graph's own."""
    read = graph if model.edge_columns is not None else without_edge_features(graph)
    return read, model.made_rows(graph)


@contextmanager
def beginning(folder: Place, *, wait: bool) -> Iterator[None]:
    """Hold a folder; if asked to, wait while another process holds it."""
    until = time.monotonic() + (_LONGEST_WAIT if wait else 0.0)
    while True:
        held = locked_folder(folder)
        try:
            held.__enter__()
        except RunFolderError:
            if time.monotonic() >= until:
                raise
            time.sleep(_WAIT)
            continue
        break
    try:
        yield
    finally:
        held.__exit__(None, None, None)


def _write_plan(
    model: TrainedModel, read: Graph, made: dict[str, MadeRows], folder: Place, asked: Asked
) -> None:
    """Write what every process needs: the model, the graph as the model reads it, and where it is.

    What the model reads in place of the graph's own arrays is made in pieces while it is written.
    """
    work, store = folder / WORK, None if made else store_of(read)
    if (work / PLAN).is_file():
        return
    begin_work(work)
    if store is None and not is_store(work / GRAPH):
        write_store(read, work / GRAPH, made)
    model.save(work / MODEL)
    spurious = None if read.truth is None else read.truth.spurious
    optional = {"edge_weight": read.edge_weight, "edge_features": read.edge_features, "spurious": spurious}
    used = [name for name, found in optional.items() if found is not None]
    plan = {"store": None if store is None else address_of(store), "used": used, "weigh": asked.weigh}
    write_json(work / PLAN, plan | {"versions": versions_here()})


def is_by_blocks(folder: Place) -> bool:
    """Return whether a folder was begun by passes over blocks."""
    return (folder / WORK / PLAN).is_file()


def _run(shards: ShardFolder, engine: Engine, some: range | Share | None, progress: Progress | None) -> str:
    """Run the passes that are not finished; return what has to be finished elsewhere first, if anything."""
    with shards.saying_what_stays():
        job = open_job(shards.path, torch.device("cpu"))
    passes, blocks = passes_of(job), len(shards.blocks)
    own, finished = _range_of(some, blocks), finished_tasks(shards)
    mine = [[number for number in range(one.count(blocks)) if number in own] for one in passes]
    missing = [
        [number for number in numbers if task_name(one.name, number) not in finished]
        for one, numbers in zip(passes, mine, strict=True)
    ]
    total, left = _cost(passes, mine), _cost(passes, missing)
    for place, one in enumerate(passes):
        with shards.saying_what_stays():
            if progress is not None:
                progress(f"task {one.name}", total - left, total)
            for done in engine.run(shards.path, one.name, missing[place]):
                note(shards, one, done)
                left -= one.cost
                if progress is not None:
                    progress(f"task {one.name}", total - left, total)
        if some is not None and (unfinished := _unfinished(shards, passes, place)):
            return unfinished
    return ""


def _range_of(some: range | Share | None, blocks: int) -> range:
    """Return the numbers of the blocks that this process works on."""
    if some is None:
        return range(blocks)
    if isinstance(some, Share):
        return some.among(blocks)
    if not 0 <= some.start < some.stop <= blocks:
        raise ConfigError(f"--blocks must lie within 0:{blocks}, found {some.start}:{some.stop}")
    return some


def _cost(passes: list[Pass], numbers: list[list[int]]) -> int:
    return sum(one.cost * len(some) for one, some in zip(passes, numbers, strict=True))


def _unfinished(shards: ShardFolder, passes: list[Pass], place: int) -> str:
    """Return what has to be finished by other processes before the next pass, if anything."""
    one, finished = passes[place], finished_tasks(shards)
    wanted = one.count(len(shards.blocks))
    there = sum(task_name(one.name, number) in finished for number in range(wanted))
    if there == wanted:
        return ""
    return (
        f"pass '{one.name}' ({place + 1} of {len(passes)}) is finished on {there} of {wanted} blocks: run the other "
        "blocks, then all of them again for the next pass"
    )


def note(shards: ShardFolder, one: Pass, done: Done) -> None:
    """Note that a task is finished."""
    lines = [{"file": name, **seal._asdict()} for name, seal in done.files.items()]
    task = {"task": task_name(one.name, done.number), "files": list(done.files)}
    text = "\n".join(json.dumps(line) for line in [*lines, task])
    append_line(shards.path / WORK / DONE, text, durable=False)
    shards.seals.update(done.files)
    shards.verified.update(done.files)


def finished_tasks(shards: ShardFolder) -> set[str]:
    """Return the tasks that are finished and whose files are as they were written."""
    try:
        lines = [line for _, line in read_objects(shards.path / WORK / DONE)]
    except GDPNetError:  # damaged: what it says cannot be trusted, so that all of it is made again
        clear_lines(shards.path / WORK / DONE)
        return set()
    shards.add_seals(lines)
    tasks = {line["task"]: line["files"] for line in lines if "task" in line}

    def is_whole(task: str) -> bool:
        return all(shards.is_whole(shards.place(name)) for name in tasks[task])

    return {task for task, whole in zip(tasks, in_order(is_whole, tasks), strict=True) if whole}


def tally_of(shards: ShardFolder) -> Tally:
    """Return what was counted on all blocks."""
    job: Job = open_job(shards.path, torch.device("cpu"))
    tally = Tally()
    for number in range(len(shards.blocks)):
        tally.add_packed(job.files.block("tally", number).numpy())
    return tally


def _finish(shards: ShardFolder, summary_of: Callable[[ShardFolder], dict[str, Any]]) -> dict[str, Any]:
    """Finish a folder whose passes are complete; another process may have done so meanwhile."""
    with beginning(shards.path, wait=True):
        found = shards.summary
        if found is None:
            shards.add_seals([line for _, line in read_objects(shards.path / WORK / DONE)])
            found = shards.finish(summary_of(shards))
    return found
