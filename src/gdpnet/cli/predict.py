"""Commands that read a trained model, and the list of datasets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from torch import Tensor

from gdpnet.cli.app import app
from gdpnet.cli.inputs import model_and_graph
from gdpnet.cli.options import (
    ColumnNames,
    DataDir,
    Device,
    DeviceName,
    Directed,
    EdgesAShard,
    GraphName,
    Json,
    NodeFile,
    NodeIds,
    OptionalGraph,
    OutFile,
    PairFile,
    RunPath,
    Shards,
    numbers_asked,
    source_of,
)
from gdpnet.cli.output import ShardProgress, print_graph, print_json, print_metrics, print_table
from gdpnet.config import shipped_config
from gdpnet.data.datasets.citation import DATASETS, is_present
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import edge_table
from gdpnet.data.io.tables import SUFFIXES, write_table
from gdpnet.data.link_split import read_ends
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import decided_edges, denoise_to, embed_to


@app.command()
def evaluate(
    run: RunPath,
    graph: OptionalGraph = None,
    split: Annotated[
        str, typer.Option(help="train, validation or test; of no account where no label was read")
    ] = "test",
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Score a trained model on a split of a graph, and describe the graph it would clean.

    Where the task is links, one link in twenty is hidden and foretold from the others: on the graph of training those
    that were held out for validation. Where it is clusters, all labelled nodes count.
    """
    from gdpnet.benchmark.evaluation import evaluate as evaluate_model

    if split not in ("train", "validation", "test"):
        raise ConfigError(f"--split must be train, validation or test, found '{split}'")
    model, loaded, name = model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    print_graph(name, loaded)
    metrics = evaluate_model(model, loaded, split)
    print_metrics(metrics)
    print_json(as_json, {"run": str(run), "graph": name} | metrics)


