"""CPU seconds and peak memory until the program answers what needs no model, against an empty Python program.

Every run is a fresh process; the programs take turns, so that each sees the same machine. Files are read once before,
so that they are in the cache.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from records import make_parser, median_ratio, write_record

PROGRAM = "from gdpnet.cli import run; run()"
COMMANDS: dict[str, tuple[list[str], int]] = {
    "python -c pass": (["-c", "pass"], 0),
    "import gdpnet": (["-c", "import gdpnet"], 0),
    "gdpnet --help": (["-c", PROGRAM, "--help"], 0),
    "gdpnet datasets": (["-c", PROGRAM, "datasets"], 0),
    "usage error": (["-c", PROGRAM, "train", "cora", "--epoch", "3"], 2),
}
"""Arguments of Python, and the exit code."""


RUNNER = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
given = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ, file_actions=given)
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
"""Runs Python in a fresh process, whose peak begins with that of the process that starts it: this one is small."""


def measure(words: list[str], code: int) -> tuple[float, float]:
    """Run Python in a fresh process; return its CPU seconds and its peak memory in MiB."""
    answer = subprocess.run(
        [sys.executable, "-S", "-c", RUNNER, *words], capture_output=True, text=True, check=True
    )
    ended, seconds, peak = answer.stdout.split()
    if int(ended) != code:
        raise SystemExit(f"the command {words} ended with {ended}, expected {code}; is gdpnet installed?")
    return float(seconds), float(peak)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=11, help="runs of each command (default: 11)")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for turn in range(options.repeats + 1):
        for name, (words, code) in COMMANDS.items():
            seconds = measure(words, code)
            if turn:  # the first one reads files
                found[name].append(seconds)
    times = {name: [one[0] for one in runs] for name, runs in found.items()}
    empty = times["python -c pass"]
    metrics: dict[str, Any] = {
        name: {
            "cpu_seconds": round(statistics.median(times[name]), 3),
            "peak_mib": round(statistics.median(one[1] for one in runs), 1),
            "ratio": round(median_ratio(times[name], empty), 2),
        }
        for name, runs in found.items()
    }
    write_record(options.results, "startup", metrics, {"repeats": options.repeats})


if __name__ == "__main__":
    main()
