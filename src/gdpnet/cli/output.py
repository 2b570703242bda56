"""Print tables, progress and JSON records."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from gdpnet._core.files import plain

if TYPE_CHECKING:
    from rich.progress import Progress

    from gdpnet.data.graph import Graph
    from gdpnet.training.callbacks import Step
    from gdpnet.training.state import Epoch


def print_table(
    title: str, header: Iterable[str], rows: Iterable[Iterable[Any]], *, text: int = 1, fold: bool = False
) -> None:
    """Print a table, 120 columns wide if stdout is not a terminal.

    The first ``text`` columns are left-aligned, the others, numbers, are right-aligned. ``fold`` breaks words that
    are too long, instead of cutting them off.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        justify: Literal["left", "right"] = "left" if number < text else "right"
        table.add_column(name, justify=justify, overflow="fold" if fold else "ellipsis")
    for row in rows:
        table.add_row(*(text_of(cell) for cell in row))
    Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


def text_of(value: Any) -> str:
    """Format a number with three decimals, and a missing value as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_json(wanted: bool, record: dict[str, Any]) -> None:
    """Print the record on one line if it is wanted."""
    if wanted:
        print(json.dumps(plain(record)), flush=True)


def print_graph(name: str, graph: Graph) -> None:
    """Print the size of a graph and the notes about how it was read."""
    print(
        f"{name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges, {graph.num_features:,} features, "
        f"{graph.num_classes} classes; training {graph.nodes_in('train').numel():,}, "
        f"validation {graph.nodes_in('validation').numel():,}, test {graph.nodes_in('test').numel():,}"
    )
    for note in graph.notes:
        print(f"  note: {note}")


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print one line per metric."""
    for name, value in metrics.items():
        print(f"  {name.replace('_', ' ')}: {text_of(value)}")


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
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.bar: Progress | None = None

    def __enter__(self) -> EpochProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_bar()

    def _stop_bar(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _start_bar(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("epoch {task.completed}/{task.total}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        self.task = self.bar.add_task("", total=self.total)
        self.bar.start()

    def __call__(self, epoch: Epoch) -> None:
        """Show one epoch."""
        line = (
            f"loss {epoch.loss:.3f}  aggregator alone, validation F1 {text_of(epoch.validation_f1)}  "
            f"reward {epoch.reward:+.4f}  kept {epoch.kept_share:.2f}  KL {epoch.kl:.4f}"
        )
        if epoch.injected_auc is not None:
            line += f"  injected-edge AUC {epoch.injected_auc:.3f}"
        if self.bar is None and sys.stdout.isatty():
            self._start_bar()
        if self.bar is not None:
            self.bar.update(self.task, completed=epoch.epoch, description=line)
        else:
            print(f"epoch {epoch.epoch}/{self.total}  {line}", flush=True)

    def on_step(self, step: Step) -> None:
        """Say that a step begins, or how it ended."""
        self._stop_bar()
        if step.result is None:
            print(f"{step.doing} ... ", end="", flush=True)
        else:
            print(f"{step.result} ({step.seconds or 0.0:.1f} s)", flush=True)


class TrialProgress:
    """Print the result of each finished trial and the estimated time left."""

    def __init__(self, units: int) -> None:
        self.units, self.done, self.start = units, 0, time.perf_counter()

    def __call__(self, records: list[dict[str, Any]]) -> None:
        """Print the records of one finished unit of work."""
        self.done += 1
        left = (time.perf_counter() - self.start) / self.done * (self.units - self.done)
        for record in records:
            noise = f" {record['noise']}" if "noise" in record else ""
            rate = f" {record['rate']:g}" if "rate" in record else ""
            print(
                f"[{self.done}/{self.units}, about {left / 60:.0f} min left] {record['graph']}{noise}{rate} "
                f"seed {record['seed']} {record['method']}: {_outcome(record['metrics'])}",
                flush=True,
            )


class ShardProgress:
    """Print the number of finished shards, at most every ten seconds."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Print that a shard is finished."""
        if time.perf_counter() - self.last > 10.0:
            self.last = time.perf_counter()
            print(f"{what}: shard {done} of {total}", flush=True)


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
