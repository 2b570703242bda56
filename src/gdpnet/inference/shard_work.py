"""The folder ``work`` of shards that are not finished: what GDPNet writes there, and its removal.

Only files that GDPNet names are deleted, and only beside the list of finished files or the plan of a run, which are
written before all others and deleted after them: a folder of that name without either is the user's.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gdpnet._core.files import Place, start_lines
from gdpnet._core.files.objects import ObjectPath
from gdpnet._core.json_file import read_json
from gdpnet._core.threads import in_order
from gdpnet.errors import RunFolderError

WORK, DONE = "work", "done.jsonl"

PLAN, MODEL, GRAPH = "plan.json", "model.safetensors", "graph"
"""Of passes over blocks: the description of the run, its model, and its graph if that is in no store."""

_PLANNED = {"store", "used", "weigh"}
"""What a plan holds."""

_TABLE = re.compile(r"[\w.-]+-\d{5,}\.npy", re.ASCII)
_ARRAY = re.compile(r"\w+\.npy|graph\.json", re.ASCII)
_TEMPORARY = re.compile(r"\..*\.gdpnet-[0-9a-f]{6}-\d+-[0-9a-f]{8}\.tmp", re.DOTALL)


def begin_work(work: Place) -> None:
    """Mark a folder as ours before anything else is written to it."""
    if isinstance(work, Path) and not (work / DONE).is_file():
        start_lines(work / DONE)


def is_own(work: Place) -> bool:
    """Return whether a folder of intermediate results was begun by GDPNet; those in object stores have no mark."""
    if isinstance(work, ObjectPath) or (work / DONE).is_file():
        return True
    with suppress(RunFolderError):
        return (work / PLAN).is_file() and read_json(work / PLAN, dict, RunFolderError).keys() >= _PLANNED
    return False


def check_own(work: Place, *, described: bool) -> None:
    """Refuse a folder of that name which is the user's; ``described`` says that shards are described beside it."""
    if isinstance(work, ObjectPath) or not work.exists() or (described and is_own(work)):
        return
    found = sorted(path.name for path in work.iterdir()) if work.is_dir() else [""]
    if found:
        holds = f"holds '{found[0][:80]}'" if found[0] else "is a file"
        raise RunFolderError(
            f"shards keep intermediate results in {work}, which {holds} that GDPNet may not have written: move it, "
            "or choose another --out"
        )


def remove_work(work: Place) -> None:
    """Delete the intermediate results in a folder of ours, and the folder if nothing else is in it."""
    if isinstance(work, ObjectPath):
        _remove_objects(work)
        return
    if not work.is_dir() or not is_own(work):
        with suppress(OSError):  # an empty one: a process may have ended before it deleted it
            work.rmdir()
        return
    last = (work / PLAN, work / DONE)
    with suppress(OSError):  # what cannot be deleted stays, and the mark with it
        _remove_files(path for path in work.iterdir() if path not in last)
        for path in last:
            path.unlink(missing_ok=True)
        work.rmdir()


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.name == GRAPH and path.is_dir():
            _remove_files_of(path)
        elif _TEMPORARY.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif _is_named(path.name):
            path.unlink(missing_ok=True)


def _remove_files_of(graph: Path) -> None:
    """Delete a store, and its folder if nothing else is in it."""
    for path in graph.iterdir():
        if _ARRAY.fullmatch(path.name):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        graph.rmdir()


def _is_named(name: str) -> bool:
    """Return whether a file is an intermediate result by its name."""
    return name == MODEL or any(one.fullmatch(name) for one in (_TABLE, _TEMPORARY))


def _remove_objects(work: ObjectPath) -> None:
    """Delete the intermediate results in an object store: all at once if nothing else is there."""
    found = list(work.iterdir())
    ours = [one for one in found if one.name in (DONE, PLAN, GRAPH) or _is_named(one.name)]
    if len(ours) == len(found):
        work.remove_all()
        return
    for _ in in_order(_remove_object, ours):
        pass


def _remove_object(place: ObjectPath) -> None:
    if place.name in (DONE, GRAPH):
        place.remove_all()
    else:
        place.unlink(missing_ok=True)
