"""One round: disturb a command, see what is left, start it again, and compare with an undisturbed run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path
from typing import NamedTuple

from campaigns.children import Child, Outcome, Shot, fork, spawn
from campaigns.compare import Tree, differences, tree_of
from campaigns.faults import Fault, Mode
from campaigns.jobs import JOBS, NOTES, Job, older, prepare
from campaigns.verdict import said_wrongly

AT_OPERATION = {
    "kill": Mode.KILL,
    "tear": Mode.TEAR,
    "full": Mode.FULL,
    "full-once": Mode.FULL_ONCE,
    "interrupt": Mode.INTERRUPT,
    "terminate": Mode.TERMINATE,
}
"""Disturbances at a file operation, by its number."""

TWICE = "kill-twice"
"""A kill at a file operation, and another one, at some operation, when the command is started again."""

AT_MOMENT = {
    "kill-moment": signal.SIGKILL,
    "interrupt-moment": signal.SIGINT,
    "terminate-moment": signal.SIGTERM,
}
"""Signals at a moment, by its share of the usual time in thousandths."""

CIRCUMSTANCES = {"read-only": 1, "two": 10, "occupied": 6, "link": 1, "device": 1}
"""Circumstances that a command may meet, and how many there are of each."""

PROCESS = "process-"
"""Prefix of disturbances of a real ``python -m gdpnet`` in place of a fork."""

_CODES = {
    "kill": {-signal.SIGKILL, 0},
    TWICE: {-signal.SIGKILL, 0},
    "tear": {-signal.SIGKILL, 0},
    "interrupt": {130, -signal.SIGINT, 0},
    "terminate": {143, -signal.SIGTERM, 0},
}
"""Exit codes that a disturbance may lead to; 0, 1 and 2 for all others."""

_OWN_SECONDS = 60.0
"""Most time of a processor that a command on these tiny graphs may use."""

_PROCESS_START = 4.0
"""Seconds that a real process may take to load its modules; a moment is drawn from these too."""


class Round(NamedTuple):
    """A disturbance of a command; its name repeats it."""

    job: str
    kind: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.job}:{self.kind}:{self.number}"

    @classmethod
    def named(cls, text: str) -> Round:
        """Return the round of a name such as ``train:kill:17``."""
        job, kind, number = text.split(":")
        return cls(job, kind, int(number))


@dataclass(frozen=True)
class Usual:
    """What an undisturbed run of a command leaves and takes, for both variants."""

    trees: tuple[Tree, Tree]
    operations: int
    seconds: float


class Stage:
    """The folders of a campaign, and the undisturbed runs of its commands."""

    def __init__(self, root: Path, run_command: Callable[[list[str]], int]) -> None:
        self.base, self.rounds, self.run_command = root / "base", root / "rounds", run_command
        self.usual: dict[str, Usual] = {}

    def groups(self) -> list[list[Round]]:
        """Return all rounds, in one list per command and disturbance."""
        groups = []
        for name, usual in self.usual.items():
            operations = range(usual.operations)
            kinds = [*AT_OPERATION, TWICE] if operations else []
            groups += [[Round(name, kind, at) for at in operations] for kind in kinds]
            groups += [[Round(name, kind, at) for at in range(1000)] for kind in AT_MOMENT]
            groups += [
                [Round(name, kind, number) for number in range(count)]
                for kind, count in CIRCUMSTANCES.items()
                if (operations if kind == "read-only" else not JOBS[name].after_a_run)
            ]
        return groups + self._processes()

    def _processes(self) -> list[list[Round]]:
        """Return the rounds of real processes, which take longer, in one list per disturbance."""
        numbers = {
            kind: {name: range(usual.operations) for name, usual in self.usual.items()}
            for kind in AT_OPERATION
        }
        numbers |= {kind: dict.fromkeys(self.usual, range(0, 1000, 50)) for kind in AT_MOMENT}
        found = [
            [Round(name, PROCESS + kind, at) for name, some in places.items() for at in some]
            for kind, places in numbers.items()
        ]
        return [group for group in found if group]

    def play(self, this: Round, *, keep: bool = False) -> list[str]:
        """Play a round; return what was wrong."""
        place = self.rounds / str(this).replace(":", "-")
        work, job = place / "work", JOBS[this.job]
        prepare(job, self.base, work)
        player = {"two": _two_writers, "occupied": _occupied, "link": _link, "device": _device}
        problems = player.get(this.kind, _disturbed)(self, this, job, work)
        if keep:
            problems.append(f"its files are in {place}") if problems else None
        else:
            shutil.rmtree(place)
        return problems

    def start(
        self, words: list[str], log: Path, *, fault: Fault | None = None, process: bool = False, dead: int = 0
    ) -> Child:
        """Start a command, in a fork or as a process; with the leftovers of a ``dead`` process as its own."""
        if process:
            return spawn(words, log, fault=fault)

        def work() -> int:
            if dead:
                _inherit(log.parent / "work", dead)
            return self.run_command(words)

        return fork(work, log, fault=fault)


def _inherit(work: Path, dead: int) -> None:
    """Rename leftovers that carry a dead process's number to this one's, as if the system gave it out again."""
    number = re.compile(rf"(?<!\d){dead}(?!\d)")
    for path in sorted(work.rglob(f"*{dead}*"), reverse=True):
        path.rename(path.with_name(number.sub(str(os.getpid()), path.name)))


def _disturbed(stage: Stage, this: Round, job: Job, work: Path) -> list[str]:
    """Stop a command or let its writing fail, then start it again."""
    usual, kind = stage.usual[job.name], this.kind.removeprefix(PROCESS)
    process = this.kind != kind
    fault, shot = None, None
    if kind in AT_MOMENT:
        seconds = usual.seconds + _PROCESS_START * process
        shot = Shot(AT_MOMENT[kind], 1.05 * seconds * this.number / 1000)
    else:
        mode = Mode.READ_ONLY if kind == "read-only" else AT_OPERATION.get(kind, Mode.KILL)
        fault = Fault(mode, this.number, work)
    child = stage.start(job.words(stage.base, work), work.with_name("first"), fault=fault, process=process)
    ended = child.wait(shot=shot)
    problems = _judged(ended, _CODES.get(kind.removesuffix("-moment"), {0, 1, 2}))
    problems += [f"after the disturbance {one}" for one in _half_done(stage, job, work)]
    if ended.code == 0:
        found = differences(tree_of(work), usual.trees[0])
        return problems + [f"after exit code 0 {one}" for one in found]
    begun = {"run": "run.json", "shards": "shards.json"}.get(job.makes)
    mine = this.number % 2 == 1 and begun is not None and (work / job.out / begun).is_file()
    if mine:
        (work / job.out / "mine.txt").write_text("what the user added\n", encoding="utf-8")
    if kind == TWICE:
        problems += _killed_again(stage, this, job, work)
    return problems + _again(stage, job, work, child.pid if this.number % 4 < 2 else 0, mine)


def _killed_again(stage: Stage, this: Round, job: Job, work: Path) -> list[str]:
    """Start a command again and kill it at another file operation, if it gets there."""
    at = (5 * this.number + 3) % stage.usual[job.name].operations
    fault, words = Fault(Mode.KILL, at, work), job.words_again(stage.base, work)
    ended = stage.start(words, work.with_name("then"), fault=fault).wait()
    problems = [f"killed again: {one}" for one in _judged(ended, _CODES["kill"] | {2})]
    return problems + [f"after the second kill {one}" for one in _half_done(stage, job, work)]


def _again(stage: Stage, job: Job, work: Path, dead: int, mine: bool) -> list[str]:
    """Start a command again and compare what it leaves with an undisturbed run."""
    wanted, done = dict(stage.usual[job.name].trees[0]), tree_of(work)
    if mine:
        wanted[f"{job.out}/mine.txt"] = done[f"{job.out}/mine.txt"]
    complete = job.makes == "folder" and all(
        done.get(name) == digest for name, digest in wanted.items() if name.startswith(f"{job.out}/")
    )
    words = [job.words_again(stage.base, work)]
    words += [job.words(stage.base, work)] if job.makes == "run" else []
    for number, some in enumerate(words):
        ended = stage.start(some, work.with_name(f"again-{number}"), dead=dead).wait()
        if ended.code != 2:
            break
    problems = [f"started again: {one}" for one in _judged(ended, {0, 2} if complete else {0})]
    return problems + [f"started again: {one}" for one in differences(tree_of(work), wanted)]


def _judged(ended: Outcome, codes: set[int]) -> list[str]:
    """Return what is wrong with the end of a child."""
    if ended.hung or ended.own_seconds > _OWN_SECONDS:
        return [f"it takes {ended.seconds:.0f} seconds, {ended.own_seconds:.0f} of them at work"]
    problems = said_wrongly(ended)
    if ended.code not in codes:
        last = ended.err.strip().splitlines()[-1:] or [""]
        problems.append(f"exit code {ended.code}: {last[0][:300]}")
    return problems


def _half_done(stage: Stage, job: Job, work: Path) -> list[str]:
    """Return what of the user's is lost, and results that are neither old nor new."""
    found, (new, _) = tree_of(work), stage.usual[job.name].trees
    problems = [] if found.get(NOTES) == new[NOTES] else ["the user's notes are gone"]
    out = work / job.out
    if job.makes == "file":
        intact = out.is_file() and (
            found[job.out] == new[job.out] or cmp(out, older(job, stage.base), shallow=False)
        )
        problems += [] if intact else [f"{job.out} is neither the older result nor the new one"]
    if job.makes == "folder" and out.exists():
        wanted = {name: digest for name, digest in new.items() if name.startswith(f"{job.out}/")}
        there = {name: digest for name, digest in found.items() if name.startswith(f"{job.out}/")}
        problems += [f"the folder is not whole: {one}" for one in differences(there, wanted)]
    return problems


