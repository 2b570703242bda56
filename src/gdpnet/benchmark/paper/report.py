"""The results as one self-contained page, and its twin in Markdown; both from records alone."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdpnet._core.files import atomic_path
from gdpnet.benchmark.ablations import VARIANTS
from gdpnet.benchmark.paper.artefacts import CLAIMS, portraits_of
from gdpnet.benchmark.paper.artefacts import KIND as PORTRAIT
from gdpnet.benchmark.paper.figures import SENTENCES, draw_all
from gdpnet.benchmark.paper.reported import NAMES
from gdpnet.benchmark.paper.tables import APART, TABLES, TITLES, Table, make_table
from gdpnet.benchmark.records import of_kind, read_records
from gdpnet.benchmark.robustness import LINK_METRICS, Row, newest_records, summarise
from gdpnet.benchmark.tuning import KIND as SEARCH
from gdpnet.benchmark.unsupervised import KIND as TASK
from gdpnet.benchmark.unsupervised import MEASURES
from gdpnet.benchmark.unsupervised import Row as TaskRow
from gdpnet.benchmark.unsupervised import summarise as summarise_tasks

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d5d9de; --soft: #f3f5f7; --bold: #0a5cad }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #14171a; --line: #3a4047; --soft: #1e2327; --bold: #7db8f0 }
  img { background: #fff; border-radius: 6px }
}
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 100% }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap }
td:first-child { min-width: 8rem; white-space: normal }
th { background: var(--soft) } td b { color: var(--bold) } small { opacity: .75; display: block }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto } figcaption { opacity: .85; font-size: .9rem }
"""


@dataclass(frozen=True)
class Grid:
    """A table as plain text: a title, what to know, columns, and rows of cells; a cell may have a second line."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str, bool], ...], ...]
    """Cells: text, a second line, and whether it is the best of its column."""
    notes: tuple[str, ...] = ()
    """Lines below the table."""


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Read all records of a folder, file by file."""
    return [record for path in sorted(folder.glob("*.jsonl")) for record in read_records(path)]


def grids_of(records: list[dict[str, Any]]) -> list[Grid]:
    """Return every table that the records have something for."""
    grids = [_paper_grid(make_table(name, records)) for name in TABLES]
    grids += _robustness_grids(summarise(records))
    grids += task_grids(summarise_tasks(records))
    grids += [_claims_grid(records), _settings_grid(records)]
    return [grid for grid in grids if grid.rows]


def _paper_grid(table: Table) -> Grid:
    rows = []
    for method in table.methods:
        cells = [(NAMES[method], "", False)]
        for dataset in table.datasets:
            cell = table.cells[(method, dataset)]
            paper = f"paper: {cell.paper}" if cell.paper else ""
            cells.append((cell.text, paper, table.best(dataset) == method))
        rows.append(tuple(cells))
    comparisons = {dataset: table.comparison(dataset) for dataset in table.datasets}
    notes = tuple(
        f"GDPNet on {dataset}: {said} (paired t-test)" for dataset, said in comparisons.items() if said
    )
    notes += _apart_note(cell.apart for cell in table.cells.values())
    about = "Mean ± deviation (trials); best in bold; what the paper reports below."
    return Grid(TITLES[table.name], about, ("method", *table.datasets), tuple(rows), notes)


def _robustness_grids(rows: list[Row]) -> list[Grid]:
    """Return one table a graph and kind of noise: a line a method, a column a rate."""
    grids = []
    for graph, noise in sorted({(row.graph, row.noise) for row in rows if row.rate > 0}):
        mine = {(row.method, row.rate): row for row in rows if (row.graph, row.noise) == (graph, noise)}
        rates = sorted({rate for _, rate in mine})
        best = {
            rate: max((row.mean for (_, at), row in mine.items() if at == rate and row.seeds), default=0.0)
            for rate in rates
        }
        methods = sorted({method for method, _ in mine})  # by name where none was run at the last rate
        order = sorted(methods, key=lambda name: -_mean(mine.get((name, rates[-1]))))
        lines = []
        for method in order:
            cells = [(NAMES.get(method, method), "", False)]
            for rate in rates:
                row = mine.get((method, rate))
                cells.append(_robustness_cell(row, best[rate]))
            lines.append(tuple(cells))
        columns = ("method", *(f"rate {rate:g}" for rate in rates))
        about = "Micro-F1 on test nodes, mean ± deviation (seeds); best in bold."
        notes = _apart_note(row.apart for row in mine.values()) + _ablation_note(
            row.method for row in mine.values()
        )
        grids.append(Grid(f"Noise: {graph}, {noise}", about, columns, tuple(lines), notes))
        judged = [mine[place] for name in order for rate in rates if (place := (name, rate)) in mine]
        grids.append(_links_grid(graph, noise, [row for row in judged if row.links]))
    return grids


