"""Commands that regenerate the paper's evaluation: reproduce, report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gdpnet.cli.app import app
from gdpnet.cli.compare import refuse_untrainable
from gdpnet.cli.options import DataDir, Device, DeviceName, Json, config_of
from gdpnet.cli.output import TrialProgress, print_json, print_table
from gdpnet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from gdpnet.benchmark.cases import Setting

_ALL = "cora,pubmed,dblp,citeseer"


class What(StrEnum):
    """What to regenerate."""

    table2 = "table2"
    table3 = "table3"
    figures = "figures"
    all = "all"


@app.command()
def reproduce(
    what: Annotated[What, typer.Argument(help="which part of the paper's evaluation")],
    datasets: Annotated[str, typer.Option(help="datasets, parted by commas")] = _ALL,
    trials: Annotated[int, typer.Option(help="trials of every method of a table", min=1)] = 15,
    figure_trials: Annotated[int, typer.Option(help="trials of every point of a curve", min=1)] = 3,
    jobs: Annotated[int, typer.Option(help="trials that run side by side", min=1)] = 1,
    results: Annotated[Path, typer.Option(help="folder of records to append to")] = Path("results"),
    figures: Annotated[Path, typer.Option(help="folder to draw the figures in")] = Path("results/figures"),
    report_only: Annotated[
        bool, typer.Option("--report-only", help="run nothing: tables and figures from the records there are")
    ] = False,
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Regenerate the paper's tables and figures; what the records hold already is not run again.

    Settings of the baselines are those that `gdpnet tune` found. A trial that fails is a record that says so.
    """
    names = _datasets_of(datasets)
    tables = [name for name in ("table2", "table3") if what in (name, What.all)]
    if not report_only:
        refuse_untrainable(names, data_dir, "paper", 0, device.value)
        if tables:
            _run_tables(names, tables, trials, jobs, results, device.value, data_dir)
        if what in (What.figures, What.all):
            _run_figures(names, figure_trials, jobs, results, device.value, data_dir)
    _show(names, tables, results, figures if what in (What.figures, What.all) else None, as_json)


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
    """Run trials as `gdpnet robustness` does, into its file of records."""
    from gdpnet.benchmark.robustness import plan, run_units
    from gdpnet.benchmark.tuning import searched_settings

    found = searched_settings(results / "settings.jsonl")
    path = results / "robustness.jsonl"
    units = []
    for name, some in settings.items():
        searched = {method: one for (graph, method), one in found.items() if graph == name}
        units += plan(some, methods, config_of(name, None, None), device, path, searched)
    run_units(units, path, jobs, TrialProgress(len(units)))


def _run_figures(
    names: list[str], trials: int, jobs: int, results: Path, device: str, data_dir: Path | None
) -> None:
    from gdpnet.benchmark.cases import Setting
    from gdpnet.benchmark.paper import figures as pictures
    from gdpnet.benchmark.paper.artefacts import CLAIMS, METHODS_DRAWN, portraits_left, run_portrait
    from gdpnet.benchmark.paper.tables import TABLES
    from gdpnet.benchmark.parallel import do_all
    from gdpnet.benchmark.tuning import searched_settings

    path = results / "portraits.jsonl"
    left = portraits_left(
        [_clean(name, range(1), data_dir)[0] for name in names],
        [*METHODS_DRAWN, CLAIMS],
        {name: config_of(name, None, None) for name in names},
        device,
        path,
        searched_settings(results / "settings.jsonl"),
    )
    do_all(run_portrait, left, path, jobs, TrialProgress(len(left)))
    clean = {name: _clean(name, range(trials), data_dir) for name in names}
    variants = [f"gdpnet:discount-{value}" for value in pictures.DISCOUNTS]
    variants += [f"gdpnet:epochs-{value}" for value in pictures.EPOCHS]
    _run_trials(clean, variants, jobs, results, device)
    hidden = {
        name: [
            Setting(name, "paper", "hidden-labels", share, seed, data_dir)
            for share in pictures.SHARES
            for seed in range(trials)
        ]
        for name in names
    }
    _run_trials(hidden, list(TABLES["table2"]), jobs, results, device)


def _show(names: list[str], tables: list[str], results: Path, figures: Path | None, as_json: bool) -> None:
    from gdpnet._core.files import plain
    from gdpnet.benchmark.paper.report import read_results
    from gdpnet.benchmark.paper.reported import NAMES
    from gdpnet.benchmark.paper.tables import TITLES, make_table

    records = read_results(results)
    answer: dict[str, Any] = {}
    for name in tables:
        table = make_table(name, records, names)
        rows = []
        for method in table.methods:
            cells = [table.cells[(method, dataset)] for dataset in names]
            best = [table.best(dataset) == method for dataset in names]
            ours = [f"{cell.text}{'*' if first else ''}" for cell, first in zip(cells, best, strict=True)]
            rows.append((NAMES[method], *ours))
            rows.append(("   the paper", *(cell.paper for cell in cells)))
            answer.setdefault(name, []).extend(
                {
                    "method": method,
                    "dataset": cell.dataset,
                    "mean": cell.mean,
                    "trials": len(cell.scores),
                    "failed": cell.failed,
                    "paper": cell.paper,
                }
                for cell in cells
            )
        print_table(f"{TITLES[name]} (trials; * best)", ("method", *names), rows)
        for dataset in names:
            if said := table.comparison(dataset):
                print(f"GDPNet on {dataset}: {said}")
    if figures is not None:
        from gdpnet.benchmark.paper.figures import draw_all

        drawn = draw_all(records, figures)
        print(
            "pictures: " + (", ".join(str(path) for path in drawn) or "none, there are no records for them")
        )
        answer["pictures"] = [str(path) for path in drawn]
    print_json(as_json, plain(answer))


@app.command()
def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="folder of records")] = Path("results"),
    out: Annotated[Path, typer.Option("--out", help="the page to write")] = Path("report.html"),
    markdown: Annotated[Path | None, typer.Option(help="also write the page's twin in Markdown")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="folder for the pictures; `figures` beside the page if left out")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained page with the tables, the figures and the settings, from records alone."""
    from gdpnet.benchmark.paper.report import read_results, write_markdown, write_page

    if not results.is_dir():
        raise ConfigError(f"there is no folder of records {results}")
    records = read_results(results)
    if not records:
        raise ConfigError(f"the folder {results} holds no record (*.jsonl)")
    written = write_page(records, out, figures or out.parent / "figures")
    if markdown is not None:
        written += write_markdown(records, markdown, figures or markdown.parent / "figures")
    print("written: " + ", ".join(str(path) for path in dict.fromkeys(written)))
    print_json(as_json, {"written": [str(path) for path in dict.fromkeys(written)]})


def _datasets_of(text: str) -> list[str]:
    from gdpnet.benchmark.paper.reported import DATASETS

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("--datasets must name at least one dataset")
    for name in names:
        if name not in DATASETS:
            raise ConfigError(f"the paper has no dataset '{name}'{nearest(name, DATASETS)}")
    return names
