"""Commands that compare methods on noisy graphs: robustness and tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gdpnet.cli import options as opt
from gdpnet.cli import replacing
from gdpnet.cli.output import print_scores, print_table
from gdpnet.cli.progress import TrialProgress
from gdpnet.cli.trials import (
    asked_of,
    cases_of,
    changes_of,
    check_names,
    contents_of,
    reading_of,
    refuse_untrainable,
    run_trials,
    say_left_alone,
)
from gdpnet.config import read_config, task_config
from gdpnet.data.label_rate import LabelRate
from gdpnet.errors import ConfigError

if TYPE_CHECKING:
    from gdpnet.benchmark.robustness import Row

USUAL_METHODS = (
    "gdpnet, gdpnet>gcn, gdpnet>gat, gdpnet>graphsage, "
    "gcn, gat, graphsage, mlp, supervised-gcn, structural-gcn"
)


def rates_of(text: str) -> list[float]:
    """Return the comma-separated rates of an option, each once."""
    try:
        return list(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise ConfigError(f"--rates must be comma-separated numbers, found '{text}'") from error


def _check_rates(text: str) -> str:
    rates_of(text)
    return text


def _check_labels(text: str) -> str:
    """Refuse labels that are neither all, a number per class nor a percentage."""
    LabelRate.of(text)
    return text


Noise = Annotated[
    str,
    opt.data(
        "--noise KIND",
        "Kind of noise, as in `gdpnet noise`; join several with +, each but the last with a fixed rate, as in "
        "flipped-bits:0.1+prbcd.",
    ),
]
Rates = Annotated[
    str, opt.data("--rates NUMBERS", "Comma-separated rates of the noise.", callback=_check_rates)
]
Labels = Annotated[
    str,
    opt.data(
        "--labels RATE",
        "Labels that are given, drawn with the seed from the training nodes of each class: all, a number such as "
        "20-per-class (and 30 validation nodes per class), or a percentage of all labelled nodes such as 10% (and as "
        "many validation nodes). Other training and validation nodes stay in the graph without labels.",
        callback=_check_labels,
    ),
]
Transductive = Annotated[
    bool | None,
    opt.flag(
        opt.DATA,
        "--transductive/--inductive",
        "Train on the whole graph, without the labels of validation and test nodes, or without these nodes.",
        show_default="as the graph says, else inductive",
    ),
]
Methods = Annotated[str, opt.model("--methods NAMES", "Comma-separated methods; all for every method.")]
Plugins = Annotated[
    list[str] | None,
    opt.model("--plugin MODULE", "Module or file that registers methods of your own; repeat for several."),
]
Seeds = Annotated[int, opt.computing("--seeds N", "Number of seeds.", min=1, max=100_000)]
FirstSeed = Annotated[int, opt.computing("--first-seed N", "First seed.", min=0, max=2**31 - 1)]


def robustness(
    dataset: opt.GraphNames,
    *,
    noise: Noise = "random-links",
    rates: Rates = "0,0.25,0.5,1.0",
    split: opt.SplitName = "paper",
    labels: Labels = "all",
    transductive: Transductive = None,
    source: opt.GraphSource,
    methods: Methods = USUAL_METHODS,
    plugin: Plugins = None,
    tuned: Annotated[
        Path,
        opt.model(
            "--tuned FILE",
            "Hyper-parameters found by `gdpnet tune`; baselines that it has none for use their defaults.",
        ),
    ] = Path("results/settings.jsonl"),
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    records: opt.Records = Path("results/robustness.jsonl"),
    figures: Annotated[
        Path | None, opt.output("--figures FOLDER", "Folder to draw accuracy curves in.")
    ] = None,
    force: opt.Force = False,
    report_only: opt.ReportOnly = False,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: opt.Jobs = 1,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Compare GDPNet with other methods under increasing noise.

    Each result is appended to --records. Results that the file holds are not computed again, so an interrupted
    comparison continues when run again. Each number of labels, transductive or inductive, has results of its own.
    """
    wanted, levels = methods_of(methods), rates_of(rates)
    if not report_only:
        check_names(dataset)
    configs = {name: opt.config_of(name, config, overrides, None, changes_of(source)) for name in dataset}

    from gdpnet.benchmark.baselines.registry import load_plugins
    from gdpnet.benchmark.cases import check_noise
    from gdpnet.benchmark.records import of_content, read_records
    from gdpnet.benchmark.robustness import check_methods, summarise

    load_plugins(plugin or [])
    check_methods(wanted)
    check_noise(noise, levels)
    numbers = range(first_seed, first_seed + seeds)
    reading = reading_of(source)
    contents = contents_of(dataset, reading, report_only=report_only)
    cases = cases_of(dataset, noise, levels, numbers, split, contents, reading, labels, transductive)
    asked, counts = asked_of(cases), {}
    say_left_alone(records, asked)
    graphs = {some[0].to_record()["graph"] for some in cases.values()}
    if figures is not None:
        from gdpnet.benchmark.figures import curves_name

        replacing.check_pictures(figures, (curves_name(name, noise) for name in graphs), force)
    if not report_only:
        refuse_untrainable(cases.values(), device, scored=True)
        counts = run_trials(cases, wanted, configs, tuned, records, jobs, device)
    rows = _rows_of(summarise(of_content(read_records(records), asked)), graphs, noise, levels, wanted)
    for name in sorted({row.graph for row in rows}):
        _print_robustness(f"{name}, {noise}", [row for row in rows if row.graph == name])
    if figures is not None:
        from gdpnet.benchmark.figures import draw_curves

        print("figures: " + ", ".join(str(path) for path in draw_curves(rows, figures)))
    return {"rows": [asdict(row) for row in rows]} | counts