def _two_writers(stage: Stage, this: Round, job: Job, work: Path) -> list[str]:
    """Start a command twice at the same time, the second a little later and with another choice."""
    usual = stage.usual[job.name]
    if job.makes == "folder" and this.number % 2:
        (work / job.out).mkdir()  # then files are moved into it one by one
    first = stage.start(job.words(stage.base, work), work.with_name("first"))
    first.pause(usual.seconds * (this.number % 10) / 10)
    second = stage.start(job.words(stage.base, work, 1), work.with_name("second"))
    ends = [first.wait(), second.wait()]
    problems = [
        f"writer {number}: {one}" for number, end in enumerate(ends) for one in _judged(end, {0, 1, 2})
    ]
    done = [number for number, end in enumerate(ends) if end.code == 0]
    if not done:
        return [*problems, "both writers were refused"]
    if job.makes in ("run", "folder") and len(done) == 2:
        problems.append("both writers say that they made it")
    found = tree_of(work)
    if job.makes == "records":
        return problems + _records_missing(stage, job, work, done)
    left = [differences(found, usual.trees[number]) for number in done]
    return problems + min(left, key=len)


def _records_missing(stage: Stage, job: Job, work: Path, done: list[int]) -> list[str]:
    """Return a complaint if a record of one of the writers is not in the file, which a third start would show."""
    if done != [0, 1]:
        return []
    before = (work / job.out).read_bytes()
    stage.start(job.words(stage.base, work), work.with_name("third")).wait()
    stage.start(job.words(stage.base, work, 1), work.with_name("fourth")).wait()
    return [] if (work / job.out).read_bytes() == before else ["a record of one writer was lost"]


