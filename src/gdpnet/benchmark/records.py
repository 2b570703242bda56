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

from gdpnet._core.version import __version__
from gdpnet.benchmark.ablations import current_name
from gdpnet.config import upgrade_settings
from gdpnet.data.datasets.known import DATASETS
from gdpnet.errors import GDPNetError, WorkError

Record = dict[str, Any]


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
    """Append one line to a file of records."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise WorkError(f"cannot write {path}: {error.strerror}") from error


def read_records(path: Path) -> list[Record]:
    """Read all records of a file under the names of this version; none if there is no file."""
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except ValueError as error:
        raise GDPNetError(f"{path} holds a line that is not a record: {error}") from error
    except OSError as error:
        raise GDPNetError(f"cannot read {path}: {error.strerror}") from error
    if not all(isinstance(record, dict) for record in records):
        raise GDPNetError(f"{path} holds a line that is not a record: it must be a JSON object")
    return [_upgraded(record) for record in records]


def of_content(records: Iterable[Record], contents: Mapping[str, str | None]) -> list[Record]:
    """Return the records of the given contents of graphs; those of graphs that are not named are all returned."""
    return [
        record
        for record in records
        if record.get("graph") not in contents or record.get("content") == contents[record["graph"]]
    ]


def _upgraded(record: Record) -> Record:
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
            new[name] = upgrade_settings(record[name])
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
