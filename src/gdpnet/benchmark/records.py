"""Append-only records of trials: what was run, with which settings and version, and the result."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.files import append_line, has_torn_end, read_objects
from gdpnet._core.version import __version__
from gdpnet.benchmark.ablations import current_name
from gdpnet.benchmark.record_types import check_types
from gdpnet.config import upgrade_settings
from gdpnet.data.datasets.known import DATASETS
from gdpnet.errors import ConfigError, GDPNetError

Record = dict[str, Any]

KINDS = ("robustness", "task", "search", "portrait", "attack")
"""Kinds of records that commands read."""


def make_record(stub: Record, device: str, metrics: Record) -> Record:
    """Return one trial as a record; the stub has what identifies it, its seed and its settings."""
    return {
        **{name: value for name, value in stub.items() if name not in ("seed", "config")},
        "device": device,
        "seed": stub["seed"],
        "metrics": metrics,
        "version": __version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "numba": _version_of("numba"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": stub["config"],
    }


def _version_of(package: str) -> str | None:
    """Return the version of an optional package that affects results, if it is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def append_record(path: Path, record: Record) -> None:
    """Append one line to a file of records, whole or not at all; several processes may do so."""
    append_line(path, json.dumps(record))


def read_records(path: Path) -> list[Record]:
    """Read all records of a file under the names of this version; none if there is no file.

    A last line that was cut short is left out, see `torn_note`.
    """
    found = read_objects(path)
    for number, record in found:
        check_types(record, KINDS, f"line {number} of {path}")
    return [_upgraded(record, f"line {number} of {path}") for number, record in found]


def torn_note(path: Path) -> str | None:
    """Return what to say about a file of records whose last line was cut short; None for others."""
    if not has_torn_end(path):
        return None
    return f"the last line of {path} was cut short and is left out; the next result takes its place"


def of_content(records: Iterable[Record], contents: Mapping[str, str | None]) -> list[Record]:
    """Return the records of the given contents of graphs; those of graphs that are not named are all returned."""
    return [
        record
        for record in records
        if record.get("graph") not in contents or record.get("content") == contents[record["graph"]]
    ]


def _upgraded(record: Record, place: str) -> Record:
    """Return a record of any version with the names that methods and settings have in this one.

    Records of named datasets from before they had the graph's fingerprint are of the published content.
    """
    new = dict(record)
    dataset = DATASETS.get(str(record.get("graph")).partition(" (")[0])
    if dataset is not None:
        new.setdefault("content", dataset.fingerprint)
    if isinstance(record.get("method"), str):
        new["method"] = current_name(record["method"])
    for name in ("config", "cleaner"):
        if isinstance(record.get(name), dict):
            try:
                new[name] = upgrade_settings(record[name])
            except ConfigError as error:
                raise GDPNetError(f"'{name}' in {place}: {error}") from error
    return new


def _commit() -> str:
    """Return the commit of the running source: GDPNET_COMMIT if set, else git's answer, else 'unknown'."""
    if named := os.environ.get("GDPNET_COMMIT"):
        return named
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"
