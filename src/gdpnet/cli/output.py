"""Print results, notes and progress.

Results go to standard output. Notes and progress go to standard error, and --quiet leaves them out. With --json the
record is all that standard output gets.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gdpnet._core.files import plain
from gdpnet._core.words import counted
from gdpnet.config import METRICS, Config

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from gdpnet.data.graph import Graph
    from gdpnet.training.callbacks import Step
    from gdpnet.training.state import Epoch


_BAR = 16
"""Width of the bar among the epochs."""

_QUIET = ContextVar("quiet", default=False)


def set_quiet(quiet: bool) -> None:
    """Leave notes and progress out from now on, or not."""
    _QUIET.set(quiet)


@contextmanager
def results_to(as_json: bool, quiet: bool) -> Iterator[None]:
    """Let a command print; with ``as_json`` all of it goes to standard error, or nowhere if it is to be quiet."""
    before = _QUIET.get()
    _QUIET.set(before or quiet)
    try:
        with ExitStack() as stack:
            if as_json:
                elsewhere = stack.enter_context(Path(os.devnull).open("w")) if _QUIET.get() else sys.stderr
                stack.enter_context(redirect_stdout(elsewhere))
            yield
    finally:
        _QUIET.set(before)


def note(text: str) -> None:
    """Print a line that is no result to standard error, unless the command is quiet."""
    if not _QUIET.get():
        print(text, file=sys.stderr, flush=True)


def print_table(
    title: str,
    header: Iterable[str],
    rows: Iterable[Iterable[Any]],
    *,
    text: int = 1,
    fold: bool = False,
    aside: bool = False,
) -> None:
    """Print a table, 120 columns wide if it does not go to a terminal.

    The first ``text`` columns are left-aligned, the others, numbers, are right-aligned. ``fold`` breaks words that
    are too long, instead of cutting them off. A table ``aside`` is no result and goes where notes go.
    """
    if aside and _QUIET.get():
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        justify: Literal["left", "right"] = "left" if number < text else "right"
        table.add_column(name, justify=justify, overflow="fold" if fold else "ellipsis")
    for row in rows:
        table.add_row(*(text_of(cell) for cell in row))
    file = sys.stderr if aside else sys.stdout
    width = None if file.isatty() else 120
    Console(file=file, highlight=False, markup=False, emoji=False, width=width).print(table)


def text_of(value: Any) -> str:
    """Format a number with three decimals, and a missing value as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_json(wanted: bool, record: dict[str, Any]) -> None:
    """Print the record on one line if it is wanted."""
    if wanted:
        print(json.dumps(plain(record), allow_nan=False), flush=True)


def print_graph(name: str, graph: Graph, settings: Config | None = None) -> None:
    """Note the size of a graph, how it was read, and what becomes of its columns, with the settings of a model."""
    if settings is not None:
        from gdpnet.data.splits import with_encoding

        graph = with_encoding(graph, settings.features)
    wanted = counted(graph.num_classes, "class", "classes") if graph.targets is None else "numbers to predict"
    note(
        f"{name}: {counted(graph.num_nodes, 'node')}, {counted(graph.num_edges, 'directed edge')}, "
        f"{counted(graph.num_features, 'feature')}, {wanted}; training {graph.nodes_in('train').numel():,}, "
        f"validation {graph.nodes_in('validation').numel():,}, test {graph.nodes_in('test').numel():,}"
    )
    for one in graph.notes:
        note(f"  note: {one}")
    if graph.table is not None:
        rows = graph.table.encoding.summary()
        print_table("node columns", ("kind", "columns", "used as"), rows, text=3, fold=True, aside=True)


