"""Commands that use a trained model: evaluate, predict, embed, denoise and explain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from gdpnet._core.files import Place, disk
from gdpnet._core.words import counted
from gdpnet.cli import options as opt
from gdpnet.cli.describe import print_metrics
from gdpnet.cli.engines import check_options, engine_options
from gdpnet.cli.output import print_graph
from gdpnet.cli.progress import ShardProgress, doing
from gdpnet.cli.replacing import (
    check_not_read,
    check_table,
    is_cleaned,
    is_embedding,
    is_explanation,
    is_prediction,
)
from gdpnet.errors import ConfigError

_PARTS = ("train", "validation", "test")


def _check_part(text: str) -> str:
    """Refuse what is neither a part of a split nor three shares."""
    if text not in _PARTS and not opt.is_shares(text):
        raise ConfigError(f"--split must be {', '.join(_PARTS)} or shares such as 60/20/20, found '{text}'")
    return text


def evaluate(
    run: opt.RunPath,
    graph: opt.OptionalGraph = None,
    *,
    split: Annotated[
        str,
        opt.data(
            "--split PART",
            "Nodes to score on: train, validation or test, or the test nodes of shares such as 60/20/20 (ignored for "
            "tasks without labels).",
            callback=_check_part,
        ),
    ] = "test",
    source: opt.GraphSource,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Score a trained model on a graph, and describe the graph that it cleans.

    Link prediction is scored on 5 % of the edges, hidden for it; on the training graph these are the validation
    edges. Clusters are scored on all labelled nodes.
    """
    from gdpnet.benchmark.evaluation import evaluate as evaluate_model
    from gdpnet.cli.runs import model_and_graph

    shares, part = (split, "test") if opt.is_shares(split) else (None, split)
    model, loaded, name = model_and_graph(run, graph, device, source, shares, scored=True)
    print_graph(name, loaded)
    with doing("scoring the model"):
        metrics = evaluate_model(model.predictor(loaded), part)
    print_metrics(metrics)
    return {"run": str(run), "graph": name} | metrics


