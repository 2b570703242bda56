"""Feed the package damaged and hostile inputs, each in a child with limits on memory and time.

An input is accepted, and then is a valid graph or equals what was written, or refused in one sentence. Prints one
JSON summary, and exits 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from campaigns import faults
from campaigns.workers import make_parser, play_all, quiet_stdout, summary_of

HOUR = 3600.0
REGRESSIONS = Path(__file__).with_name("regressions")
FINDINGS = Path("runs/fuzz")
MOST_MEMORY = 1 << 30
"""Bytes that reading a small input may take beyond the loaded program."""

MOST_SECONDS = 60.0
"""Seconds that reading a small input may take; usually it is one, and the machine may be busy."""


def main() -> int:
    """Run the campaign."""
    parser = make_parser(__doc__, HOUR)
    parser.add_argument(
        "--findings", type=Path, default=FINDINGS, help="folder that keeps inputs with a violation"
    )
    arguments = parser.parse_args()
    faults.restart_with_library("campaigns.fuzz")
    start, root = time.monotonic(), Path(tempfile.mkdtemp(prefix="gdpnet-fuzz-", dir=arguments.work))
    try:
        with quiet_stdout() as show:
            answers = _campaign(arguments, root, start)
            show(_summary(answers, arguments, time.monotonic() - start))
    finally:
        faults.remove_library()
        shutil.rmtree(root, ignore_errors=True)
    return int(any(one["problems"] for one in answers))


def _summary(answers: list[dict[str, Any]], arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    summary = summary_of("fuzz", answers, arguments.seed, seconds, {})
    summary["accepted"] = sum(one["accepted"] for one in answers)
    summary["most_memory_mib"] = max((one["peak_mib"] for one in answers), default=0)
    return summary


def _campaign(arguments: argparse.Namespace, root: Path, start: float) -> list[dict[str, Any]]:
    """Make the base, replay kept findings, then draw new cases; return the answers."""
    from campaigns.bench import Bench, make_inputs
    from campaigns.cases import Case
    from campaigns.kinds import KINDS, make_case

    base = make_inputs(root / "base")
    print(f"prepared in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    bench = Bench(base, root / "cases", MOST_MEMORY, MOST_SECONDS)
    arguments.findings.mkdir(parents=True, exist_ok=True)

    def play(task: Any) -> dict[str, Any]:
        if isinstance(task, Path):
            case = Case.from_text(task.read_text(encoding="utf-8"))
        else:
            case = bench.guided(*task) or make_case(*task, base)
        answer = bench.play(case)
        if answer["problems"] and not isinstance(task, Path):
            answer["round"] = str(_keep(case, answer["problems"], arguments.findings))
        return answer

    if arguments.repeat:
        kind, _, number = arguments.repeat.rpartition(":")
        again = (kind, int(number), arguments.seed) if kind in KINDS else Path(arguments.repeat)
        return [play(again)]
    only = arguments.only.split(",") if arguments.only else list(KINDS)
    kept: list[Any] = sorted(REGRESSIONS.glob("*.json"))
    most = arguments.rounds or 1_000_000
    drawn = ((kind, number, arguments.seed) for number in itertools.count() for kind in only)
    tasks = kept + list(itertools.islice(drawn, max(0, most - len(kept))))
    return play_all(tasks, play, arguments.jobs, arguments.seconds, root, at_least=len(kept))


def _keep(case: Any, problems: list[str], folder: Path) -> Path:
    """Write a finding to a file, which repeats it."""
    path = folder / f"{re.sub(r'[^a-z0-9]+', '-', case.name)}.json"
    path.write_text(case.to_text("; ".join(problems)[:500]), encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