def _apart_note(apart: Iterable[bool]) -> tuple[str, ...]:
    """Return what a mark means, where there is one."""
    note = "measured with other settings than GDPNet's newest here: what lies between them is not this change alone"
    return (f"{APART.strip()} {note}",) if any(apart) else ()


def _ablation_note(methods: Iterable[str]) -> tuple[str, ...]:
    """Return what ablations are to be compared with, where there are any."""
    reference = "gdpnet:no-convolutions"
    left_out = {name for name, changes in VARIANTS.items() if set(VARIANTS[reference]) < set(changes)}
    note = f"GDPNet's ablations leave convolutions out: what they change is the difference to {reference}"
    return (note,) if left_out & set(methods) else ()


def task_grids(rows: list[TaskRow]) -> list[Grid]:
    """Return one table a task, graph and kind of noise: a line a method, a column a rate."""
    grids = []
    for task, graph, noise in sorted({(row.task, row.graph, row.noise) for row in rows}):
        mine = {
            (row.method, row.rate): row
            for row in rows
            if (row.task, row.graph, row.noise) == (task, graph, noise)
        }
        rates = sorted({rate for _, rate in mine})
        first, *others = MEASURES[task]
        best = {
            rate: max(
                (row.mean[first] for (_, at), row in mine.items() if at == rate and row.seeds), default=0.0
            )
            for rate in rates
        }
        lines = tuple(
            (
                (NAMES.get(method, method), "", False),
                *(_task_cell(mine.get((method, rate)), first, others, best[rate]) for rate in rates),
            )
            for method in dict.fromkeys(method for method, _ in mine)
        )
        told = MEASURES[task]
        below = ", ".join(told[name] for name in others)
        about = f"{told[first]}, mean ± deviation (seeds); best in bold. Below: {below}."
        columns = ("method", *(f"rate {rate:g}" for rate in rates))
        grids.append(Grid(f"{task.capitalize()}: {graph}, {noise}", about, columns, lines))
    return grids


def _task_cell(row: TaskRow | None, first: str, others: list[str], best: float) -> tuple[str, str, bool]:
    if row is None:
        return "", "", False
    if not row.seeds:
        return "failed", "", False
    failed = f", {row.failed} failed" if row.failed else ""
    text = f"{row.mean[first]:.3f} ± {row.deviation[first]:.3f} ({row.seeds}{failed})"
    return text, ", ".join(f"{row.mean[name]:.3f}" for name in others), row.mean[first] == best


def _links_grid(graph: str, noise: str, rows: list[Row]) -> Grid:
    """Return what became of the links, for the methods that judge them."""
    lines = tuple(tuple((text, "", False) for text in (_marked(row), *row.link_cells)) for row in rows)
    about = (
        "Removed links against those that were added, shares of links within and across classes that are kept, and "
        "the Brier score of keep probabilities against the truth; means over seeds."
    )
    columns, notes = ("method", "rate", *LINK_METRICS.values()), _apart_note(row.apart for row in rows)
    return Grid(f"Links: {graph}, {noise}", about, columns, lines, notes)


def _marked(row: Row) -> str:
    return NAMES.get(row.method, row.method) + (APART if row.apart else "")


def _mean(row: Row | None) -> float:
    return row.mean if row is not None and row.seeds else 0.0


def _robustness_cell(row: Row | None, best: float) -> tuple[str, str, bool]:
    if row is None:
        return "", "", False
    if not row.seeds:
        return "failed", "", False
    failed = f", {row.failed} failed" if row.failed else ""
    mark = APART if row.apart else ""
    return f"{row.mean:.3f} ± {row.deviation:.3f} ({row.seeds}{failed}){mark}", "", row.mean == best


def _claims_grid(records: list[dict[str, Any]]) -> Grid:
    rows = []
    for (graph, method), record in sorted(portraits_of(records).items()):
        if method != CLAIMS:
            continue
        found = record["metrics"]
        count, worst = found["neighbourhoods"], found["counter_example"]
        told = (
            f"node {worst['node']}, f = {', '.join(f'{score:.2f}' for score in worst['scores'])}: "
            f"R from {worst['lowest']:.3f} to {worst['highest']:.3f} by the order alone"
        )
        cells = (
            graph,
            f"{found['monotone']} of {count}",
            f"{found['diminishing']} of {count}",
            f"{count - found['order_matters']} of {count}",
            f"{found['submodular']} of {count}",
            f"{found['greedy_share']:.3f} (bound {found['bound']:.3f})",
            told,
        )
        rows.append(tuple((text, "", False) for text in cells))
    about = (
        "On how many neighbourhoods of training nodes each claim about the sum R of the paper's rewards holds, all "
        "orders of all sets tried. Where R differs between orders it is no function of the set, and the bound for "
        "greedy selection, which takes what earns most next, does not follow; the last columns give R of greedy "
        "selection against the best ordered set of its size, and the neighbourhood on which the order matters most."
    )
    columns = (
        "graph",
        "monotone",
        "diminishing in one order",
        "same R in all orders",
        "submodular (best order of each set)",
        "greedy / best, least",
        "counter-example",
    )
    return Grid("The paper's claims about its reward", about, columns, tuple(rows))


