"""Prepare a campaign of kills: make what the commands read, and run each of them undisturbed."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from campaigns import faults
from campaigns.children import Child, fork
from campaigns.compare import differences, tree_of
from campaigns.jobs import JOBS, Job, keep_older, make_base, prepare
from campaigns.rounds import Stage, Usual
from gdpnet.cli import main, run

_PATIENCE = 600.0
"""Seconds that an undisturbed command may take; it shall fail only if it hangs, however busy the machine is."""


def prepared_stage(root: Path, names: list[str]) -> Stage:
    """Return a stage whose commands have each been run undisturbed, twice with the same result."""
    stage = Stage(root, _as_program)
    make_base(stage.base)
    for name in names:
        _warm_up(stage, JOBS[name], root / "warm")
        stage.usual[name] = _undisturbed(stage, JOBS[name], root / "usual")
    return stage


def _as_program(words: list[str]) -> int:
    """Run a command as the installed program does, with what it does about signals."""
    sys.argv = ["gdpnet", *words]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
    return 0


def _warm_up(stage: Stage, job: Job, place: Path) -> None:
    """Run a command in this process, so that its forks find all modules loaded and all loops compiled."""
    prepare(job, stage.base, place)
    if code := main(job.words(stage.base, place)):
        raise RuntimeError(f"{job.name} ended with {code} although nothing disturbed it")
    keep_older(job, stage.base, place)
    shutil.rmtree(place)


def _undisturbed(stage: Stage, job: Job, place: Path) -> Usual:
    """Run a command side by side: twice, and once as the second writer would if that differs."""
    variants = [0, 0, 1] if job.variants[0] != job.variants[1] else [0, 0]
    places = [place / str(number) for number in range(len(variants))]
    under_way = [_start(stage, job, *one) for one in zip(places, variants, strict=True)]
    runs = [_finished(job, *one) for one in zip(places, under_way, strict=True)]
    if differing := differences(runs[1][0], runs[0][0]):
        raise RuntimeError(f"{job.name} does not repeat itself: {'; '.join(differing)}")
    shutil.rmtree(place)
    return Usual((runs[0][0], runs[-1][0]), runs[0][1], runs[0][2])


def _start(stage: Stage, job: Job, place: Path, variant: int) -> Child:
    """Start a command, which counts its file operations."""
    work, count = place / "work", place / "count"
    prepare(job, stage.base, work)

    def command() -> int:
        code = main(job.words(stage.base, work, variant))
        if faults.is_loaded():
            count.write_text(str(faults.counted()), encoding="utf-8")
        return code

    fault = faults.Fault(faults.Mode.COUNT, 0, work) if faults.is_loaded() else None
    return fork(command, place / "log", fault=fault)


def _finished(job: Job, place: Path, child: Child) -> tuple[dict[str, str], int, float]:
    """Wait for a command; return what it leaves, how many operations it makes, and its seconds."""
    ended, count = child.wait(_PATIENCE), place / "count"
    if ended.code:
        raise RuntimeError(
            f"{job.name} ended with {ended.code} although nothing disturbed it: {ended.err[-500:]}"
        )
    operations = int(count.read_text(encoding="utf-8")) if count.exists() else 0
    return tree_of(place / "work"), operations, ended.seconds
