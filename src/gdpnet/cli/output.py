"""What the commands print: tables, progress and the JSON record."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gdpnet._core.files import plain
from gdpnet.data.graph import Graph
from gdpnet.training.trainer import Epoch


def console() -> Console:
    """Return the console of this moment's stdout."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)


def print_table(title: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(text_of(cell) for cell in row))
    console().print(table)


def text_of(value: Any) -> str:
    """Write a number in three decimals, nothing as a dash."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_json(wanted: bool, record: dict[str, Any]) -> None:
    """Print the record on one line, where it was asked for."""
    if wanted:
        print(json.dumps(plain(record)), flush=True)


def print_graph(name: str, graph: Graph) -> None:
    """Say what came in, and what was handled on entry."""
    print(
        f"{name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges, {graph.num_features:,} features, "
        f"{graph.num_classes} classes; training {graph.nodes_in('train').numel():,}, "
        f"validation {graph.nodes_in('validation').numel():,}, test {graph.nodes_in('test').numel():,}"
    )
    for note in graph.notes:
        print(f"  note: {note}")


class EpochProgress:
    """Show epochs as they pass: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, total: int, done: int = 0) -> None:
        self.total = total
        self.bar: Progress | None = None
        if sys.stdout.isatty():
            self.bar = Progress(
                TextColumn("epoch {task.completed}/{task.total}"),
                BarColumn(bar_width=24),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
            )
            self.task = self.bar.add_task("", total=total, completed=done)
            self.bar.start()

    def __call__(self, epoch: Epoch) -> None:
        """Show one epoch."""
        line = (
            f"loss {epoch.loss:.3f}  validation F1 {text_of(epoch.validation_f1)}  reward {epoch.reward:+.4f}  "
            f"kept {epoch.kept_share:.2f}  KL {epoch.kl:.4f}"
        )
        if epoch.told is not None:
            line += f"  injected links told {epoch.told:.3f}"
        if self.bar is not None:
            self.bar.update(self.task, completed=epoch.epoch, description=line)
        else:
            print(f"epoch {epoch.epoch}/{self.total}  {line}", flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.bar is not None:
            self.bar.stop()


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print a line a metric."""
    for name, value in metrics.items():
        print(f"  {name.replace('_', ' ')}: {text_of(value)}")


class TrialProgress:
    """Say what has ended, and how long the rest will take."""

    def __init__(self, units: int) -> None:
        self.units, self.done, self.start = units, 0, time.perf_counter()

    def __call__(self, records: list[dict[str, Any]]) -> None:
        """Say what one piece of work brought."""
        self.done += 1
        left = (time.perf_counter() - self.start) / self.done * (self.units - self.done)
        for record in records:
            noise = f" {record['noise']}" if "noise" in record else ""
            rate = f" {record['rate']:g}" if "rate" in record else ""
            print(
                f"[{self.done}/{self.units}, about {left / 60:.0f} min left] {record['graph']}{noise}{rate} "
                f"seed {record['seed']} {record['method']}: {_said(record['metrics'])}",
                flush=True,
            )


class ShardProgress:
    """Say how far a pass over shards is, at most once in ten seconds."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say that a shard is done."""
        if time.perf_counter() - self.last > 10.0:
            self.last = time.perf_counter()
            print(f"{what}: shard {done} of {total}", flush=True)


def _said(metrics: dict[str, Any]) -> str:
    """Return what came out: the score on test, the best on validation of a search, or why there is none."""
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
