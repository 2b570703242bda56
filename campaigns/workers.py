"""Share the rounds of a campaign among workers, and say in one JSON object what came of them."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

Task = TypeVar("Task")


def make_parser(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """Make a parser with the options that all campaigns have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=seconds, help="time to spend (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="end after this many rounds")
    parser.add_argument("--seed", type=int, default=0, help="seed of all choices (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="rounds side by side (default: 2)")
    parser.add_argument("--only", help="comma-separated commands or kinds to keep to")
    parser.add_argument(
        "--repeat", help="play one round again by its name, which a summary says, and keep its files"
    )
    parser.add_argument(
        "--work", type=_folder, help="folder for the files (default: the system's temporary one)"
    )
    return parser


def _folder(text: str) -> Path:
    """Return a folder, which is made if it is not there."""
    Path(text).mkdir(parents=True, exist_ok=True)
    return Path(text)


@contextlib.contextmanager
def quiet_stdout() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Send standard output to nowhere, and yield a function that prints a summary to where it went before."""
    sys.stdout.flush()
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield lambda summary: os.write(kept, (json.dumps(summary, indent=2) + "\n").encode()) and None
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)


def play_all(
    tasks: Sequence[Task],
    play: Callable[[Task], dict[str, Any]],
    jobs: int,
    seconds: float,
    root: Path,
    *,
    at_least: int = 0,
) -> list[dict[str, Any]]:
    """Play tasks side by side in forks until the time is over; return their answers.

    The first ``at_least`` tasks are played however long they take.
    """
    end, pids = time.monotonic() + seconds, []
    for number in range(jobs):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                sure = len(range(number, at_least, jobs))
                _work(tasks[number::jobs], play, end, root / f"answers-{number}.jsonl", sure)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    try:
        codes = [os.waitpid(pid, 0)[1] for pid in pids]
    except KeyboardInterrupt:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        raise
    if any(codes):
        raise RuntimeError("a worker of the campaign failed")
    return [answer for number in range(jobs) for answer in _answers(root / f"answers-{number}.jsonl")]


def _work(
    tasks: Iterable[Task], play: Callable[[Task], dict[str, Any]], end: float, path: Path, sure: int
) -> None:
    with path.open("a", encoding="utf-8") as file:
        for place, task in enumerate(tasks):
            if place >= sure and time.monotonic() > end:
                return
            answer = play(task)
            for problem in answer["problems"]:
                print(f"{answer['round']}: {problem}", file=sys.stderr, flush=True)
            file.write(json.dumps(answer) + "\n")
            file.flush()


def _answers(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def summary_of(
    campaign: str, answers: Iterable[dict[str, Any]], seed: int, seconds: float, skipped: dict[str, str]
) -> dict[str, Any]:
    """Return the one object that a campaign prints."""
    answers = list(answers)
    counts: dict[str, Counter[str]] = {}
    for one in answers:
        counts.setdefault(one["of"], Counter())[one["kind"]] += 1
    wrong = [one for one in answers if one["problems"]]
    return {
        "campaign": campaign,
        "seed": seed,
        "seconds": round(seconds, 1),
        "python": platform.python_version(),
        "rounds": len(answers),
        "rounds_by": {name: dict(sorted(kinds.items())) for name, kinds in sorted(counts.items())},
        "skipped": skipped,
        "longest_seconds": round(max((one["seconds"] for one in answers), default=0.0), 1),
        "violations": [
            {
                "round": one["round"],
                "problems": one["problems"][:10],
                "repeat": f"python -m campaigns.{campaign} --seed {seed} --repeat '{one['round']}'",
            }
            for one in wrong
        ],
    }
