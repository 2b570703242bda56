"""Commands that reproduce the paper's evaluation: reproduce and report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gdpnet.cli.compare import refuse_untrainable
from gdpnet.cli.options import (
    COMPUTING,
    DATA,
    OUTPUT,
    DataDir,
    Device,
    DeviceName,
    Jobs,
    Json,
    ReportOnly,
    config_of,
    names_in,
    option,
)
from gdpnet.cli.output import TrialProgress, print_json, print_table
from gdpnet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from gdpnet.benchmark.cases import Setting
    from gdpnet.benchmark.paper.tables import Table


class What(StrEnum):
    """Parts of the paper's evaluation."""

    table2 = "table2"
    table3 = "table3"
    figures = "figures"
    all = "all"


def _check_datasets(text: str) -> str:
    """Refuse a dataset that the paper does not use."""
    from gdpnet.benchmark.paper.tables import DATASETS

    for name in names_in(text, "--datasets", "dataset"):
        if name not in DATASETS:
            raise ConfigError(f"the paper has no dataset '{name}'{nearest(name, DATASETS)}")
    return text


def reproduce(
    what: Annotated[What, typer.Argument(metavar="WHAT", help="Part of the paper's evaluation.")],
    datasets: Annotated[
        str,
        option(DATA, "Comma-separated datasets.", metavar="NAMES", callback=_check_datasets),
    ] = "cora,pubmed,dblp,citeseer",
    data_dir: DataDir = None,
    results: Annotated[Path, option(OUTPUT, "Folder of records to append to.", metavar="FOLDER")] = Path(
        "results"
    ),
    figures: Annotated[Path, option(OUTPUT, "Folder for the figures.", metavar="FOLDER")] = Path(
        "results/figures"
    ),
    report_only: ReportOnly = False,
    as_json: Json = False,
    trials: Annotated[int, option(COMPUTING, "Trials per method of a table.", min=1, metavar="N")] = 15,
    figure_trials: Annotated[int, option(COMPUTING, "Trials per point of a curve.", min=1, metavar="N")] = 3,
    jobs: Jobs = 1,
    device: DeviceName = Device.auto,
) -> None:
    """Reproduce the paper's tables and figures, beside the numbers that the paper reports.

    Baselines use the hyper-parameters found by `gdpnet tune`. Recorded trials are not repeated; a trial that fails
    is recorded as such.
    """
    names = names_in(datasets, "--datasets", "dataset")
    tables = [name for name in ("table2", "table3") if what in (name, What.all)]
    with_figures = what in (What.figures, What.all)
    if not report_only:
        refuse_untrainable(names, data_dir, "paper", 0, device.value)
        if tables:
            _run_tables(names, tables, trials, jobs, results, device.value, data_dir)
        if with_figures:
            _run_figures(names, figure_trials, jobs, results, device.value, data_dir)
    _show(names, tables, results, figures if with_figures else None, as_json)


def _run_tables(
    names: list[str],
    tables: list[str],
    trials: int,
    jobs: int,
    results: Path,
    device: str,
    data_dir: Path | None,
) -> None:
    from gdpnet.benchmark.paper.tables import TABLES

    methods = list(dict.fromkeys(method for table in tables for method in TABLES[table]))
    settings = {name: _clean(name, range(trials), data_dir) for name in names}
    _run_trials(settings, methods, jobs, results, device)


def _clean(name: str, seeds: range, data_dir: Path | None) -> list[Setting]:
    from gdpnet.benchmark.cases import Setting

    return [Setting(name, "paper", "random-links", 0.0, seed, data_dir) for seed in seeds]


def _run_trials(
    settings: dict[str, list[Setting]], methods: list[str], jobs: int, results: Path, device: str
) -> None:
    """Run trials as `gdpnet robustness` does, with its file of records."""
    from gdpnet.benchmark.robustness import plan
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import searched_settings

    found = searched_settings(results / "settings.jsonl")
    path = results / "robustness.jsonl"
    units = []
    for name, some in settings.items():
        searched = {method: one for (graph, method), one in found.items() if graph == name}
        units += plan(some, methods, config_of(name), device, path, searched)
    run_all(units, path, jobs, TrialProgress(len(units)))


