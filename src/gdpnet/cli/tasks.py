"""The command tasks: compare methods for link prediction and clustering."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gdpnet.cli import options as opt
from gdpnet.cli.compare import FirstSeed, Methods, Noise, Rates, Seeds, check_names, rates_of
from gdpnet.cli.output import TrialProgress, print_scores
from gdpnet.config import read_config, task_config


def tasks(
    task: Annotated[
        Literal["links", "clusters"], typer.Argument(metavar="TASK", help="Link prediction or clustering.")
    ],
    dataset: opt.GraphNames,
    noise: Noise = "random-links",
    rates: Rates = "0,0.5,1.0",
    data_dir: opt.DataDir = None,
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
    base = read_config(config) if config is not None else task_config(task)
    settings = base.with_overrides(overrides or []).with_values({"task": {"kind": task}})

    from gdpnet._core.device import pick_device
    from gdpnet.benchmark import unsupervised
    from gdpnet.benchmark.cases import Setting, check_noise
    from gdpnet.benchmark.records import read_records
    from gdpnet.benchmark.sweep import run_all
    from gdpnet.data.io.open import open_graph

    known = unsupervised.known_methods(task)
    wanted = known if "all" in names else names
    unsupervised.check_methods(task, wanted)
    check_noise(noise, levels)
    pick_device(device)
    units = [
        unsupervised.Trial(
            task, Setting(name, "paper", noise, rate, seed, data_dir), method, settings, device
        )
        for name in dataset
        for seed in range(first_seed, first_seed + seeds)
        for rate in levels
        for method in wanted
    ]
    if not report_only:
        for name in dataset:
            unsupervised.check_servable(task, open_graph(name, data_dir=data_dir), settings)
        left = unsupervised.SWEEP.missing(units, records)
        run_all(left, records, jobs, TrialProgress(len(left)))
    rows = [
        row
        for row in unsupervised.summarise(read_records(records))
        if (row.task, row.noise) == (task, noise)
        and row.graph in dataset
        and row.rate in levels
        and row.method in wanted
    ]
    for name in dataset:
        some = [row for row in rows if row.graph == name]
        for key, measure in unsupervised.MEASURES[task].items():
            title = f"{name}, {task}, {noise}: {measure}"
            print_scores(title, some, known, partial(_measured, key))
    return {"rows": [asdict(row) for row in rows]}


def _measured(key: str, row: Any) -> tuple[float, float]:
    return row.mean[key], row.deviation[key]