def print_scores(title: str, rows: list[Any], order: Iterable[str], measure: str | None = None) -> None:
    """Print mean ± standard deviation, one line per method and one column per rate, the best of a column marked.

    Rows with several measures have a dictionary of means and one of deviations; ``measure`` names that to print.
    """
    cells = {(row.method, row.rate): row for row in rows}
    rates = sorted({row.rate for row in rows})

    def score(row: Any) -> tuple[float, float]:
        return (row.mean, row.deviation) if measure is None else (row.mean[measure], row.deviation[measure])

    best = {
        rate: max((score(r)[0] for r in rows if r.rate == rate and r.seeds), default=0.0) for rate in rates
    }

    def cell(method: str, rate: float) -> str:
        row = cells.get((method, rate))
        if row is None or row.seeds == 0:
            return "" if row is None else "failed"
        mean, deviation = score(row)
        failed = f" ({row.failed} failed)" if row.failed else ""
        return f"{mean:.3f} ± {deviation:.3f}{'*' if mean == best[rate] else ''}{failed}"

    methods = [name for name in order if any(row.method == name for row in rows)]
    lines = [(name, *(cell(name, rate) for rate in rates)) for name in methods]
    print_table(f"{title} (* best)", ("method", *(f"rate {rate:g}" for rate in rates)), lines)


class EpochProgress:
    """Show a training: a progress bar of epochs on a terminal, one line per epoch elsewhere; one line per step.

    The line of a step begins when the step does, and ends with its result and its time.

    The bar shows epoch, validation score and time left, and more where the terminal is wide enough.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self.total = total
        self.console = console
        self.bar: Progress | None = None
        self.ends: deque[float] = deque(maxlen=6)

    def __enter__(self) -> EpochProgress:
        self.ends.append(time.perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_bar()

    def _stop_bar(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("epoch {task.completed}/{task.total}"),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.description}"),
        )
        self.bar = Progress(*columns, console=self.console or Console(stderr=True))
        self.task = self.bar.add_task("", total=self.total)
        self.bar.start()

    def __call__(self, epoch: Epoch) -> None:
        """Show one epoch."""
        found = -epoch.validation_f1 if epoch.metric == "log_loss" else epoch.validation_f1
        score = f"validation {METRICS.get(epoch.metric, epoch.metric)} {text_of(found)}"
        rest = [f"reward {epoch.reward:+.4f}", f"kept {epoch.kept_share:.2f}", f"KL {epoch.kl:.4f}"]
        if epoch.injected_auc is not None:
            rest.append(f"injected-edge AUC {epoch.injected_auc:.3f}")
        if self.bar is None and not _QUIET.get() and (self.console is not None or sys.stderr.isatty()):
            self._start_bar()
        self.ends.append(time.perf_counter())
        if self.bar is None:
            score = f"aggregator alone, {score}"
            note("  ".join([f"epoch {epoch.epoch}/{self.total}", f"loss {epoch.loss:.3f}", score, *rest]))
            return
        room = self.bar.console.width - len(f"epoch {self.total}/{self.total}") - _BAR - 2
        parts = [score, f"{self._time_left(epoch.epoch)} left", f"loss {epoch.loss:.3f}", *rest]
        while len("  ".join(parts)) > room and len(parts) > 2:
            parts.pop()
        self.bar.update(self.task, completed=epoch.epoch, description="  ".join(parts))

    def _time_left(self, epoch: int) -> str:
        """Return the time that the remaining epochs take if they are as fast as the last ones."""
        each = (self.ends[-1] - self.ends[0]) / max(1, len(self.ends) - 1)
        minutes, seconds = divmod(round(each * (self.total - epoch)), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"

    def on_step(self, step: Step) -> None:
        """Say that a step begins, or how it ended."""
        self._stop_bar()
        if step.result is not None:
            note(f"{step.result} ({step.seconds or 0.0:.1f} s)")
        elif not _QUIET.get():
            print(f"{step.doing} ... ", end="", file=sys.stderr, flush=True)


class TrialProgress:
    """Note the result of each finished trial and the estimated time left, and count the trials that failed."""

    def __init__(self, units: int) -> None:
        self.units, self.done, self.start = units, 0, time.perf_counter()
        self.records, self.failures = 0, list[str]()

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

    @property
    def counts(self) -> dict[str, Any]:
        """Return the number of trials that were run, and why some failed."""
        return {"trials": self.records, "failures": self.failures}


class ShardProgress:
    """Note the number of finished shards, at most every ten seconds."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Note that a shard is finished."""
        if time.perf_counter() - self.last > 10.0:
            self.last = time.perf_counter()
            note(f"{what}: shard {done} of {total}")


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
