"""Print results and notes.

Results go to standard output. Notes and progress go to standard error, and --quiet leaves them out. With --json the
record is all that standard output gets.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gdpnet._core.files import plain
from gdpnet._core.words import counted
from gdpnet.config import Config
from gdpnet.errors import printable

if TYPE_CHECKING:
    from gdpnet.data.graph import Graph


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


def is_quiet() -> bool:
    """Return whether notes and progress are left out."""
    return _QUIET.get()


def note(text: str) -> None:
    """Print a line that is no result to standard error, unless the command is quiet."""
    if not _QUIET.get():
        print("\n".join(printable(line) for line in text.split("\n")), file=sys.stderr, flush=True)


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
    from rich.text import Text

    # ids, classes and names of columns are shown as they are: in a plain text rich would look for markup
    table = Table(title=Text(printable(title)), title_justify="left")
    for number, name in enumerate(header):
        justify: Literal["left", "right"] = "left" if number < text else "right"
        table.add_column(Text(printable(name)), justify=justify, overflow="fold" if fold else "ellipsis")
    for row in rows:
        table.add_row(*(Text(printable(text_of(cell))) for cell in row))
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
