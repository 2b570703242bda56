"""Append-only records of trials: what was run, with which settings and version, and what came out."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from gdpnet.config import Config
from gdpnet.errors import GDPNetError
from gdpnet.version import __version__


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
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.to_dict() if isinstance(config, Config) else config,
    }


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
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except ValueError as error:
        raise GDPNetError(f"{path} holds a line that is not a record: {error}") from error


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
