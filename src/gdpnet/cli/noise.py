"""The command that corrupts a graph on purpose: noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdpnet._core.device import pick_device
from gdpnet._core.files import check_new
from gdpnet.cli.app import app
from gdpnet.cli.inputs import open_named
from gdpnet.cli.options import (
    ColumnNames,
    DataDir,
    Device,
    DeviceName,
    Directed,
    GraphName,
    Json,
    Seed,
    SplitName,
    check_split,
    source_of,
)
from gdpnet.cli.output import print_graph, print_json, print_metrics
from gdpnet.data.noise.folder import count_changes, write_noisy
from gdpnet.data.noise.links import is_directed
from gdpnet.data.noise.registry import NOISES, check_kind, check_rate, corrupt_all
from gdpnet.errors import ConfigError


@app.command()
def noise(
    graph: GraphName,
    out: Annotated[Path, typer.Option("--out", help="new folder for the corrupted graph")],
    kinds: Annotated[
        list[str],
        typer.Option(
            "--kind",
            metavar="kind=rate",
            help=f"one kind of noise, may stand repeatedly; kinds: {', '.join(NOISES)}, prbcd, grbcd",
        ),
    ],
    seed: Seed = 0,
    device: DeviceName = Device.auto,
    split: SplitName = "paper",
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Corrupt a graph on purpose and write it, with a list of every change, to a folder that train reads."""
    from gdpnet.data.noise.adversarial import attacks

    source = source_of(data_dir, columns, directed)
    check_split(split)
    noises = NOISES | attacks(pick_device(device.value))
    steps = [_step(word) for word in kinds]
    for kind, rate in steps:
        check_kind(kind, noises)
        check_rate(kind, rate)
    check_new(out)
    loaded = open_named(graph, source, split, seed)
    print_graph(graph, loaded)
    noisy = corrupt_all(loaded, steps, seed, noises)
    about = {"graph": graph, "seed": seed, "kinds": [{"kind": kind, "rate": rate} for kind, rate in steps]}
    write_noisy(loaded, noisy, out, about)
    print_metrics(dict(count_changes(noisy)))
    one_way = is_directed(noisy.graph)
    print(f"corrupted graph: {out}" + ("; train on it with --directed" if one_way else ""))
    print(f"with what is known of its noise: {out / 'graph.npz'}; every change: {out / 'changes.parquet'}")
    print_json(as_json, about | {"out": str(out)} | count_changes(noisy))


def _step(word: str) -> tuple[str, float]:
    """Read a kind of noise and its rate."""
    kind, _, rate = word.partition("=")
    try:
        return kind, float(rate)
    except ValueError:
        raise ConfigError(f"--kind has the form kind=rate, found '{word}'") from None
