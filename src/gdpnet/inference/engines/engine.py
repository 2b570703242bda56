"""What an engine is: it runs the tasks of a pass in any order, each at least once, and says which are finished."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from gdpnet._core.device import has_numba
from gdpnet._core.files import Place, address_of, place_of
from gdpnet._core.files.objects import ObjectPath
from gdpnet._core.version import __version__
from gdpnet.data.io.store import ABOUT
from gdpnet.errors import GDPNetError, RunFolderError, reason_of
from gdpnet.inference.shards import Seal


class Done(NamedTuple):
    """A finished task."""

    number: int
    """The number of its block."""
    files: dict[str, Seal]
    """The files that it wrote, by name."""
    cpu_seconds: float
    """Seconds of the CPU, of all threads of the process that ran it."""


class Share(NamedTuple):
    """One of several shares of the blocks, as equal as can be, for one process of a job array."""

    number: int
    """From zero."""
    shares: int

    def among(self, blocks: int) -> range:
        """Return the numbers of its blocks."""
        return range(blocks * self.number // self.shares, blocks * (self.number + 1) // self.shares)


class Needs(NamedTuple):
    """What every process that takes part must have: the same versions, and sight of store and output folder."""

    versions: dict[str, str]
    store: str | None
    store_sum: str
    """The checksum of the description of the store, which has those of its arrays."""
    folder: str
    """The nearest folder around the output that exists; the output itself in an object store."""


@runtime_checkable
class Engine(Protocol):
    """Runs tasks."""

    def check(self, needs: Needs) -> None:
        """Refuse to begin where a process would fail; nothing is written before."""

    def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        """Run a pass on some blocks, and yield each task when it is finished."""


def versions_here() -> dict[str, str]:
    """Return the versions that decide on the last bits of a result."""
    found = {"gdpnet": __version__, "torch": torch.__version__, "machine": platform.machine()}
    if has_numba():
        import numba

        found["numba"] = numba.__version__
    return found | {"cpu": torch.backends.cpu.get_cpu_capability()}


def needs_of(store: Place | None, folder: Place) -> Needs:
    """Return what every process must have for a run."""
    around = place_of(address_of(folder))
    while not (isinstance(around, ObjectPath) or around.exists()):
        around = around.parent
    name = None if store is None else address_of(store)
    return Needs(versions_here(), name, "" if store is None else store_sum(store), address_of(around))


def store_sum(store: Place) -> str:
    """Return a checksum of the description of a store, which has those of its arrays."""
    return hashlib.sha256((store / ABOUT).read_bytes()).hexdigest()


def other_version(versions: dict[str, str]) -> str | None:
    """Return which version of this process differs from those of the process that began; None if none does."""
    found = versions_here()
    for name, version in versions.items():
        if found.get(name) != version:
            return f"it has {name} {found.get(name, 'not at all')}, and the process that began has {version}"
    return None


def problem_here(needs: Needs) -> str | None:
    """Return why this process cannot take part, as the end of a sentence; None if it can."""
    if (problem := other_version(needs.versions)) is not None:
        return problem
    if (problem := _problem_of(place_of(needs.folder))) is not None:
        return problem
    if needs.store is not None:
        store = place_of(needs.store)
        try:
            same = store_sum(store) == needs.store_sum
        except OSError:
            return f"it does not see the store {store}; use a file system that all machines share"
        if not same:
            return f"it sees another store at {store}"
    return None


def _problem_of(folder: Place) -> str | None:
    """Return why this process cannot write to a place, as the end of a sentence."""
    if isinstance(folder, ObjectPath):
        try:
            folder.exists()
        except OSError as error:
            return reason_of(error)
        return None
    if folder.is_dir():
        return None
    return f"it does not see the folder {folder}; use a file system that all machines share"


def refuse(where: str, problem: str | None) -> None:
    """Refuse a process that cannot take part."""
    if problem is not None:
        raise RunFolderError(f"{where} cannot take part: {problem}")


def as_error(error: BaseException) -> GDPNetError | None:
    """Return the error of a user that an exception of a worker stands for, if it is one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GDPNetError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return None
