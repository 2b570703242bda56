"""Commands that compare methods: robustness, and tune, which comes before it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gdpnet.cli.app import app
from gdpnet.cli.options import (
    ConfigFile,
    DataDir,
    Device,
    DeviceName,
    Directed,
    Json,
    Overrides,
    SplitName,
    check_split,
    config_of,
)
from gdpnet.cli.output import TrialProgress, print_json, print_table
from gdpnet.errors import ConfigError

if TYPE_CHECKING:
    from gdpnet.benchmark.robustness import Row

USUAL_METHODS = (
    "gdpnet,gdpnet>gcn,gdpnet>gat,gdpnet>graphsage,gcn,gat,graphsage,mlp,supervised-gcn,structural-gcn"
)


@app.command()
def robustness(
    dataset: Annotated[list[str], typer.Option("--dataset", help="a dataset or a path; may be given again")],
    noise: Annotated[
        str,
        typer.Option(
            help="kind of noise, as `gdpnet noise` names it; others may come before it at rates that stay, as in "
            "swapped-features:0.5+random-links"
        ),
    ] = "random-links",
    rates: Annotated[str, typer.Option(help="rates of the noise, parted by commas")] = "0,0.25,0.5,1.0",
    methods: Annotated[
        str, typer.Option(help="methods, parted by commas; `all` for every defence")
    ] = USUAL_METHODS,
    seeds: Annotated[int, typer.Option(help="number of seeds", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="the first of these seeds", min=0)] = 0,
    records: Annotated[Path, typer.Option(help="file of records to append to")] = Path(
        "results/robustness.jsonl"
    ),
    tuned: Annotated[
        Path,
        typer.Option(
            help="settings of the defences, as `gdpnet tune` found them; their own where it has none"
        ),
    ] = Path("results/settings.jsonl"),
    figures: Annotated[Path | None, typer.Option(help="folder to draw the curves in")] = None,
    jobs: Annotated[int, typer.Option(help="methods that run side by side", min=1)] = 1,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="run nothing: tables and curves from the records there are")
    ] = False,
    config: ConfigFile = None,
    overrides: Overrides = None,
    split: SplitName = "paper",
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Train GDPNet and every defence on a graph that is corrupted more and more; compare them.

    Every result is a record; what the file holds already is not run again, so that a stopped run goes on.
    """
    from gdpnet._core.files import plain
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.records import read_records
    from gdpnet.benchmark.robustness import check_methods, plan, run_units, summarise
    from gdpnet.benchmark.tuning import searched_settings

    check_split(split)
    wanted, levels = _methods_of(methods), rates_of(rates)
    check_methods(wanted)
    check_noise(noise, levels)
    units, graphs, found = [], set(), searched_settings(tuned)
    for name in dataset:
        settings = [
            Setting(name, split, noise, rate, seed, data_dir, bool(directed))
            for rate in levels
            for seed in range(first_seed, first_seed + seeds)
        ]
        graph = settings[0].to_record()["graph"]
        graphs.add(graph)
        searched = {method: one for (place, method), one in found.items() if place == graph}
        units += plan(settings, wanted, config_of(name, config, overrides), device.value, records, searched)
    if not report_only:
        refuse_untrainable(dataset, data_dir, split, first_seed, device.value, bool(directed))
        run_units(units, records, jobs, TrialProgress(len(units)))
    rows = [
        row
        for row in summarise(read_records(records))
        if row.graph in graphs and row.noise == noise and row.rate in levels
    ]
    rows = [row for row in rows if row.method in wanted]
    for name in sorted({row.graph for row in rows}):
        _print_rows(name, noise, [row for row in rows if row.graph == name])
    if figures is not None:
        from gdpnet.benchmark.curves import draw_curves

        print("pictures: " + ", ".join(str(path) for path in draw_curves(rows, figures)))
    print_json(as_json, {"rows": [plain(row.to_dict()) for row in rows]})