def _occupied(stage: Stage, this: Round, job: Job, work: Path) -> list[str]:
    """Name a folder that holds files of the user's, with names that the command uses too."""
    if job.makes not in ("run", "folder", "shards"):
        return []
    usual = stage.usual[job.name].trees[0]
    names = [name for name in usual if name.startswith(f"{job.out}/")]
    chosen = names if job.makes == "folder" else names[this.number % len(names) :][:2]
    for name in chosen:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("the user's own\n", encoding="utf-8")
    before = tree_of(work)
    ended = stage.start(job.words(stage.base, work), work.with_name("first")).wait()
    return _judged(ended, {1, 2}) + differences(tree_of(work), before)


def _link(stage: Stage, this: Round, job: Job, work: Path) -> list[str]:
    """Name a link to a file or folder elsewhere."""
    out, real = work / job.out, work / "elsewhere" / job.out
    real.parent.mkdir()
    if job.makes in ("file", "records"):
        out.rename(real)
    elif job.makes == "pages" and out.suffix:
        shutil.copy(older(job, stage.base), real)
    else:
        real.mkdir()
    out.symlink_to(real.relative_to(work))
    before = tree_of(work)
    ended = stage.start(job.words(stage.base, work), work.with_name("first")).wait()
    problems, found = _judged(ended, {0, 2}), tree_of(work)
    if ended.code:
        return problems + differences(found, before)
    if found.pop(job.out, "") != before[job.out]:
        return [*problems, "the link was replaced"]
    usual = stage.usual[job.name].trees[0]
    wanted = {
        f"elsewhere/{name}" if name.split("/")[0] == job.out else name: digest
        for name, digest in usual.items()
    }
    return problems + differences(found, wanted)


def _device(stage: Stage, this: Round, job: Job, work: Path) -> list[str]:
    """Name a device, such as ``/dev/null``, which must stay one."""
    out = work / job.out
    if job.makes != "file" and not (job.makes == "pages" and out.suffix):
        return []
    out.unlink(missing_ok=True)
    try:
        os.mknod(out, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        os.mkfifo(out)  # a pipe without a reader must be refused at once
    kind = out.lstat().st_mode
    ended = stage.start(job.words(stage.base, work), work.with_name("first")).wait()
    problems = _judged(ended, {0, 1, 2})
    return problems if out.lstat().st_mode == kind else [*problems, "the device was replaced by a file"]
