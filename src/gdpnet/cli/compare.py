"""Commands that compare methods: tune, robustness and tasks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gdpnet.cli.options import (
    COMPUTING,
    DATA,
    MODEL,
    OUTPUT,
    ConfigFile,
    DataDir,
    Device,
    DeviceName,
    Directed,
    GraphNames,
    Jobs,
    Json,
    Overrides,
    Records,
    ReportOnly,
    Split,
    SplitName,
    config_of,
    names_in,
    option,
)
from gdpnet.cli.output import TrialProgress, print_json, print_scores, print_table
from gdpnet.data.datasets.known import check_name
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


Noise = Annotated[
    str,
    option(
        DATA,
        "Kind of noise, as in `gdpnet noise`; join several with +, each but the last with a fixed rate, as in "
        "flipped-bits:0.1+prbcd.",
        metavar="KIND",
    ),
]
Rates = Annotated[
    str,
    option(DATA, "Comma-separated rates of the noise.", metavar="NUMBERS", callback=_check_rates),
]
Methods = Annotated[
    str,
    option(MODEL, "Comma-separated methods; all for every method.", metavar="NAMES"),
]
Seeds = Annotated[int, option(COMPUTING, "Number of seeds.", min=1, metavar="N")]
FirstSeed = Annotated[int, option(COMPUTING, "First seed.", min=0, metavar="N")]


def tune(
    dataset: GraphNames,
    noise: Noise = "random-links",
    rates: Rates = "0,1.0",
    split: SplitName = Split.paper,
    data_dir: DataDir = None,
    directed: Directed = None,
    methods: Methods = "all",
    records: Records = Path("results/settings.jsonl"),
    as_json: Json = False,
    seed: Annotated[int, option(COMPUTING, "Seed of noise and training.", min=0, metavar="N")] = 0,
    jobs: Jobs = 1,
    device: DeviceName = Device.auto,
) -> None:
    """Search the hyper-parameters of the baselines, for `gdpnet robustness` to use.

    Each method tries twelve candidates and keeps the one with the best mean score on validation nodes over all
    rates. Searches that --records holds are not repeated.
    """
    wanted, levels = _methods_of(methods), rates_of(rates)
    check_names(dataset)

    from gdpnet.benchmark.ablations import VARIANTS
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import check_tunable, searched_settings, searches_left

    wanted = [name for name in wanted if name not in VARIANTS]  # GDPNet has its settings in TOML files
    check_tunable(wanted)
    check_noise(noise, levels)
    refuse_untrainable(dataset, data_dir, split.value, seed, device.value, bool(directed))
    cases = {
        name: tuple(
            Setting(name, split.value, noise, rate, seed, data_dir, bool(directed)) for rate in levels
        )
        for name in dataset
    }
    asked = [(some, config_of(name)) for name, some in cases.items()]
    left = searches_left(asked, wanted, device.value, records)
    run_all(left, records, jobs, TrialProgress(len(left)))
    graphs = {some[0].to_record()["graph"] for some in cases.values()}
    found = {key: one for key, one in searched_settings(records).items() if key[0] in graphs}
    columns = ("graph", "method", "dropout", "weight decay", "learning rate", "width", "layers")
    print_table(
        "hyper-parameters chosen on validation nodes",
        columns,
        [
            (*key, *(f"{getattr(one, name.replace(' ', '_')):g}" for name in columns[2:]))
            for key, one in sorted(found.items())
        ],
    )
    print_json(as_json, {"settings": [{"graph": g, "method": m, **asdict(s)} for (g, m), s in found.items()]})


def robustness(
    dataset: GraphNames,
    noise: Noise = "random-links",
    rates: Rates = "0,0.25,0.5,1.0",
    split: SplitName = Split.paper,
    data_dir: DataDir = None,
    directed: Directed = None,
    methods: Methods = USUAL_METHODS,
    tuned: Annotated[
        Path,
        option(
            MODEL,
            "Hyper-parameters found by `gdpnet tune`; baselines that it has none for use their defaults.",
            metavar="FILE",
        ),
    ] = Path("results/settings.jsonl"),
    config: ConfigFile = None,
    overrides: Overrides = None,
    records: Records = Path("results/robustness.jsonl"),
    figures: Annotated[
        Path | None,
        option(OUTPUT, "Folder to draw accuracy curves in.", metavar="FOLDER"),
    ] = None,
    report_only: ReportOnly = False,
    as_json: Json = False,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    device: DeviceName = Device.auto,
) -> None:
    """Compare GDPNet with other methods under increasing noise.

    Each result is appended to --records. Results that the file holds are not computed again, so an interrupted
    comparison continues when run again.
    """
    wanted, levels = _methods_of(methods), rates_of(rates)
    if not report_only:
        check_names(dataset)
    configs = {name: config_of(name, config, overrides) for name in dataset}

    from gdpnet._core.files import plain
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.records import read_records
    from gdpnet.benchmark.robustness import check_methods, plan, summarise
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.benchmark.tuning import searched_settings

    check_methods(wanted)
    check_noise(noise, levels)
    units, graphs, found = [], set(), searched_settings(tuned)
    for name in dataset:
        cases = [
            Setting(name, split.value, noise, rate, seed, data_dir, bool(directed))
            for rate in levels
            for seed in range(first_seed, first_seed + seeds)
        ]
        graph = cases[0].to_record()["graph"]
        graphs.add(graph)
        searched = {method: one for (place, method), one in found.items() if place == graph}
        units += plan(cases, wanted, configs[name], device.value, records, searched)
    if not report_only:
        refuse_untrainable(dataset, data_dir, split.value, first_seed, device.value, bool(directed))
        run_all(units, records, jobs, TrialProgress(len(units)))
    rows = [
        row
        for row in summarise(read_records(records))
        if row.graph in graphs and row.noise == noise and row.rate in levels and row.method in wanted
    ]
    for name in sorted({row.graph for row in rows}):
        _print_robustness(f"{name}, {noise}", [row for row in rows if row.graph == name])
    if figures is not None:
        from gdpnet.benchmark.figures import draw_curves

        print("figures: " + ", ".join(str(path) for path in draw_curves(rows, figures)))
    print_json(as_json, {"rows": [plain(asdict(row)) for row in rows]})


def refuse_untrainable(
    names: list[str], data_dir: Path | None, split: str, seed: int, device: str, directed: bool = False
) -> None:
    """Refuse a missing device, and a graph that no method can be trained on, before anything runs."""
    from gdpnet._core.device import pick_device
    from gdpnet.data.io.open import open_graph
    from gdpnet.training.data import cut_for_training

    pick_device(device)
    for name in names:
        graph = open_graph(name, data_dir=data_dir, directed=directed, split=split, seed=seed)
        cut_for_training(graph, seed)


def check_names(names: list[str]) -> None:
    """Refuse names that are neither datasets nor paths."""
    for name in names:
        check_name(name)


def _methods_of(text: str) -> list[str]:
    """Return the methods of an option; ``all`` stands for every baseline and the usual methods."""
    names = names_in(text, "--methods", "method")
    if "all" not in names:
        return names

    from gdpnet.benchmark.robustness import baseline_names

    named = (name for name in names if name != "all")
    return list(dict.fromkeys([*named, *baseline_names(), *USUAL_METHODS.split(", ")]))


def _print_robustness(title: str, rows: list[Row]) -> None:
    """Print the scores of one graph, best method under most noise first, and the effect on edges."""
    from gdpnet.benchmark.robustness import LINK_METRICS

    most = max(row.rate for row in rows)
    last = {row.method: row.mean for row in rows if row.rate == most and row.seeds}
    order = sorted({row.method for row in rows}, key=lambda name: (-last.get(name, 0.0), name))
    print_scores(f"{title}: micro-F1 on test", rows, order, lambda row: (row.mean, row.deviation))
    judged = sorted((row for row in rows if row.links), key=lambda row: (order.index(row.method), row.rate))
    if judged:
        cells = [(row.method, *row.link_cells) for row in judged]
        print_table(f"{title}: edges", ("method", "rate", *LINK_METRICS.values()), cells)
