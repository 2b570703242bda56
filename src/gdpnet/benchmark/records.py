"""Append-only records of trials: what was run, with which settings and version, and what came out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.version import __version__
from gdpnet.config import Config
from gdpnet.errors import GDPNetError


def make_record(
    kind: str, config: Config | dict[str, Any], seed: int, metrics: dict[str, Any], **about: Any
) -> dict[str, Any]:
    """Return one trial as a record."""
    return {
        "kind": kind,
        **about,
        "seed": seed,
        "metrics": metrics,
        "version": __version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "numba": _version_of("numba"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.to_dict() if isinstance(config, Config) else config,
    }


def _version_of(package: str) -> str | None:
    """Return the version of an extra that has a part in results, if it is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Add one line to a file of records."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise GDPNetError(f"cannot write {path}: {error.strerror}") from error


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read all records of a file; none if there is no file."""
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except ValueError as error:
        raise GDPNetError(f"{path} holds a line that is not a record: {error}") from error
    except OSError as error:
        raise GDPNetError(f"cannot read {path}: {error.strerror}") from error
    if not all(isinstance(record, dict) for record in records):
        raise GDPNetError(f"{path} holds a line that is not a record: it must be an object of JSON")
    return records


def of_kind(records: Iterable[dict[str, Any]], kind: str, keys: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the records of a kind; one that lacks what every record of the kind has is refused."""
    found = [record for record in records if record.get("kind") == kind]
    for record in found:
        for key in (*_ALWAYS, *keys):
            if key not in record:
                raise GDPNetError(f"a record of kind '{kind}' lacks its '{key}'")
    return found


_ALWAYS = ("graph", "method", "seed", "metrics", "config", "commit")


def _commit() -> str:
    """Return the commit of the source that runs: that of GDPNET_COMMIT, else what git says, else 'unknown'."""
    if named := os.environ.get("GDPNET_COMMIT"):
        return named
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"