def tasks(
    task: Annotated[
        Literal["links", "clusters"], typer.Argument(metavar="TASK", help="Link prediction or clustering.")
    ],
    dataset: opt.GraphNames,
    *,
    noise: Noise = "random-links",
    rates: Rates = "0,0.5,1.0",
    split: opt.SplitName = "paper",
    source: opt.GraphSource,
    methods: Methods = "all",
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    records: opt.Records = Path("results/tasks.jsonl"),
    report_only: opt.ReportOnly = False,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: opt.Jobs = 1,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Compare GDPNet with other methods for link prediction or clustering, under increasing noise.

    Noise is added to training edges only. Each result is appended to --records. Results that the file holds are not
    computed again, so an interrupted comparison continues when run again.
    """
    names, levels = opt.names_in(methods, "--methods", "method"), rates_of(rates)
    if not report_only:
        check_names(dataset)
    shipped = read_config(config) if config is not None else task_config(task)
    settings = shipped.with_overrides(overrides or []).with_values({"task": {"kind": task}})

    from gdpnet._core.device import pick_device
    from gdpnet.benchmark import unsupervised
    from gdpnet.benchmark.cases import check_noise, open_case
    from gdpnet.benchmark.records import of_content, read_records
    from gdpnet.benchmark.sweep import run_all

    known = unsupervised.known_methods(task)
    wanted = known if "all" in names else names
    unsupervised.check_methods(task, wanted)
    check_noise(noise, levels)
    pick_device(device)
    reading = reading_of(source)
    contents = contents_of(dataset, reading, report_only=report_only)
    numbers = range(first_seed, first_seed + seeds)
    cases = cases_of(dataset, noise, levels, numbers, split, contents, reading)
    asked, counts = asked_of(cases), {}
    say_left_alone(records, asked)
    if not report_only:
        for some in cases.values():
            unsupervised.check_servable(task, open_case(some[0]), settings)
        left = unsupervised.SWEEP.missing(
            [
                unsupervised.Trial(task, setting, method, settings, device)
                for some in cases.values()
                for setting in sorted(some, key=lambda one: one.seed)
                for method in wanted
            ],
            records,
        )
        with TrialProgress(len(left)) as progress:
            run_all(left, records, jobs, progress)
        counts = progress.counts
    found = unsupervised.summarise(of_content(read_records(records), asked))
    graphs = [some[0].to_record()["graph"] for some in cases.values()]
    rows = _rows_of((row for row in found if row.task == task), graphs, noise, levels, wanted)
    for name in graphs:
        shown = [row for row in rows if row.graph == name]
        for key, measure in unsupervised.MEASURES[task].items():
            print_scores(f"{name}, {task}, {noise}: {measure}", shown, known, key)
    return {"rows": [asdict(row) for row in rows]} | counts


def methods_of(text: str) -> list[str]:
    """Return the methods of an option; ``all`` stands for every baseline and the usual methods."""
    names = opt.names_in(text, "--methods", "method")
    if "all" not in names:
        return names

    from gdpnet.benchmark.robustness import baseline_names

    named = (name for name in names if name != "all")
    return list(dict.fromkeys([*named, *baseline_names(), *USUAL_METHODS.split(", ")]))


def _rows_of(
    rows: Iterable[Any], graphs: Collection[str], noise: str, rates: list[float], methods: Collection[str]
) -> list[Any]:
    """Return the rows that a command asked for, of all that its file of records gives."""
    return [
        row
        for row in rows
        if row.graph in graphs and row.noise == noise and row.rate in rates and row.method in methods
    ]


def _print_robustness(title: str, rows: list[Row]) -> None:
    """Print the scores of one graph, best method under most noise first, and the effect on edges."""
    from gdpnet.benchmark.robustness import EDGE_COUNTS, LINK_METRICS

    most = max(row.rate for row in rows)
    last = {row.method: row.mean for row in rows if row.rate == most and row.seeds}
    order = sorted({row.method for row in rows}, key=lambda name: (-last.get(name, 0.0), name))
    print_scores(f"{title}: micro-F1 on test", rows, order)
    judged = sorted((row for row in rows if row.links), key=lambda row: (order.index(row.method), row.rate))
    if judged:
        cells = [(row.method, *row.link_cells) for row in judged]
        print_table(f"{title}: edges", ("method", "rate", *LINK_METRICS.values()), cells)
    counted = sorted((row for row in rows if row.edges), key=lambda row: (order.index(row.method), row.rate))
    if counted:
        once = {row.rate: ("none", *row.count_cells[:-1], "") for row in counted}
        cells = [once[rate] for rate in sorted(once)]
        cells += [(row.method, *row.count_cells) for row in counted if "edges_kept" in row.edges]
        print_table(
            f"{title}: number of directed edges", ("cleaned by", "rate", *EDGE_COUNTS.values()), cells
        )
