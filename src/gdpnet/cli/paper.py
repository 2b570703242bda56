"""Commands that reproduce the paper's evaluation: reproduce and report."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gdpnet.cli import completion, replacing
from gdpnet.cli import options as opt
from gdpnet.cli.output import print_table
from gdpnet.cli.progress import TrialProgress
from gdpnet.cli.trials import cases_of, contents_of, refuse_untrainable, run_trials, say_torn
from gdpnet.data.datasets.known import DATASETS
from gdpnet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from gdpnet.benchmark.paper.tables import Cell, Table


def _check_datasets(text: str) -> str:
    """Refuse a dataset that the paper does not use."""
    for name in opt.names_in(text, "--datasets", "dataset"):
        if name not in DATASETS:
            raise ConfigError(f"the paper has no dataset '{name}'{nearest(name, DATASETS)}")
    return text


def reproduce(
    what: Annotated[
        Literal["table2", "table3", "figures", "all"],
        typer.Argument(metavar="WHAT", help="Part of the paper's evaluation."),
    ],
    datasets: Annotated[
        str, opt.data("--datasets NAMES", "Comma-separated datasets.", callback=_check_datasets)
    ] = "cora,pubmed,dblp,citeseer",
    data_dir: opt.DataDir = None,
    results: Annotated[Path, opt.output("--results FOLDER", "Folder of records to append to.")] = Path(
        "results"
    ),
    figures: Annotated[Path, opt.output("--figures FOLDER", "Folder for the figures.")] = Path(
        "results/figures"
    ),
    force: opt.Force = False,
    report_only: opt.ReportOnly = False,
    trials: Annotated[
        int, opt.computing("--trials N", "Trials per method of a table.", min=1, max=100_000)
    ] = 15,
    figure_trials: Annotated[
        int, opt.computing("--figure-trials N", "Trials per point of a curve.", min=1, max=100_000)
    ] = 3,
    jobs: opt.Jobs = 1,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Reproduce the paper's tables and figures, beside the numbers that the paper reports.

    Baselines use the hyper-parameters found by `gdpnet tune`. Recorded trials are not repeated; a trial that fails
    is recorded as such.
    """
    names = opt.names_in(datasets, "--datasets", "dataset")
    tables = [name for name in ("table2", "table3") if what in (name, "all")]
    with_figures = what in ("figures", "all")
    counts: list[dict[str, Any]] = []
    if with_figures:
        from gdpnet.benchmark.paper.figures import SENTENCES

        replacing.check_pictures(figures, SENTENCES, force)
    say_torn(sorted(results.glob("*.jsonl")))
    if not report_only:
        counts = _run(
            names, tables, trials, figure_trials if with_figures else 0, jobs, results, device, data_dir
        )
    return _show(names, tables, results, figures if with_figures else None) | {
        "trials": sum(one["trials"] for one in counts),
        "failures": [reason for one in counts for reason in one["failures"]],
    }


def _run(
    names: list[str],
    tables: list[str],
    trials: int,
    figure_trials: int,
    jobs: int,
    results: Path,
    device: str,
    data_dir: Path | None,
) -> list[dict[str, Any]]:
    """Run the trials of tables and figures as `gdpnet robustness` does, with its file of records; count them."""
    reading = {"data_dir": data_dir}
    contents = contents_of(names, reading)
    clean = partial(cases_of, names, "random-links", [0.0], contents=contents, reading=reading)
    refuse_untrainable(clean([0]).values(), device, scored=True)
    counts = []

    from gdpnet.benchmark.paper import figures
    from gdpnet.benchmark.paper.artefacts import CLAIMS, METHODS_DRAWN, artefacts_left
    from gdpnet.benchmark.paper.tables import TABLES
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import searched_settings

    configs, tuned = {name: opt.config_of(name) for name in names}, results / "settings.jsonl"
    trial_options = (configs, tuned, results / "robustness.jsonl", jobs, device)
    if tables:
        methods = list(dict.fromkeys(method for table in tables for method in TABLES[table]))
        counts.append(run_trials(clean(range(trials)), methods, *trial_options))
    if figure_trials:
        first, path = [some[0] for some in clean([0]).values()], results / "portraits.jsonl"
        drawn = [*METHODS_DRAWN, CLAIMS]
        left = artefacts_left(first, drawn, configs, device, path, searched_settings(tuned))
        with TrialProgress(len(left)) as progress:
            run_all(left, path, jobs, progress)
        variants = [f"gdpnet:discount-{value}" for value in figures.DISCOUNTS]
        variants += [f"gdpnet:epochs-{value}" for value in figures.EPOCHS]
        counts += [progress.counts, run_trials(clean(range(figure_trials)), variants, *trial_options)]
        hidden = cases_of(
            names, "hidden-labels", figures.SHARES, range(figure_trials), contents=contents, reading=reading
        )
        counts.append(run_trials(hidden, list(TABLES["table2"]), *trial_options))
    return counts