_SHOWN = ("dropout", "weight_decay", "learning_rate", "width", "layers")
"""Settings that were searched."""


def _settings_grid(records: list[dict[str, Any]]) -> Grid:
    searches = [one for one in of_kind(records, SEARCH, ("noise", "rates")) if "error" not in one["metrics"]]
    newest = {(one["graph"], one["method"]): one for one in searches}
    rows = tuple(
        tuple(
            (text, "", False)
            for text in (
                graph,
                NAMES.get(method, method),
                *(f"{one['config'][key]:g}" for key in _SHOWN),
                f"{max(one['metrics']['validation_f1']):.4f}",
            )
        )
        for (graph, method), one in sorted(newest.items())
    )
    noises = sorted(
        {f"{one['noise']} at {', '.join(f'{rate:g}' for rate in one['rates'])}" for one in searches}
    )
    about = (
        "The best of twelve candidates for every network and graph, by mean validation micro-F1 over the rates of "
        f"noise ({'; '.join(noises)}). GDPNet has one set of settings for all datasets, but for the discount, which "
        "the paper sets."
    )
    columns = ("graph", "method", *(key.replace("_", " ") for key in _SHOWN), "validation F1")
    return Grid("Settings, searched on validation nodes", about, columns, rows)


def _order(name: str) -> int:
    return list(SENTENCES).index(name)


def write_page(records: list[dict[str, Any]], out: Path, figures: Path) -> list[Path]:
    """Draw the figures into a folder and write the page, pictures within; return what was written."""
    pictures = draw_all(records, figures)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>GDPNet: results</title>"
        f'<meta name=viewport content="width=device-width, initial-scale=1"><style>{_STYLE}</style>',
        f"<h1>GDPNet: results</h1><p>{html.escape(_about(records))}</p>",
    ]
    for grid in grids_of(records):
        head = "".join(f"<th>{html.escape(column)}</th>" for column in grid.columns)
        body = "".join(f"<tr>{''.join(_html_cell(*cell) for cell in row)}</tr>" for row in grid.rows)
        parts.append(
            f"<h2>{html.escape(grid.title)}</h2><p>{html.escape(grid.about)}</p>"
            f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"
            + "".join(f"<p>{html.escape(note)}</p>" for note in grid.notes)
        )
    for path in sorted(pictures, key=lambda one: _order(one.name)):
        data = base64.b64encode(path.read_bytes()).decode()
        caption = html.escape(SENTENCES[path.name])
        parts.append(
            f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    _write(out, "\n".join(parts) + "</html>\n")
    return [out, *pictures]


def _html_cell(text: str, second: str, best: bool) -> str:
    first = f"<b>{html.escape(text)}</b>" if best else html.escape(text)
    return f"<td>{first}{f'<small>{html.escape(second)}</small>' if second else ''}</td>"


def write_markdown(records: list[dict[str, Any]], out: Path, figures: Path) -> list[Path]:
    """Write the twin of the page in Markdown; its pictures lie in a folder beside it."""
    pictures = draw_all(records, figures)
    lines = ["# Results", "", _about(records), ""]
    for grid in grids_of(records):
        lines += [f"## {grid.title}", "", grid.about, ""]
        lines += ["| " + " | ".join(grid.columns) + " |", "|" + "---|" * len(grid.columns)]
        lines += ["| " + " | ".join(_text_cell(*cell) for cell in row) + " |" for row in grid.rows]
        lines += ["", *(f"- {note}" for note in grid.notes), *([""] if grid.notes else [])]
    if pictures:
        lines += ["## Figures", ""]
    for path in sorted(pictures, key=lambda one: _order(one.name)):
        place = path.relative_to(out.parent) if path.is_relative_to(out.parent) else path
        lines += [f"![{SENTENCES[path.name]}]({place.as_posix()})", "", SENTENCES[path.name], ""]
    _write(out, "\n".join(lines))
    return [out, *pictures]


def _text_cell(text: str, second: str, best: bool) -> str:
    first = f"**{text}**" if best and text else text
    return f"{first}<br>{second}" if second else first


def _about(records: list[dict[str, Any]]) -> str:
    used = [*newest_records(records), *of_kind(records, SEARCH), *of_kind(records, PORTRAIT)]
    used += of_kind(records, TASK)
    commits = sorted({record["commit"] for record in used})
    datasets = ", ".join(sorted({record["graph"] for record in used}))
    return (
        f"Made by gdpnet report from {len(used):,} records of commits {', '.join(commits)}. Graphs: "
        f"{datasets}; inductive: training sees the graph of the training nodes alone, "
        "settings and epochs are chosen on validation nodes, test nodes are read once a trial."
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