@app.command()
def tune(
    dataset: Annotated[list[str], typer.Option("--dataset", help="a dataset or a path; may be given again")],
    noise: Annotated[str, typer.Option(help="kind of noise, as `gdpnet noise` names it")] = "random-links",
    rates: Annotated[
        str,
        typer.Option(help="rates of the noise, parted by commas; a candidate's score is the mean over them"),
    ] = "0,1.0",
    methods: Annotated[str, typer.Option(help="methods, parted by commas; `all` for every defence")] = "all",
    seed: Annotated[int, typer.Option(help="seed of the noise and of the training", min=0)] = 0,
    records: Annotated[Path, typer.Option(help="file of records to append to")] = Path(
        "results/settings.jsonl"
    ),
    jobs: Annotated[int, typer.Option(help="searches that run side by side", min=1)] = 1,
    split: SplitName = "paper",
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Search the settings of every defence on validation nodes, twelve candidates each, before they are compared.

    Networks on the graph that GDPNet cleans are searched there. Test nodes are not scored. `gdpnet robustness` reads
    what was found. What the file holds is not searched again.
    """
    from gdpnet.benchmark.ablations import VARIANTS
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.parallel import do_all
    from gdpnet.benchmark.tuning import check_tunable, run_search, searched_settings, searches_left

    check_split(split)
    wanted, levels = _methods_of(methods), rates_of(rates)
    wanted = [name for name in wanted if name not in VARIANTS]  # GDPNet has its settings in TOML files
    check_tunable(wanted)
    check_noise(noise, levels)
    refuse_untrainable(dataset, data_dir, split, seed, device.value, bool(directed))
    settings = {
        name: tuple(Setting(name, split, noise, rate, seed, data_dir, bool(directed)) for rate in levels)
        for name in dataset
    }
    asked = [(some, config_of(name, None, None)) for name, some in settings.items()]
    left = searches_left(asked, wanted, device.value, records)
    do_all(run_search, left, records, jobs, TrialProgress(len(left)))
    graphs = {some[0].to_record()["graph"] for some in settings.values()}
    found = {key: one for key, one in searched_settings(records).items() if key[0] in graphs}
    columns = ("graph", "method", "dropout", "weight decay", "learning rate", "width", "layers")
    print_table(
        "settings found on validation nodes",
        columns,
        [
            (*key, *(f"{getattr(one, name.replace(' ', '_')):g}" for name in columns[2:]))
            for key, one in sorted(found.items())
        ],
    )
    print_json(as_json, {"settings": [{"graph": g, "method": m, **asdict(s)} for (g, m), s in found.items()]})


def refuse_untrainable(
    names: list[str], data_dir: Path | None, split: str, seed: int, device: str, directed: bool = False
) -> None:
    """Refuse a device that is not there, and a graph that nothing can be trained on, before anything runs."""
    from gdpnet._core.device import pick_device
    from gdpnet.data.io.open import open_graph
    from gdpnet.training.data import cut_for_training

    pick_device(device)
    for name in names:
        graph = open_graph(name, data_dir=data_dir, directed=directed, split=split, seed=seed)
        cut_for_training(graph, seed)


def _methods_of(text: str) -> list[str]:
    from gdpnet.benchmark.baselines.methods import METHODS

    names = [name.strip() for name in text.split(",") if name.strip()]
    if "all" in names:
        names = [*(name for name in names if name != "all"), *METHODS, *USUAL_METHODS.split(",")]
    if not names:
        raise ConfigError("--methods must name at least one method")
    return list(dict.fromkeys(names))


def rates_of(text: str) -> list[float]:
    """Read the rates of a noise."""
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--rates must be numbers parted by commas, found '{text}'") from error
    return list(dict.fromkeys(rates))


def _print_rows(graph: str, noise: str, rows: list[Row]) -> None:
    """Print one table a graph: a line a method, a column a rate, the best of each column marked."""
    rates = sorted({row.rate for row in rows})
    cells = {(row.method, row.rate): row for row in rows}
    means = {place: row.mean for place, row in cells.items() if row.seeds}
    best = {rate: max((means[place] for place in means if place[1] == rate), default=0.0) for rate in rates}
    order = sorted({row.method for row in rows}, key=lambda name: (-means.get((name, rates[-1]), 0.0), name))

    def cell(method: str, rate: float) -> str:
        row = cells.get((method, rate))
        if row is None or row.seeds == 0:
            return "failed" if row is not None else ""
        mark = "*" if row.mean == best[rate] else ""
        failed = f" ({row.failed} failed)" if row.failed else ""
        return f"{row.mean:.3f} ± {row.deviation:.3f}{mark}{failed}"

    title = f"{graph}, {noise}: micro-F1 on test (* best)"
    columns = ("method", *(f"rate {rate:g}" for rate in rates))
    print_table(title, columns, [(name, *(cell(name, rate) for rate in rates)) for name in order])
    _print_links(
        graph, noise, [cells[place] for name in order for rate in rates if (place := (name, rate)) in cells]
    )


def _print_links(graph: str, noise: str, rows: list[Row]) -> None:
    """Print what became of the links, for the methods that judge them."""
    from gdpnet.benchmark.robustness import LINK_METRICS

    judged = [row for row in rows if row.links]
    if judged:
        print_table(
            f"{graph}, {noise}: the links",
            ("method", "rate", *LINK_METRICS.values()),
            [(row.method, *row.link_cells) for row in judged],
        )