@app.command()
def embed(
    run: RunPath,
    graph: OptionalGraph = None,
    out: OutFile = Path("embeddings.parquet"),
    nodes: NodeIds = None,
    nodes_from: NodeFile = None,
    shards: Shards = False,
    edges_a_shard: EdgesAShard = None,
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Write a representation for every node of a graph, or for those named.

    Nodes need not have been there in training.
    """
    _check_out(out, shards)
    if shards and (nodes is not None or nodes_from is not None):
        raise ConfigError("--shards writes all nodes: leave --nodes and --nodes-from out")
    model, loaded, name = model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    if shards:
        said = embed_to(model, loaded, out, edges_a_shard=edges_a_shard, progress=ShardProgress())
        print(f"{said['nodes']:,} representations of width {said['width']} written to {out}")
        print_json(as_json, {"run": str(run), "graph": name, "out": str(out)} | said)
        return
    asked = numbers_asked(loaded, nodes, nodes_from)
    values = model.embed(loaded, asked)
    table = _node_columns(loaded, asked) | {f"h{number}": column for number, column in enumerate(values.T)}
    write_table(pa.table(table), out)
    print(f"{len(values):,} representations of width {values.shape[1]} written to {out}")
    print_json(as_json, {"run": str(run), "graph": name, "out": str(out), "nodes": len(values)})


@app.command()
def predict(
    run: RunPath,
    graph: OptionalGraph = None,
    out: OutFile = Path("predictions.parquet"),
    nodes: NodeIds = None,
    nodes_from: NodeFile = None,
    pairs: PairFile = None,
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Write the predicted class, labels or cluster of every node, or of those named, and each class's probability.

    Where the task is links: how likely each pair of a table is linked. Nodes need not have been there in training.
    """
    _check_suffix(out)
    if pairs is not None and (nodes is not None or nodes_from is not None):
        raise ConfigError("--pairs names pairs of nodes: leave --nodes and --nodes-from out")
    if pairs is not None and pairs.suffix not in SUFFIXES:
        raise ConfigError(f"--pairs must end in {' or '.join(SUFFIXES)}, found '{pairs.name}'")
    model, loaded, name = model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    if pairs is not None or model.config_.task.kind == "links":
        count = _foretell(model, loaded, pairs, out)
        print(f"{count:,} pairs written to {out}")
        print_json(as_json, {"run": str(run), "graph": name, "out": str(out), "pairs": count})
        return
    asked = numbers_asked(loaded, nodes, nodes_from)
    table = _node_columns(loaded, asked) | {"predicted": model.predict(loaded, asked)}
    if model.config_.task.kind != "clusters":
        chances = model.predict_proba(loaded, asked)
        table |= {f"p_{label}": column for label, column in zip(model.classes_, chances.T, strict=True)}
    write_table(pa.table(table), out)
    count = len(table["id"])
    print(f"{count:,} predictions written to {out}")
    print_json(as_json, {"run": str(run), "graph": name, "out": str(out), "nodes": count})


@app.command()
def denoise(
    run: RunPath,
    graph: OptionalGraph = None,
    out: OutFile = Path("edges.parquet"),
    threshold: Annotated[
        float | None,
        typer.Option(help="least keep probability of a kept edge (default: the one chosen on validation)"),
    ] = None,
    all_edges: Annotated[
        bool, typer.Option("--all", help="write every edge, with a column that says whether it is kept")
    ] = False,
    one_way: Annotated[
        bool, typer.Option("--one-way", help="decide on each direction of a link by itself")
    ] = False,
    shards: Shards = False,
    edges_a_shard: EdgesAShard = None,
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Write the cleaned graph as an edge list with a keep probability for every edge."""
    from gdpnet.benchmark.evaluation import describe_cleaning

    _check_out(out, shards)
    model, loaded, name = model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    about = {"run": str(run), "graph": name, "out": str(out)}
    if shards:
        options: dict[str, Any] = {"threshold": threshold, "symmetric": not one_way, "all_edges": all_edges}
        said = denoise_to(
            model, loaded, out, **options, edges_a_shard=edges_a_shard, progress=ShardProgress()
        )
        print_metrics(said)
        print_json(as_json, about | said)
        return
    cleaned = model.denoise(loaded, threshold=threshold, symmetric=not one_way)
    weight = None
    if loaded.edge_weight is not None:
        weight = np.zeros(loaded.num_edges, dtype=np.float32)
        weight[cleaned.kept] = cleaned.graph.edge_weight
    table = decided_edges(
        edge_table(loaded), cleaned.keep_probability, cleaned.kept, weight, all_edges=all_edges
    )
    write_table(table, out)
    metrics = describe_cleaning(loaded, cleaned)
    print(
        f"{int(cleaned.kept.sum()):,} of {loaded.num_edges:,} directed edges kept; {len(table):,} written to {out}"
    )
    print(cleaned.reason)
    print_metrics(metrics)
    said = {"threshold": cleaned.threshold, "reason": cleaned.reason}
    print_json(as_json, about | said | metrics)


@app.command()
def explain(
    run: RunPath,
    graph: GraphName,
    node: Annotated[str, typer.Option("--node", help="id of the node")],
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Say how a node's neighbours were decided on, in order, and what each contributed."""
    model, loaded, _ = model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    story = model.explain(loaded, node)
    said = {
        "links": "its partners are believed to be in community",
        "clusters": f"in cluster '{story.cluster}', held for one of community",
    }.get(model.config_.task.kind, "predicted")
    print(
        f"node {story.node}: {said} '{story.predicted}' with probability {story.probability:.3f} "
        f"({story.probability_alone:.3f} from its own features)"
    )
    far = any(one.distance > 1 for one in story.decisions)
    rows = [
        (
            one.neighbour,
            *([one.distance] if far else []),
            one.step,
            one.draw_probability,
            one.keep_probability,
            "kept" if one.kept else ("dropped" if one.step is not None else "not reached"),
            f"{one.contribution:+.3f}" if one.step is not None else "-",
            *(() if one.weight is None else (one.weight,)),
        )
        for one in story.decisions
    ]
    header = ["neighbour", *(["hops"] if far else [])]
    header += ["step", "drawn with", "keep probability", "action", f"adds to '{story.predicted}'"]
    header += [] if loaded.edge_weight is None else ["weight"]
    print_table("decisions in order", header, rows)
    if story.ended_early:
        print("the policy ended the episode before all neighbours were reached")
    print_json(as_json, dataclasses.asdict(story))


@app.command()
def datasets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the graphs that are known by name."""
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "nodes": known.nodes,
            "links": known.links,
            "features": known.features,
            "classes": known.classes,
            "train": known.train,
            "discount": shipped_config(name).ppo.discount,
            "here": is_present(name, data_dir),
        }
        for name, known in DATASETS.items()
    ]
    cells = [
        [*(f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else v for v in row.values())]
        for row in rows
    ]
    for row in cells:
        row[-2], row[-1] = f"{row[-2]:g}", "yes" if row[-1] else "no"
    print_table(
        "datasets", ("name", "nodes", "links", "features", "classes", "training", "discount", "here"), cells
    )
    print(
        "and 'synthetic', a generated graph whose noise is known; validation has 500 and test 1,000 nodes in each"
    )
    print_json(as_json, {"datasets": rows})


def _foretell(model: GDPNet, graph: Graph, pairs: Path | None, out: Path) -> int:
    """Write how likely each pair of a table is linked; return their number."""
    if pairs is None:
        raise ConfigError(
            "a model of task links foretells links: name a table of pairs of nodes with --pairs"
        )
    ends = read_ends(pairs, graph)
    chance = model.predict_links(graph, ends)
    ids = graph.node_ids[ends.numpy()]
    ids = ids.astype(str) if ids.dtype == np.object_ else ids
    write_table(pa.table({"source": ids[0], "target": ids[1], "probability": chance}), out)
    return len(chance)


def _node_columns(graph: Graph, asked: Tensor | None) -> dict[str, Any]:
    ids = graph.node_ids if asked is None else graph.node_ids[asked.numpy()]
    return {"id": ids.astype(str) if ids.dtype == np.object_ else ids}


def _check_out(path: Path, shards: bool) -> None:
    """Refuse a file or folder that could not be written before anything is computed."""
    if shards and path.suffix in SUFFIXES:
        raise ConfigError(f"with --shards --out must be a folder, found the file name '{path.name}'")
    if not shards:
        _check_suffix(path)


def _check_suffix(path: Path) -> None:
    """Refuse a file that is neither CSV nor Parquet."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--out must end in {' or '.join(SUFFIXES)}, found '{path.name}'")
