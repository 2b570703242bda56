"""What the benchmarks share: the graph, interleaved timing, and the record that each run leaves."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks.jsonl"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder that holds Planetoid (default: GDPNET_DATA, else the user's cache)",
    )
    parser.add_argument("--threads", type=int, default=2, help="threads that torch may use (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and draws (default: 0)")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help=f"file to append the record to (default: {RESULTS.name})",
    )
    return parser


def interleaved_seconds(jobs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Run the jobs in turn, again and again; return the seconds of each, the first turn (warm-up) left out."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def median_ratio(ours: list[float], limit: list[float]) -> float:
    """Return the median of the ratios of neighbouring runs, which share the machine's mood."""
    return statistics.median(one / other for one, other in zip(ours, limit, strict=True))


def write_record(path: Path, benchmark: str, metrics: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Print a record and append it to the results."""
    record = {
        "benchmark": benchmark,
        "version": _package_version(),
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "metrics": metrics,
        "config": config,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record, indent=2))


def _package_version() -> str:
    try:
        return version("gdpnet")
    except PackageNotFoundError:
        return "unknown"


def commit() -> str:
    """Return the commit of the checkout, or that of the environment variable GDPNET_COMMIT."""
    if given := os.environ.get("GDPNET_COMMIT"):
        return given
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=RESULTS.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
