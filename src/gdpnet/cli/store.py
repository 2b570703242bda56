"""Commands for graphs larger than memory: generate one, or store any graph as mapped arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdpnet._core.files import check_new
from gdpnet.cli.app import app
from gdpnet.cli.inputs import open_named
from gdpnet.cli.options import (
    ColumnNames,
    DataDir,
    Directed,
    GraphName,
    Json,
    Seed,
    SplitName,
    check_split,
    source_of,
)
from gdpnet.cli.output import print_graph, print_json
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.io.mapped import open_store
from gdpnet.data.io.store import write_store

StoreFolder = Annotated[Path, typer.Option("--out", help="new folder for the store")]


@app.command()
def generate(
    out: StoreFolder,
    nodes: Annotated[int, typer.Option(help="number of nodes")] = GeneratedSettings.nodes,
    edges: Annotated[
        int, typer.Option(help="number of directed edges; a link is there both ways and counts twice")
    ] = GeneratedSettings.edges,
    features: Annotated[int, typer.Option(help="width of a feature row")] = GeneratedSettings.features,
    classes: Annotated[int, typer.Option(help="number of classes, which are communities too")] = (
        GeneratedSettings.classes
    ),
    noise: Annotated[float, typer.Option(help="share of the links that are spurious")] = (
        GeneratedSettings.noise
    ),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Generate a large graph with heavy-tailed degrees and known spurious links, streamed to a store."""
    settings = GeneratedSettings(nodes, edges, features, classes, noise)
    check_new(out)
    generate_store(settings, seed, out)
    print_graph(str(out), open_store(out))
    print_json(as_json, {"out": str(out), "nodes": nodes, "edges": edges // 2 * 2, "seed": seed})


@app.command()
def store(
    graph: GraphName,
    out: StoreFolder,
    seed: Seed = 0,
    split: SplitName = "paper",
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Write any graph as a folder of plain arrays, which every command takes as a graph and maps, not reads."""
    check_split(split)
    check_new(out)
    loaded = open_named(graph, source_of(data_dir, columns, directed), split, seed)
    print_graph(graph, loaded)
    write_store(loaded, out)
    print(f"store: {out}")
    print_json(
        as_json,
        {"graph": graph, "out": str(out), "nodes": loaded.num_nodes, "edges": loaded.num_edges},
    )
