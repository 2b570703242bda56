"""The results as Markdown, and as one self-contained HTML page that is rendered from it; both from records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdpnet._core.files import write_text
from gdpnet.benchmark import robustness, tuning, unsupervised
from gdpnet.benchmark.ablations import REFERENCE, VARIANTS
from gdpnet.benchmark.page import as_text, inlined, linked, page_of, table_lines
from gdpnet.benchmark.paper import artefacts
from gdpnet.benchmark.paper.figures import SENTENCES, draw_all
from gdpnet.benchmark.paper.tables import APART, NAMES, TABLES, TITLES, Table, make_table
from gdpnet.benchmark.record_types import as_records_must_be
from gdpnet.benchmark.records import Record, read_records
from gdpnet.benchmark.sweep import has_ended


@dataclass(frozen=True)
class Grid:
    """A table of the report: a title, an explanation, columns, rows of cells in Markdown, and notes below."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def read_results(folder: Path) -> list[Record]:
    """Read all records of a folder, file by file."""
    return [record for path in sorted(folder.glob("*.jsonl")) for record in read_records(path)]


def has_results(records: list[Record]) -> bool:
    """Return whether some record is of an experiment that the report shows."""
    sweeps = (robustness.SWEEP, unsupervised.SWEEP, tuning.SWEEP, artefacts.SWEEP)
    return any(sweep.of(records) for sweep in sweeps)


def grids_of(records: list[Record]) -> list[Grid]:
    """Return every table that is not empty."""
    tables = [make_table(name, records) for name in TABLES]
    filled = [one for one in tables if any(cell.scores or cell.failed for cell in one.cells.values())]
    grids = [_paper_grid(table) for table in filled]
    grids += _robustness_grids(robustness.summarise(records))
    rows = unsupervised.summarise(records)
    places = sorted({(row.task, row.graph, row.noise) for row in rows})
    grids += [_task_grid(*place, rows) for place in places]
    grids += [_claims_grid(records), _settings_grid(records)]
    return [grid for grid in grids if grid.rows]


def _cell(text: str, below: str, best: bool) -> str:
    first = f"**{text}**" if best and text else text
    return f"{first}<br>{below}" if below else first


def _name(method: str) -> str:
    return NAMES.get(method, as_text(method))


def _paper_grid(table: Table) -> Grid:
    rows = tuple(
        (
            _name(method),
            *(
                _cell(cell.text, f"paper: {cell.paper}" if cell.paper else "", table.best(dataset) == method)
                for dataset in table.datasets
                for cell in (table.cells[(method, dataset)],)
            ),
        )
        for method in table.methods
    )
    notes = tuple(
        f"GDPNet on {dataset}: {text} (paired t-test)"
        for dataset in table.datasets
        if (text := table.comparison(dataset))
    )
    notes += _apart_note(cell.apart for cell in table.cells.values())
    about = "Mean ± standard deviation (trials), best in bold. Below: the paper's figures."
    return Grid(TITLES[table.name], about, ("method", *table.datasets), rows, notes)


