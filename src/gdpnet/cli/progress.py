"""Show what is being done, how far it is and how long it will take: a bar on a terminal, lines elsewhere.

All of it goes to standard error, and --quiet leaves it out. Without a terminal a line is written when nothing else
was said for a few seconds, so that short work says nothing and long work is never silent.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from gdpnet._core.progress import seconds_left, watch
from gdpnet.cli.output import is_quiet, note, text_of
from gdpnet.config import METRICS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from gdpnet.training.callbacks import Step
    from gdpnet.training.state import Epoch

_BAR = 16
"""Width of the bar."""

_TIMES = 19
"""Columns beside the bar that share and time need at least."""

_EVERY = 5.0
"""Seconds after which a line says how far the work is, where there is no terminal."""


_PASSES = {
    "evidence": "looking for evidence",
    "evidence-cleaned": "looking for evidence again",
    "first": "deciding on the context",
    "decided": "deciding on every edge",
    "write": "writing",
    "project": "projecting nodes",
    "rarity": "counting neighbours",
    "sums": "adding up neighbours",
    "pairs": "comparing pairs",
    "clean": "taking out suspected edges",
    "join": "joining the rest",
    "context": "deciding on the context",
    "means": "averaging neighbours",
    "decide": "deciding on every edge",
    "heads": "projecting nodes for the heads",
}
"""What the passes over a graph in shards do."""

TASK = "task "
"""What the names of passes over blocks begin with."""


class Display:
    """One piece of work: a bar on a terminal, or a thread that now and then writes a line."""

    def __init__(self, label: str, console: Console | None = None) -> None:
        self.label, self.console = label, console
        self.share, self.start, self.said = 0.0, time.perf_counter(), time.perf_counter()
        self.end = math.inf
        """When the work must end at the latest."""
        self.details: Callable[[int], str] = lambda room: self._times("  ")
        self.bar: Progress | None = None
        self.ended, self.thread = threading.Event(), threading.Thread(target=self._write_lines, daemon=True)
        self.is_line_open = False
        """Whether the cursor stands after text that a line must not be appended to."""

    def __enter__(self) -> Display:
        if is_quiet():
            return self
        if self.console is not None or _has_terminal():
            self._start_bar()
        else:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        if self.thread.is_alive():
            self.thread.join()

    def update(self, share: float) -> None:
        """Set the share of the work that is done; it never shrinks."""
        if share > self.share:
            self.share, self.end = share, time.perf_counter() + seconds_left()
            if self.bar is not None:
                self.bar.update(self.task, completed=share, total=1.0)

    def show(self, label: str, share: float, details: Callable[[int], str] | None = None) -> None:
        """Replace what is shown; ``details`` returns the text beside the bar for some columns."""
        self.label, self.details = label, details or self.details
        self.update(share)
        self.said = time.perf_counter()

    def restart(self, label: str) -> None:
        """Show another piece of work from its beginning."""
        self.label, self.share, self.start = label, 0.0, time.perf_counter()
        if self.bar is not None:
            self.bar.reset(self.task, total=None)

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn
        from rich.text import Text

        display = self

        class Label(ProgressColumn):
            """What is done."""

            def render(self, task: Any) -> Text:
                return Text(display.label[: display.width - _BAR - 2 - _TIMES], no_wrap=True)

        class Details(ProgressColumn):
            """Share and times, and more where there is room."""

            def render(self, task: Any) -> Text:
                room = display.width - min(len(display.label), display.width - _BAR - 2 - _TIMES) - _BAR - 2
                return Text(display.details(room)[:room], no_wrap=True)

        console = self.console or Console(stderr=True)
        self.width = console.width
        columns = (Label(), BarColumn(bar_width=_BAR), Details())
        self.bar = Progress(
            *columns, console=console, transient=True, redirect_stdout=False, refresh_per_second=5
        )
        self.task = self.bar.add_task("", total=None)
        self.bar.start()

    def _times(self, between: str) -> str:
        """Return the share that is done and the time left; the time so far as long as no share is known."""
        passed = time.perf_counter() - self.start
        if self.share <= 0:
            return f"{clock(passed)} so far"
        left = min(passed * (1 - self.share) / self.share, max(0.0, self.end - time.perf_counter()))
        return f"{100 * self.share:.0f} %{between}{clock(left)} left"

    def _write_lines(self) -> None:
        while not self.ended.wait(min(0.1, _EVERY)):
            if time.perf_counter() - self.said >= _EVERY:
                self.said = time.perf_counter()
                start = "\n" if self.is_line_open else ""
                self.is_line_open = False
                print(f"{start}{self.label}: {self._times(', ')}", file=sys.stderr, flush=True)


@contextmanager
def doing(what: str) -> Iterator[Display]:
    """Show a piece of work and how far it says it is; a profile has it as a phase."""
    from gdpnet._core.profiling import phase  # imports torch, as whatever is done here does

    with phase(what), Display(what) as display, watch(display.update):
        yield display


def _has_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class EpochProgress:
    """Show a training: a progress bar of epochs on a terminal, one line per epoch elsewhere; one line per step.

    A step has a bar of its own while it runs; its line ends with its result and its time. The bar of the epochs shows
    epoch, validation score and time left, and more where the terminal is wide enough.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self.total, self.console = total, console
        self.display: Display | None = None
        self.in_epochs = False
        self.ends: deque[float] = deque(maxlen=6)

    def __enter__(self) -> EpochProgress:
        self.ends.append(time.perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        if self._close():  # a step failed: what is said about that begins a line
            print(file=sys.stderr, flush=True)

    def _close(self) -> bool:
        """End what is shown; return whether text without a line end was written."""
        display, self.display, self.in_epochs = self.display, None, False
        if display is None:
            return False
        display.__exit__()
        return display.is_line_open

    def _open(self, label: str) -> Display:
        self._close()
        self.display = Display(label, self.console)
        return self.display.__enter__()

    def __call__(self, epoch: Epoch) -> None:
        """Show one epoch."""
        found = -epoch.validation_f1 if epoch.metric == "log_loss" else epoch.validation_f1
        score = f"validation {METRICS.get(epoch.metric, epoch.metric)} {text_of(found)}"
        rest = [f"reward {epoch.reward:+.4f}", f"kept {epoch.kept_share:.2f}", f"KL {epoch.kl:.4f}"]
        if epoch.injected_auc is not None:
            rest.append(f"injected-edge AUC {epoch.injected_auc:.3f}")
        if not self.in_epochs:
            self._begin_epochs()
        assert self.display is not None
        self.ends.append(time.perf_counter())
        label, loss = f"epoch {epoch.epoch}/{self.total}", f"loss {epoch.loss:.3f}"

        def details(room: int) -> str:
            parts = [score, f"{self._time_left(epoch.epoch)} left", loss, *rest]
            while len("  ".join(parts)) > room and len(parts) > 2:
                parts.pop()
            return "  ".join(parts)

        self.display.show(label, epoch.epoch / self.total, details)
        if self.display.bar is None:
            note("  ".join([label, loss, f"aggregator alone, {score}", *rest]))

    def _begin_epochs(self) -> None:
        self._open(f"epoch 0/{self.total}")
        self.in_epochs = True

    def _time_left(self, epoch: int) -> str:
        """Return the time that the remaining epochs take if they are as fast as the last ones."""
        each = (self.ends[-1] - self.ends[0]) / max(1, len(self.ends) - 1)
        return clock(max(0.0, each * (self.total - epoch) - (time.perf_counter() - self.ends[-1])))

    def on_step(self, step: Step) -> None:
        """Show a step as it begins; then write how it ended."""
        if step.result is None:
            display = self._open(step.doing)
            if display.bar is None and not is_quiet():
                print(f"{step.doing} ... ", end="", file=sys.stderr, flush=True)
                display.is_line_open = True
            return
        start = "" if self._close() else f"{step.doing} ... "
        note(f"{start}{step.result} ({step.seconds or 0.0:.1f} s)")
        if step.name == "data":
            self._begin_epochs()

    def on_progress(self, step: Step) -> None:
        """Show how far a step is."""
        if self.display is not None and step.done is not None:
            self.display.update(step.done)


class TrialProgress:
    """Show how many trials are done, note the result of each and the time left, and count those that failed."""

    def __init__(self, units: int) -> None:
        self.units, self.done, self.start = units, 0, time.perf_counter()
        self.records, self.failures = 0, list[str]()
        self.display, self.stack = Display(f"trial 1 of {units}"), ExitStack()

    def __enter__(self) -> TrialProgress:
        if self.units:
            self.stack.enter_context(self.display)
            self.stack.enter_context(watch(self.display.update))
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def __call__(self, records: list[dict[str, Any]]) -> None:
        """Note the records of one finished unit of work."""
        self.done += 1
        self.records += len(records)
        self.failures += [one["metrics"]["error"] for one in records if "error" in one["metrics"]]
        left = (time.perf_counter() - self.start) / self.done * (self.units - self.done)
        for record in records:
            noise = f" {record['noise']}" if "noise" in record else ""
            rate = f" {record['rate']:g}" if "rate" in record else ""
            note(
                f"[{self.done}/{self.units}, about {left / 60:.0f} min left] {record['graph']}{noise}{rate} "
                f"seed {record['seed']} {record['method']}: {_outcome(record['metrics'])}"
            )
        self.display.show(f"trial {min(self.done + 1, self.units)} of {self.units}", self.done / self.units)

    @property
    def counts(self) -> dict[str, Any]:
        """Return the number of trials that were run, and why some failed."""
        return {"trials": self.records, "failures": self.failures}


class ShardProgress:
    """Show how many shards of a pass over the graph are done; of passes over blocks, how much of all work.

    What a stopped run had finished before is not counted, as the time left could not be told from it.
    """

    def __init__(self) -> None:
        self.what, self.before, self.display = "", 0, Display("preparing the graph")

    def __enter__(self) -> ShardProgress:
        self.display.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.__exit__()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that a shard is finished, or a task."""
        by_blocks, name = what.startswith(TASK), what.removeprefix(TASK)
        text = _PASSES.get(name, name) + ("" if by_blocks else f", shard {done} of {total}")
        group = TASK if by_blocks else what  # the time left is that of all passes over blocks
        if group != self.what:
            self.what, self.before = group, done if by_blocks else 0
            self.display.restart(text)
        self.display.label = text
        self.display.update((done - self.before) / max(total - self.before, 1))


def _outcome(metrics: dict[str, Any]) -> str:
    """Return the test score, the best validation score of a search, or the error."""
    if "error" in metrics:
        return f"failed: {metrics['error']}"
    if "candidates" in metrics:
        return f"validation {max(metrics['validation_f1']):.4f}"
    known = [
        f"{metrics[name]:.4f}"
        for name in ("micro_f1", "roc_auc", "average_precision", "nmi")
        if name in metrics
    ]
    return " ".join(known) or "done"