def _show(names: list[str], tables: list[str], results: Path, figures: Path | None) -> dict[str, Any]:
    """Print the tables beside the paper's numbers, and draw the figures; return both as a record."""
    from gdpnet.benchmark.paper.report import read_results
    from gdpnet.benchmark.paper.tables import TITLES, make_table

    records = read_results(results)
    answer: dict[str, Any] = {}
    for name in tables:
        table = make_table(name, records, names)
        cells = {method: [table.cells[(method, dataset)] for dataset in names] for method in table.methods}
        answer[name] = [_cell_record(cell) for some in cells.values() for cell in some]
        rows = [row for method, some in cells.items() for row in _table_rows(table, method, some)]
        print_table(f"{TITLES[name]} (number of trials; * best)", ("method", *names), rows)
        for dataset in names:
            if comparison := table.comparison(dataset):
                print(f"GDPNet on {dataset}: {comparison}")
    if figures is not None:
        from gdpnet.benchmark.paper.figures import draw_all

        drawn = [str(path) for path in draw_all(records, figures)]
        print("figures: " + (", ".join(drawn) or "none, there are no records for them"))
        answer["pictures"] = drawn
    return answer


def _table_rows(table: Table, method: str, cells: list[Cell]) -> list[tuple[str, ...]]:
    """Return two rows for a method: our scores, and those of the paper."""
    from gdpnet.benchmark.paper.tables import NAMES

    ours = (f"{cell.text}{'*' if table.best(cell.dataset) == method else ''}" for cell in cells)
    return [(NAMES[method], *ours), ("   the paper", *(cell.paper for cell in cells))]


def _cell_record(cell: Cell) -> dict[str, Any]:
    counts = {"mean": cell.mean, "trials": len(cell.scores), "failed": cell.failed}
    return {"method": cell.method, "dataset": cell.dataset, **counts, "paper": cell.paper}


def report(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS", help="Folder of records, or a run folder.", autocompletion=completion.runs
        ),
    ] = Path("results"),
    out: Annotated[Path, opt.output("--out FILE", "HTML file to write.")] = Path("report.html"),
    markdown: Annotated[Path | None, opt.output("--markdown FILE", "Markdown file to write too.")] = None,
    figures: Annotated[
        Path | None,
        opt.output(
            "--figures FOLDER",
            "Folder for the figures.",
            show_default="figures beside the report",
        ),
    ] = None,
    force: opt.Force = False,
) -> dict[str, Any]:
    """Write a report with the tables, figures and settings of all recorded results.

    For a run folder, write a report of that run: its graph, scores, curves, figures and settings.
    """
    if not results.is_dir():
        raise ConfigError(f"there is no folder of records {results}")

    from gdpnet.benchmark.run_report import is_run

    replacing.check_page(out, force)
    if markdown is not None:
        replacing.check_two_files(out, markdown)
        replacing.check_markdown(markdown, force)
    pages = (out, markdown, figures, force)
    written = _report_run(results, *pages) if is_run(results) else _report_records(results, *pages)
    paths = [str(path) for path in dict.fromkeys(written)]
    print("written: " + ", ".join(paths))
    return {"written": paths}


def _report_records(
    results: Path, out: Path, markdown: Path | None, figures: Path | None, force: bool
) -> list[Path]:
    """Write the report of all records of a folder; return the paths written."""
    from gdpnet.benchmark.paper.figures import SENTENCES
    from gdpnet.benchmark.paper.report import has_results, read_results, write_markdown, write_page

    _check_figures(out, markdown, figures, SENTENCES, force)
    say_torn(sorted(results.glob("*.jsonl")))
    records = read_results(results)
    if not has_results(records):
        raise ConfigError(
            f"the folder {results} holds no record of a comparison (*.jsonl of robustness, tasks, tune or reproduce)"
        )
    written = write_page(records, out, figures or out.parent / "figures")
    if markdown is not None:
        written += write_markdown(records, markdown, figures or markdown.parent / "figures")
    return written


def _check_figures(
    out: Path, markdown: Path | None, figures: Path | None, names: Iterable[str], force: bool
) -> None:
    """Refuse to replace pictures that GDPNet did not draw, in the folders of figures of a report."""
    for page in (out, markdown):
        if page is not None:
            replacing.check_pictures(figures or page.parent / "figures", names, force)


def _report_run(
    path: Path, out: Path, markdown: Path | None, figures: Path | None, force: bool
) -> list[Path]:
    """Write the report of a run; return the paths written."""
    from gdpnet.benchmark.run_report import has_figures, read_run, write_run_markdown, write_run_page
    from gdpnet.cli.runs import graph_of_run

    report = read_run(path, *graph_of_run(path))
    if not has_figures(report):
        _check_figures(out, markdown, figures, ["training.png"], force)
    written = write_run_page(report, out, figures or out.parent / "figures")
    if markdown is not None:
        written += write_run_markdown(report, markdown, figures or markdown.parent / "figures")
    return written
