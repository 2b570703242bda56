"""The command that compares methods where no label is read: tasks."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gdpnet.cli.app import app
from gdpnet.cli.compare import rates_of
from gdpnet.cli.options import ConfigFile, DataDir, Device, DeviceName, Json, Overrides
from gdpnet.cli.output import TrialProgress, print_json, print_table
from gdpnet.config import read_config, task_config
from gdpnet.errors import ConfigError

if TYPE_CHECKING:
    from gdpnet.benchmark.unsupervised import Row


class TaskName(StrEnum):
    """Tasks that read no label."""

    links = "links"
    clusters = "clusters"


@app.command()
def tasks(
    task: Annotated[TaskName, typer.Argument(help="foretell links, or find clusters")],
    dataset: Annotated[list[str], typer.Option("--dataset", help="a dataset or a path; may be given again")],
    rates: Annotated[str, typer.Option(help="rates of the noise, parted by commas")] = "0,0.5,1.0",
    noise: Annotated[
        str, typer.Option(help="kind of noise, as `gdpnet noise` names it; it goes into training links alone")
    ] = "random-links",
    methods: Annotated[str, typer.Option(help="methods, parted by commas; `all` for every one")] = "all",
    seeds: Annotated[int, typer.Option(help="number of seeds", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="the first of these seeds", min=0)] = 0,
    records: Annotated[Path, typer.Option(help="file of records to append to")] = Path("results/tasks.jsonl"),
    jobs: Annotated[int, typer.Option(help="methods that run side by side", min=1)] = 1,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="run nothing: tables from the records there are")
    ] = False,
    config: ConfigFile = None,
    overrides: Overrides = None,
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Foretell links, or find clusters, with GDPNet and other methods, on clean and corrupted graphs.

    Every result is a record; what the file holds already is not run again, so that a stopped run goes on.
    """
    from gdpnet._core.device import pick_device
    from gdpnet._core.files import plain
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.parallel import do_all
    from gdpnet.benchmark.records import read_records
    from gdpnet.benchmark.unsupervised import Unit, check_methods, check_servable, plan, run_unit, summarise
    from gdpnet.data.io.open import open_graph

    wanted, levels = _methods_of(task.value, methods), rates_of(rates)
    check_methods(task.value, wanted)
    check_noise(noise, levels)
    pick_device(device.value)
    base = read_config(config) if config is not None else task_config(task.value)
    settings = base.with_overrides(overrides or []).with_values({"task": {"kind": task.value}})
    units = [
        Unit(task.value, Setting(name, "paper", noise, rate, seed, data_dir), method, settings, device.value)
        for name in dataset
        for seed in range(first_seed, first_seed + seeds)
        for rate in levels
        for method in wanted
    ]
    if not report_only:
        for name in dataset:
            check_servable(task.value, open_graph(name, data_dir=data_dir), settings)
        left = plan(units, records)
        do_all(run_unit, left, records, jobs, TrialProgress(len(left)))
    rows = [
        row
        for row in summarise(read_records(records))
        if (row.task, row.noise) == (task.value, noise)
        and row.graph in dataset
        and row.rate in levels
        and row.method in wanted
    ]
    for name in dataset:
        _print_rows(task.value, name, noise, [row for row in rows if row.graph == name])
    print_json(as_json, {"rows": [plain(asdict(row)) for row in rows]})


def _methods_of(task: str, text: str) -> list[str]:
    from gdpnet.benchmark.unsupervised import known_methods

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("--methods must name at least one method")
    return known_methods(task) if "all" in names else list(dict.fromkeys(names))


def _print_rows(task: str, graph: str, noise: str, rows: list[Row]) -> None:
    """Print one table a measure: a line a method, a column a rate, the best of each column marked."""
    from gdpnet.benchmark.unsupervised import MEASURES, known_methods

    rates = sorted({row.rate for row in rows})
    cells = {(row.method, row.rate): row for row in rows}
    for measure, called in MEASURES[task].items():
        means = {place: row.mean[measure] for place, row in cells.items() if row.seeds}

        def cell(method: str, rate: float, measure: str = measure, means: dict = means) -> str:
            row = cells.get((method, rate))
            if row is None or row.seeds == 0:
                return "" if row is None else "failed"
            best = means[(method, rate)] == max(means[place] for place in means if place[1] == rate)
            failed = f" ({row.failed} failed)" if row.failed else ""
            return f"{row.mean[measure]:.3f} ± {row.deviation[measure]:.3f}{'*' if best else ''}{failed}"

        lines = [
            (name, *(cell(name, rate) for rate in rates))
            for name in known_methods(task)
            if any(row.method == name for row in rows)
        ]
        title = f"{graph}, {task}, {noise}: {called} (* best)"
        print_table(title, ("method", *(f"rate {rate:g}" for rate in rates)), lines)