def _rate_cells(
    rows: dict[tuple[str, float], Any],
    methods: Iterable[str],
    score: Callable[[Any], tuple[float, float, str]],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return columns and cells of a table with a line per method and a column per rate.

    ``score`` returns mean, deviation and what stands below them.
    """
    rates = sorted({rate for _, rate in rows})
    best = {
        at: max((score(row)[0] for (_, rate), row in rows.items() if rate == at and row.seeds), default=0.0)
        for at in rates
    }

    def cell(row: Any) -> str:
        if row is None or not row.seeds:
            return "" if row is None else "failed"
        mean, deviation, below = score(row)
        failed = f", {row.failed} failed" if row.failed else ""
        mark = APART if getattr(row, "apart", False) else ""
        text = f"{mean:.3f} ± {deviation:.3f} ({row.seeds}{failed}){mark}"
        return _cell(text, below, mean == best[row.rate])

    lines = tuple((_name(method), *(cell(rows.get((method, rate))) for rate in rates)) for method in methods)
    return ("method", *(f"rate {rate:g}" for rate in rates)), lines


def _robustness_grids(rows: list[robustness.Row]) -> list[Grid]:
    """Return the table of scores and that of edges, per graph and noise."""
    grids = []
    for graph, noise in sorted({(row.graph, row.noise) for row in rows if row.rate > 0}):
        mine = {(row.method, row.rate): row for row in rows if (row.graph, row.noise) == (graph, noise)}
        rates = sorted({rate for _, rate in mine})
        last = {method: row.mean for (method, rate), row in mine.items() if rate == rates[-1] and row.seeds}
        order = sorted(sorted({method for method, _ in mine}), key=lambda name: -last.get(name, 0.0))
        columns, lines = _rate_cells(mine, order, lambda row: (row.mean, row.deviation, ""))
        notes = _apart_note(row.apart for row in mine.values()) + _ablation_note(order)
        about = "Micro-F1 on test nodes, mean ± standard deviation (seeds), best in bold."
        grids.append(Grid(f"Noise: {graph}, {noise}", about, columns, lines, notes))
        scored = [mine[place] for name in order for rate in rates if (place := (name, rate)) in mine]
        grids.append(_edges_grid(f"Edges: {graph}, {noise}", [row for row in scored if row.links]))
    return grids


def _edges_grid(title: str, rows: list[robustness.Row]) -> Grid:
    lines = tuple((_name(row.method) + (APART if row.apart else ""), *row.link_cells) for row in rows)
    about = (
        "Removed edges compared with the added ones, shares of edges within and across classes that are kept, and "
        "the Brier score of keep probabilities; means over seeds."
    )
    columns = ("method", "rate", *robustness.LINK_METRICS.values())
    return Grid(title, about, columns, lines, _apart_note(row.apart for row in rows))


def _apart_note(apart: Iterable[bool]) -> tuple[str, ...]:
    note = (
        "run with other settings than the newest GDPNet here: the difference is not due to this change alone"
    )
    return (f"{APART.strip()} {note}",) if any(apart) else ()


def _ablation_note(methods: Iterable[str]) -> tuple[str, ...]:
    without_gcn = {name for name, changes in VARIANTS.items() if set(VARIANTS[REFERENCE]) < set(changes)}
    note = f"ablations leave the GCN head out: compare them with {REFERENCE}"
    return (note,) if without_gcn & set(methods) else ()


def _task_grid(task: str, graph: str, noise: str, rows: list[unsupervised.Row]) -> Grid:
    mine = {
        (row.method, row.rate): row
        for row in rows
        if (row.task, row.graph, row.noise) == (task, graph, noise)
    }
    (first, name), *others = unsupervised.MEASURES[task].items()

    def score(row: unsupervised.Row) -> tuple[float, float, str]:
        return row.mean[first], row.deviation[first], ", ".join(f"{row.mean[key]:.3f}" for key, _ in others)

    columns, lines = _rate_cells(mine, dict.fromkeys(method for method, _ in mine), score)
    below = ", ".join(text for _, text in others)
    about = f"{name}, mean ± standard deviation (seeds), best in bold. Below: {below}."
    return Grid(f"{task.capitalize()}: {graph}, {noise}", about, columns, lines)


_CLAIMS_COLUMNS = (
    "graph",
    "monotone",
    "diminishing in one order",
    "same R in all orders",
    "submodular (best order of each set)",
    "greedy / best, least",
    "counter-example",
)

_CLAIMS_ABOUT = (
    "Number of training neighbourhoods on which each claim about the sum R of the paper's rewards holds; all orders "
    "of all sets were tried. Where R differs between orders it is no function of the set, and the bound for greedy "
    "selection does not follow. The last columns compare greedy selection with the best ordered set of its size, and "
    "show the neighbourhood where the order matters most."
)


def _claims_grid(records: list[Record]) -> Grid:
    rows = []
    for (graph, method), record in sorted(artefacts.SWEEP.latest(records).items()):
        if method != artefacts.CLAIMS:
            continue
        found = record["metrics"]
        count, worst = found["neighbourhoods"], found["counter_example"]
        holds = (found["monotone"], found["diminishing"], count - found["order_matters"], found["submodular"])
        scores = ", ".join(f"{score:.2f}" for score in worst["scores"])
        rows.append(
            (
                as_text(graph),
                *(f"{number} of {count}" for number in holds),
                f"{found['greedy_share']:.3f} (bound {found['bound']:.3f})",
                f"node {as_text(worst['node'])}, f = {scores}: R from {worst['lowest']:.3f} to "
                f"{worst['highest']:.3f} by the order alone",
            )
        )
    return Grid("The paper's claims about its reward", _CLAIMS_ABOUT, _CLAIMS_COLUMNS, tuple(rows))


_SHOWN = ("dropout", "weight_decay", "learning_rate", "width", "layers")


def _settings_grid(records: list[Record]) -> Grid:
    newest = tuning.SWEEP.latest(records)
    rows = tuple(
        (
            as_text(graph),
            _name(method),
            *(f"{one['config'][key]:g}" for key in _SHOWN),
            f"{max(one['metrics']['validation_f1']):.4f}",
        )
        for (graph, method), one in sorted(newest.items())
    )
    searches = [one for one in tuning.SWEEP.of(records) if has_ended(one)]
    noises = {
        f"{as_text(one['noise'])} at {', '.join(f'{rate:g}' for rate in one['rates'])}" for one in searches
    }
    about = (
        "The best of twelve candidates per network and graph, by mean validation micro-F1 over the rates of noise "
        f"({'; '.join(sorted(noises))}). GDPNet has one set of settings for all datasets, except the discount, which "
        "the paper sets."
    )
    columns = ("graph", "method", *(key.replace("_", " ") for key in _SHOWN), "validation F1")
    return Grid("Settings, searched on validation nodes", about, columns, rows)


def write_page(records: list[Record], out: Path, figures: Path) -> list[Path]:
    """Draw the figures into a folder and write the HTML page, with the figures embedded; return the paths written."""
    with as_records_must_be():
        pictures = draw_all(records, figures)
        links = {path: inlined(path) for path in pictures}
        text = page_of(_markdown(records, links), "GDPNet: results")
    write_text(out, text)
    return [out, *pictures]


def write_markdown(records: list[Record], out: Path, figures: Path) -> list[Path]:
    """Draw the figures into a folder and write the Markdown that links to them; return the paths written."""
    with as_records_must_be():
        pictures = draw_all(records, figures)
        text = _markdown(records, {path: linked(path, out) for path in pictures})
    write_text(out, text)
    return [out, *pictures]


def _markdown(records: list[Record], pictures: dict[Path, str]) -> str:
    lines = ["# Results", "", _about(records), ""]
    for grid in grids_of(records):
        lines += [f"## {as_text(grid.title)}", "", grid.about, ""]
        lines += [
            *table_lines(grid.columns, grid.rows),
            *(f"- {note}" for note in grid.notes),
            *([""] if grid.notes else []),
        ]
    lines += ["## Figures", ""] if pictures else []
    for path, link in pictures.items():
        lines += [f"![{SENTENCES[path.name]}]({link})", "", SENTENCES[path.name], ""]
    return "\n".join(lines)


def _about(records: list[Record]) -> str:
    used = robustness.SWEEP.newest(records)
    for sweep in (tuning.SWEEP, artefacts.SWEEP, unsupervised.SWEEP):
        used += sweep.of(records)
    commits = sorted({as_text(record["commit"]) for record in used})
    datasets = ", ".join(sorted({as_text(record["graph"]) for record in used}))
    return (
        f"Made by gdpnet report from {len(used):,} records of commits {', '.join(commits)}. Graphs: {datasets}. "
        "Inductive: training sees the graph of the training nodes only, settings and epochs are chosen on validation "
        "nodes, and test nodes are read once per trial."
    )