def predict(
    run: opt.RunPath,
    graph: opt.OptionalGraph = None,
    *,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    pairs: Annotated[
        Path | None,
        opt.data(
            "--pairs FILE",
            "CSV, TSV or Parquet table of node pairs, with columns source and target (link prediction only).",
        ),
    ] = None,
    out: opt.ShardedOut = Path("predictions.parquet"),
    force: opt.Force = False,
    nodes: opt.NodeIds = None,
    nodes_from: opt.NodeFile = None,
    as_served: opt.AsServed = False,
    shards: opt.Shards = False,
    edges_per_shard: opt.EdgesPerShard = None,
    workers: opt.Workers = None,
    ray: opt.RayAddress = None,
    blocks: opt.SomeBlocks = None,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Write the predicted class, labels or cluster of each node, and the probability of each class.

    For regression, write the predicted number, and the 10 % and 90 % quantiles between which it is expected.

    For link prediction, write the probability of an edge for each pair in --pairs. Nodes may be new to the model.
    """
    _check_all_nodes(shards, nodes, nodes_from)
    how = (False, workers, ray, blocks)
    check_options(shards, *how)
    _check_out(out, shards, is_prediction, force, pairs, nodes_from)
    if pairs is not None:
        if shards:
            raise ConfigError("--shards writes predictions of nodes: leave --pairs out")
        opt.check_table_file(pairs, "--pairs", opt.READ_SUFFIXES)
        if nodes is not None or nodes_from is not None:
            raise ConfigError("--pairs names pairs of nodes: leave --nodes and --nodes-from out")
    _check_named(as_served, nodes, nodes_from)

    from gdpnet.cli.runs import model_and_graph, node_numbers
    from gdpnet.cli.tables import predicted_columns, write_nodes, write_pairs

    model, loaded, name = model_and_graph(run, graph, device, source, split)
    _check_graph(out, shards, name, force)
    about = {"run": str(run), "graph": name, "out": str(out)}
    if shards:
        from gdpnet.inference.streaming import predict_to

        options: dict[str, Any] = {"edges_per_shard": edges_per_shard, "force": force}
        with ShardProgress() as progress, engine_options(*how, model.device_) as engine:
            written = predict_to(model.trained_, loaded, out, **options, **engine, progress=progress)
        if "unfinished" in written:
            return about | _say_unfinished(written)
        print(f"{counted(written['nodes'], 'prediction')} written to {out}")
        return about | written
    if pairs is not None or model.config_.task.kind == "links":
        count = write_pairs(model, loaded, pairs, out)
        print(f"{counted(count, 'pair')} written to {out}")
        return about | {"pairs": count}
    asked = node_numbers(loaded, nodes, nodes_from)
    with doing("predicting"):
        table = predicted_columns(model, loaded, asked, as_served=as_served)
    count = write_nodes(loaded, asked, table, out)
    print(f"{counted(count, 'prediction')} written to {out}")
    return about | {"nodes": count}


def embed(
    run: opt.RunPath,
    graph: opt.OptionalGraph = None,
    *,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    out: opt.ShardedOut = Path("embeddings.parquet"),
    force: opt.Force = False,
    nodes: opt.NodeIds = None,
    nodes_from: opt.NodeFile = None,
    as_served: opt.AsServed = False,
    shards: opt.Shards = False,
    edges_per_shard: opt.EdgesPerShard = None,
    low_memory: opt.LowMemory = False,
    workers: opt.Workers = None,
    ray: opt.RayAddress = None,
    blocks: opt.SomeBlocks = None,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Write the embedding of each node. Nodes may be new to the model."""
    _check_all_nodes(shards, nodes, nodes_from)
    how = (low_memory, workers, ray, blocks)
    check_options(shards, *how)
    _check_out(out, shards, is_embedding, force, nodes_from)
    _check_named(as_served, nodes, nodes_from)

    from gdpnet.cli.runs import model_and_graph, node_numbers
    from gdpnet.cli.tables import embedded_rows, write_nodes
    from gdpnet.inference.streaming import embed_to

    model, loaded, name = model_and_graph(run, graph, device, source, split)
    _check_graph(out, shards, name, force)
    about = {"run": str(run), "graph": name, "out": str(out)}
    if shards:
        options: dict[str, Any] = {"edges_per_shard": edges_per_shard, "force": force}
        with ShardProgress() as progress, engine_options(*how, model.device_) as engine:
            written = embed_to(model.trained_, loaded, out, **options, **engine, progress=progress)
        if "unfinished" in written:
            return about | _say_unfinished(written)
        count, width = written["nodes"], written["width"]
    else:
        asked = node_numbers(loaded, nodes, nodes_from)
        with doing("embedding"):
            values = embedded_rows(model, loaded, asked, as_served=as_served)
        width = values.shape[1]
        count = write_nodes(
            loaded, asked, {f"h{place}": column for place, column in enumerate(values.T)}, out
        )
        written = {"nodes": count}
    print(f"{counted(count, 'embedding')} of width {width} written to {out}")
    return about | written


def denoise(
    run: opt.RunPath,
    graph: opt.OptionalGraph = None,
    *,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    threshold: Annotated[
        float | None,
        opt.output(
            "--threshold P",
            "Smallest keep probability of a kept edge, from 0 to 1.",
            show_default="chosen on validation nodes in training",
        ),
    ] = None,
    one_way: Annotated[
        bool, opt.flag(opt.OUTPUT, "--one-way", "Decide on the two directions of an edge separately.")
    ] = False,
    all_edges: Annotated[
        bool, opt.flag(opt.OUTPUT, "--all", "Write all edges, with a column that says which are kept.")
    ] = False,
    out: opt.ShardedOut = Path("edges.parquet"),
    force: opt.Force = False,
    nodes: opt.NodeIds = None,
    nodes_from: opt.NodeFile = None,
    shards: opt.Shards = False,
    edges_per_shard: opt.EdgesPerShard = None,
    low_memory: opt.LowMemory = False,
    workers: opt.Workers = None,
    ray: opt.RayAddress = None,
    blocks: opt.SomeBlocks = None,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Write the cleaned graph as an edge list with the keep probability of each edge.

    With --nodes or --nodes-from, write only the edges to these nodes, computed from their surroundings alone.
    """
    how = (low_memory, workers, ray, blocks)
    check_options(shards, *how)
    _check_out(out, shards, is_cleaned, force, nodes_from)
    named = nodes is not None or nodes_from is not None
    if named and (shards or one_way):
        raise ConfigError(
            "--nodes and --nodes-from write the edges of some nodes: leave --shards and --one-way out"
        )

    from gdpnet.cli.runs import model_and_graph, node_numbers
    from gdpnet.cli.tables import write_edges, write_edges_of
    from gdpnet.inference.streaming import denoise_to

    model, loaded, name = model_and_graph(run, graph, device, source, split)
    _check_graph(out, shards, name, force)
    about = {"run": str(run), "graph": name, "out": str(out)}
    asked = node_numbers(loaded, nodes, nodes_from)
    if asked is not None:
        return about | write_edges_of(model, loaded, asked, out, threshold, all_edges=all_edges)
    options: dict[str, Any] = {"threshold": threshold, "symmetric": not one_way, "all_edges": all_edges}
    if shards:
        options |= {"edges_per_shard": edges_per_shard, "force": force}
        with ShardProgress() as progress, engine_options(*how, model.device_) as engine:
            metrics = denoise_to(model.trained_, loaded, out, **options, **engine, progress=progress)
        if "unfinished" in metrics:
            return about | _say_unfinished(metrics)
    else:
        chosen, metrics = write_edges(model, loaded, out, **options)
        about |= chosen
    print_metrics(metrics)
    return about | metrics


def explain(
    run: opt.RunPath,
    graph: opt.OptionalGraph = None,
    *,
    node: Annotated[str | None, opt.data("--node ID", "Id of the node to explain on the screen.")] = None,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    out: Annotated[
        Path | None,
        opt.output("--out FILE", "CSV or Parquet file to write, with one row per node and neighbour."),
    ] = None,
    force: opt.Force = False,
    nodes: opt.NodeIds = None,
    nodes_from: opt.NodeFile = None,
    as_served: opt.AsServed = False,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Explain the prediction of a node: its neighbours, whether their edges are kept, and what each one adds.

    With --out, write the explanations of many nodes to a table, all nodes by default. A row without a neighbour is
    the node alone: the contributions of a node's rows add up to what is predicted.
    """
    if (node is None) == (out is None):
        raise ConfigError(
            "explain needs either --node, or --out with a file for the explanations of many nodes"
        )
    if out is None and (nodes is not None or nodes_from is not None):
        raise ConfigError("--nodes and --nodes-from name the nodes of --out: name one node with --node")

    from gdpnet.cli.explanations import explain_some, print_explanation, write_explanations
    from gdpnet.cli.runs import model_and_graph, node_numbers

    if out is not None:
        _check_named(as_served, nodes, nodes_from)
    if out is not None:
        _check_out(out, False, is_explanation, force, nodes_from)
    model, loaded, name = model_and_graph(run, graph, device, source, split)
    if out is not None:
        check_not_read(out, name, force)
    if out is None:
        with doing("explaining"):
            number = loaded.numbers_of([str(node)])
            found = next(explain_some(model, loaded, number, as_served=as_served))
        print_explanation(found)
        return found.to_dict()
    asked = node_numbers(loaded, nodes, nodes_from)
    with doing("explaining"):
        count, rows = write_explanations(explain_some(model, loaded, asked, as_served=as_served), out)
    print(f"explanations of {count:,} nodes written to {out}, in {rows:,} rows")
    return {"run": str(run), "graph": name, "out": str(out), "nodes": count, "rows": rows}


def _check_named(as_served: bool, nodes: str | None, nodes_from: Path | None) -> None:
    """Refuse to compute all nodes from their surroundings, which would take longer than the whole graph."""
    if as_served and nodes is None and nodes_from is None:
        raise ConfigError("--as-served needs the nodes to compute: name them with --nodes or --nodes-from")


def _check_out(
    path: Place, shards: bool, is_ours: Callable[[tuple[str, ...]], bool], force: bool, *read: Path | None
) -> None:
    """Refuse a file or folder that cannot or should not be written, before anything is computed."""
    if not shards:
        if not isinstance(path, Path):
            raise ConfigError(
                f"only shards are written to an object store: give --shards, or another --out than {path}"
            )
        opt.check_table_file(path)
        disk.real(path)  # refuses a current folder that was deleted
        check_table(path, is_ours, force, [one for one in read if one is not None])
    elif path.suffix in opt.SUFFIXES:
        raise ConfigError(f"with --shards --out must be a folder, found the file name '{path.name}'")


def _check_graph(out: Place, shards: bool, graph: str, force: bool) -> None:
    """Refuse to replace the graph that was read."""
    if not shards and isinstance(out, Path):
        check_not_read(out, graph, force)


def _check_all_nodes(shards: bool, nodes: str | None, nodes_from: Path | None) -> None:
    """Refuse names of nodes where all of them are written."""
    if shards and (nodes is not None or nodes_from is not None):
        raise ConfigError("--shards writes all nodes: leave --nodes and --nodes-from out")


def _say_unfinished(written: dict[str, Any]) -> dict[str, Any]:
    """Say which pass other processes have to finish first."""
    print(written["unfinished"])
    return written
