"""Kill commands, fill the disk, interrupt them, start two at once; then start again and compare bit for bit.

Prints one JSON summary, and exits 1 if something was lost, half written, different or answered with a traceback.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from campaigns import faults
from campaigns.workers import make_parser, play_all, quiet_stdout, summary_of

HOUR = 3600.0


def main() -> int:
    """Run the campaign."""
    arguments = make_parser(__doc__, HOUR).parse_args()
    faults.restart_with_library("campaigns.chaos")
    start, root = time.monotonic(), Path(tempfile.mkdtemp(prefix="gdpnet-chaos-", dir=arguments.work))
    try:
        with quiet_stdout() as show:
            answers, skipped = _campaign(arguments, root, start)
            seconds = time.monotonic() - start
            show(summary_of("chaos", answers, arguments.seed, seconds, skipped))
    finally:
        faults.remove_library()
        if not arguments.repeat:
            shutil.rmtree(root, ignore_errors=True)
    return int(any(one["problems"] for one in answers))


def _campaign(
    arguments: argparse.Namespace, root: Path, start: float
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Prepare the stage and play the rounds; return their answers, and what was left out and why."""
    from campaigns.jobs import JOBS
    from campaigns.prepare import prepared_stage
    from campaigns.rounds import Round

    only = set(arguments.only.split(",")) if arguments.only else set()
    again = Round.named(arguments.repeat) if arguments.repeat else None
    names = [again.job] if again else [name for name in JOBS if not only & JOBS.keys() or name in only]
    stage = prepared_stage(root, names)
    print(f"prepared in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    def play(this: Round) -> dict[str, Any]:
        begin = time.monotonic()
        problems = stage.play(this, keep=again is not None)
        seconds = time.monotonic() - begin
        return {
            "round": str(this),
            "of": this.job,
            "kind": this.kind,
            "problems": problems,
            "seconds": seconds,
        }

    if again:
        return [play(again)], {}
    rounds = _planned(stage, only - JOBS.keys(), random.Random(arguments.seed))[: arguments.rounds]
    skipped = {} if faults.is_loaded() else {"at operations": str(faults.why_unavailable())}
    return play_all(rounds, play, arguments.jobs, arguments.seconds, root), skipped


def _planned(stage: Any, kinds: set[str], draw: random.Random) -> list[Any]:
    """Return the rounds in the order of play: each disturbance of each command once, then again elsewhere."""
    groups = [group for group in stage.groups() if not kinds or group[0].kind in kinds]
    for group in groups:
        draw.shuffle(group)
    draw.shuffle(groups)
    turns = itertools.zip_longest(*groups)
    return [this for turn in turns for this in turn if this is not None]


if __name__ == "__main__":
    sys.exit(main())
