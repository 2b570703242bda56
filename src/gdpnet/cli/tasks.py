"""The command tasks: compare methods for link prediction and clustering."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gdpnet.cli.compare import FirstSeed, Methods, Noise, Rates, Seeds, check_names, rates_of
from gdpnet.cli.options import (
    ConfigFile,
    DataDir,
    Device,
    DeviceName,
    GraphNames,
    Jobs,
    Json,
    Overrides,
    Records,
    ReportOnly,
    names_in,
)
from gdpnet.cli.output import TrialProgress, print_json, print_scores
from gdpnet.config import read_config, task_config


class UnlabelledTask(StrEnum):
    """Tasks that use no labels."""

    links = "links"
    clusters = "clusters"


def tasks(
    task: Annotated[UnlabelledTask, typer.Argument(metavar="TASK", help="Link prediction or clustering.")],
    dataset: GraphNames,
    noise: Noise = "random-links",
    rates: Rates = "0,0.5,1.0",
    data_dir: DataDir = None,
    methods: Methods = "all",
    config: ConfigFile = None,
    overrides: Overrides = None,
    records: Records = Path("results/tasks.jsonl"),
    report_only: ReportOnly = False,
    as_json: Json = False,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    device: DeviceName = Device.auto,
) -> None:
    """Compare GDPNet with other methods for link prediction or clustering, under increasing noise.

    Noise is added to training edges only. Each result is appended to --records. Results that the file holds are not
    computed again, so an interrupted comparison continues when run again.
    """
    names, levels = names_in(methods, "--methods", "method"), rates_of(rates)
    if not report_only:
        check_names(dataset)
    base = read_config(config) if config is not None else task_config(task.value)
    settings = base.with_overrides(overrides or []).with_values({"task": {"kind": task.value}})

    from gdpnet._core.device import pick_device
    from gdpnet._core.files import plain
    from gdpnet.benchmark import unsupervised
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.records import read_records
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.data.io.open import open_graph

    known = unsupervised.known_methods(task.value)
    wanted = known if "all" in names else names
    unsupervised.check_methods(task.value, wanted)
    check_noise(noise, levels)
    pick_device(device.value)
    units = [
        unsupervised.Trial(
            task.value, Setting(name, "paper", noise, rate, seed, data_dir), method, settings, device.value
        )
        for name in dataset
        for seed in range(first_seed, first_seed + seeds)
        for rate in levels
        for method in wanted
    ]
    if not report_only:
        for name in dataset:
            unsupervised.check_servable(task.value, open_graph(name, data_dir=data_dir), settings)
        left = unsupervised.SWEEP.missing(units, records)
        run_all(left, records, jobs, TrialProgress(len(left)))
    rows = [
        row
        for row in unsupervised.summarise(read_records(records))
        if (row.task, row.noise) == (task.value, noise)
        and row.graph in dataset
        and row.rate in levels
        and row.method in wanted
    ]
    for name in dataset:
        some = [row for row in rows if row.graph == name]
        for key, measure in unsupervised.MEASURES[task.value].items():
            title = f"{name}, {task.value}, {noise}: {measure}"
            print_scores(title, some, known, partial(_measured, key))
    print_json(as_json, {"rows": [plain(asdict(row)) for row in rows]})


def _measured(key: str, row: Any) -> tuple[float, float]:
    return row.mean[key], row.deviation[key]