def _run_figures(
    names: list[str], trials: int, jobs: int, results: Path, device: str, data_dir: Path | None
) -> None:
    from gdpnet.benchmark.cases import Setting
    from gdpnet.benchmark.paper import figures
    from gdpnet.benchmark.paper.artefacts import CLAIMS, METHODS_DRAWN, artefacts_left
    from gdpnet.benchmark.paper.tables import TABLES
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import searched_settings

    path = results / "portraits.jsonl"
    left = artefacts_left(
        [_clean(name, range(1), data_dir)[0] for name in names],
        [*METHODS_DRAWN, CLAIMS],
        {name: config_of(name) for name in names},
        device,
        path,
        searched_settings(results / "settings.jsonl"),
    )
    run_all(left, path, jobs, TrialProgress(len(left)))
    clean = {name: _clean(name, range(trials), data_dir) for name in names}
    variants = [f"gdpnet:discount-{value}" for value in figures.DISCOUNTS]
    variants += [f"gdpnet:epochs-{value}" for value in figures.EPOCHS]
    _run_trials(clean, variants, jobs, results, device)
    hidden = {
        name: [
            Setting(name, "paper", "hidden-labels", share, seed, data_dir)
            for share in figures.SHARES
            for seed in range(trials)
        ]
        for name in names
    }
    _run_trials(hidden, list(TABLES["table2"]), jobs, results, device)


def _show(names: list[str], tables: list[str], results: Path, figures: Path | None, as_json: bool) -> None:
    """Print the tables beside the paper's numbers, and draw the figures."""
    from gdpnet._core.files import plain
    from gdpnet.benchmark.paper.report import read_results
    from gdpnet.benchmark.paper.tables import TITLES, make_table

    records = read_results(results)
    answer: dict[str, Any] = {}
    for name in tables:
        table = make_table(name, records, names)
        answer[name] = _cell_records(table, names)
        print_table(
            f"{TITLES[name]} (number of trials; * best)", ("method", *names), _table_rows(table, names)
        )
        for dataset in names:
            if comparison := table.comparison(dataset):
                print(f"GDPNet on {dataset}: {comparison}")
    if figures is not None:
        from gdpnet.benchmark.paper.figures import draw_all

        drawn = [str(path) for path in draw_all(records, figures)]
        print("figures: " + (", ".join(drawn) or "none, there are no records for them"))
        answer["pictures"] = drawn
    print_json(as_json, plain(answer))


def _table_rows(table: Table, names: list[str]) -> list[tuple[str, ...]]:
    """Return two rows per method: our scores, and those of the paper."""
    from gdpnet.benchmark.paper.tables import NAMES

    rows = []
    for method in table.methods:
        cells = [table.cells[(method, dataset)] for dataset in names]
        ours = (f"{cell.text}{'*' if table.best(cell.dataset) == method else ''}" for cell in cells)
        rows += [(NAMES[method], *ours), ("   the paper", *(cell.paper for cell in cells))]
    return rows


def _cell_records(table: Table, names: list[str]) -> list[dict[str, Any]]:
    cells = [(method, table.cells[(method, dataset)]) for method in table.methods for dataset in names]
    return [
        {
            "method": method,
            "dataset": cell.dataset,
            "mean": cell.mean,
            "trials": len(cell.scores),
            "failed": cell.failed,
            "paper": cell.paper,
        }
        for method, cell in cells
    ]


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of records.")] = Path("results"),
    out: Annotated[Path, option(OUTPUT, "HTML file to write.", "--out", metavar="FILE")] = Path(
        "report.html"
    ),
    markdown: Annotated[Path | None, option(OUTPUT, "Markdown file to write too.", metavar="FILE")] = None,
    figures: Annotated[
        Path | None,
        option(OUTPUT, "Folder for the figures.", metavar="FOLDER", show_default="figures beside the report"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a report with the tables, figures and settings of all recorded results."""
    if not results.is_dir():
        raise ConfigError(f"there is no folder of records {results}")

    from gdpnet.benchmark.paper.report import read_results, write_markdown, write_page

    records = read_results(results)
    if not records:
        raise ConfigError(f"the folder {results} holds no record (*.jsonl)")
    written = write_page(records, out, figures or out.parent / "figures")
    if markdown is not None:
        written += write_markdown(records, markdown, figures or markdown.parent / "figures")
    paths = [str(path) for path in dict.fromkeys(written)]
    print("written: " + ", ".join(paths))
    print_json(as_json, {"written": paths})
