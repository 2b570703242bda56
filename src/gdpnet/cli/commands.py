"""The commands of ``gdpnet``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from gdpnet.cli.options import (
    ColumnNames,
    ConfigFile,
    DataDir,
    Device,
    DeviceName,
    Directed,
    GraphName,
    GraphSource,
    Json,
    OptionalGraph,
    OutFile,
    Overrides,
    RunPath,
    Seed,
    config_of,
    source_of,
)
from gdpnet.cli.printing import EpochProgress, print_graph, print_json, print_table, text_of
from gdpnet.config import Config, shipped_config
from gdpnet.errors import ConfigError, RunFolderError
from gdpnet.graph.datasets import DATASETS, is_present
from gdpnet.graph.files import edge_table, write_table
from gdpnet.graph.graph import Graph
from gdpnet.graph.named import open_graph
from gdpnet.graph.tables import SUFFIXES
from gdpnet.model import GDPNet, pick_device
from gdpnet.run_folder import RunFolder, check_same_graph, create_run, open_run, write_json
from gdpnet.training import check_trainable, split_for_training
from gdpnet.version import __version__

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Learn which neighbours of a noisy graph to trust: train, predict, and clean the graph. "
    "Every command takes --debug for a full traceback.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"gdpnet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Hold the options of no command in particular."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="folder for the run")] = Path("runs/demo"),
    config: ConfigFile = None,
    overrides: Overrides = None,
    seed: Seed = 0,
    device: DeviceName = Device.auto,
    as_json: Json = False,
) -> None:
    """Train on a generated graph whose noise is known, remove it, and say how well that went."""
    from gdpnet.experiments.demo import run_demo
    from gdpnet.experiments.figures import draw_run

    settings = config_of("synthetic", config, overrides)
    if RunFolder(out).about.exists():
        raise RunFolderError(f"{out} holds a run of gdpnet train; choose another --out for the demo")
    graph = open_graph("synthetic", seed=seed)
    print_graph("synthetic", graph)
    assert graph.truth is not None
    print(f"  planted: {int(graph.truth.spurious.sum()):,} of the edges are spurious")
    progress = EpochProgress(_epochs(settings))
    try:
        model, metrics = run_demo(graph, settings, seed, device.value, progress)
    finally:
        progress.close()
    model.save(out / "model.safetensors")
    write_json(out / "metrics.json", metrics)
    pictures = draw_run(model, graph, out / "figures")
    rows = [
        ("GDPNet", metrics["micro_f1"]),
        ("same aggregator, all neighbours", metrics["micro_f1_all_neighbours"]),
        ("logistic regression, no graph", metrics["micro_f1_logistic_regression"]),
    ]
    print_table("micro-F1 on clean test labels", ("method", "micro-F1"), rows)
    rows = [
        ("planted spurious links removed", metrics["spurious_removed"]),
        ("genuine links kept", metrics["genuine_kept"]),
        ("ROC AUC of the keep probability", metrics["keep_auc"]),
    ]
    print_table("noise removal", ("share", "value"), rows)
    print("pictures: " + ", ".join(str(path) for path in pictures))
    print_json(as_json, metrics)


@app.command()
def train(
    graph: GraphName,
    out: Annotated[Path, typer.Option("--out", help="folder for the run")],
    config: ConfigFile = None,
    overrides: Overrides = None,
    seed: Seed = 0,
    device: DeviceName = Device.auto,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    split: Annotated[str, typer.Option(help="paper or random split of a named dataset")] = "paper",
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = False,
    as_json: Json = False,
) -> None:
    """Train a model on a graph and keep it, its history and its pictures in a run folder."""
    from gdpnet.experiments.evaluation import evaluate
    from gdpnet.experiments.figures import draw_run

    source = source_of(data_dir, columns, directed)
    if split not in ("paper", "random"):
        raise ConfigError(f"--split must be paper or random, found '{split}'")
    pick_device(device.value)
    if resume:
        if config is not None or overrides:
            raise ConfigError("--resume goes on with the run's own settings: leave --config and --set out")
        run, settings, about = open_run(out)
        seed, split = about["seed"], about.get("split", "paper")
        loaded = _open(graph, source.or_from(about.get("source", {})), split, seed)
        check_same_graph(about, loaded)
    else:
        settings = config_of(graph, config, overrides)
        loaded = _open(graph, source, split, seed)
        check_trainable(loaded, split_for_training(loaded, seed))
        run = create_run(out, settings, _absolute(graph), loaded, seed, split, source.to_record())
    print_graph(graph, loaded)
    model = GDPNet.from_config(settings, seed=seed, device=device.value)
    progress = EpochProgress(_epochs(settings))
    try:
        model.fit(loaded, run=run, on_epoch=progress)
    finally:
        progress.close()
    model.save(run.model)
    metrics: dict[str, Any] = {"best_epoch": model.best_epoch_, "validation_f1": model.validation_f1_}
    if _has_labels(model, loaded, "test"):
        metrics |= evaluate(model, loaded)
    write_json(run.metrics, metrics)
    draw_run(model, loaded, run.figures)
    _print_metrics(metrics)
    print(f"run folder: {run.path}")
    print_json(as_json, {"run": str(run.path), "graph": graph, "seed": seed} | metrics)


@app.command()
def evaluate(
    run: RunPath,
    graph: OptionalGraph = None,
    split: Annotated[str, typer.Option(help="train, validation or test")] = "test",
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = False,
    as_json: Json = False,
) -> None:
    """Score a trained model on a split of a graph, and describe the graph it would clean."""
    from gdpnet.experiments.evaluation import evaluate as evaluate_model

    if split not in ("train", "validation", "test"):
        raise ConfigError(f"--split must be train, validation or test, found '{split}'")
    model, loaded, name = _model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    print_graph(name, loaded)
    metrics = evaluate_model(model, loaded, split)
    _print_metrics(metrics)
    print_json(as_json, {"run": str(run), "graph": name} | metrics)


@app.command()
def embed(
    run: RunPath,
    graph: OptionalGraph = None,
    out: OutFile = Path("embeddings.parquet"),
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = False,
    as_json: Json = False,
) -> None:
    """Write a representation for every node of a graph."""
    _check_suffix(out)
    model, loaded, name = _model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    values = model.embed(loaded)
    table = _node_columns(loaded) | {f"h{number}": column for number, column in enumerate(values.T)}
    write_table(pa.table(table), out)
    print(f"{len(values):,} representations of width {values.shape[1]} written to {out}")
    print_json(as_json, {"run": str(run), "graph": name, "out": str(out), "nodes": len(values)})


@app.command()
def predict(
    run: RunPath,
    graph: OptionalGraph = None,
    out: OutFile = Path("predictions.parquet"),
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = False,
    as_json: Json = False,
) -> None:
    """Write the predicted class of every node, and the probability of each class."""
    _check_suffix(out)
    model, loaded, name = _model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    chances = model.predict_proba(loaded)
    table = _node_columns(loaded) | {"predicted": model.classes_[chances.argmax(axis=1)]}
    table |= {f"p_{label}": column for label, column in zip(model.classes_, chances.T, strict=True)}
    write_table(pa.table(table), out)
    print(f"{len(chances):,} predictions written to {out}")
    print_json(as_json, {"run": str(run), "graph": name, "out": str(out), "nodes": len(chances)})


@app.command()
def denoise(
    run: RunPath,
    graph: OptionalGraph = None,
    out: OutFile = Path("edges.parquet"),
    threshold: Annotated[float, typer.Option(help="least keep probability of a kept edge")] = 0.5,
    all_edges: Annotated[
        bool, typer.Option("--all", help="write every edge, with a column that says whether it is kept")
    ] = False,
    one_way: Annotated[
        bool, typer.Option("--one-way", help="decide on each direction of a link by itself")
    ] = False,
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = False,
    as_json: Json = False,
) -> None:
    """Write the cleaned graph as an edge list with a keep probability for every edge."""
    from gdpnet.experiments.evaluation import describe_cleaning

    _check_suffix(out)
    model, loaded, name = _model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    cleaned = model.denoise(loaded, threshold=threshold, symmetric=not one_way)
    table = edge_table(loaded).append_column("keep_probability", pa.array(cleaned.keep_probability))
    if all_edges:
        table = table.append_column("kept", pa.array(cleaned.kept))
    else:
        table = table.filter(pa.array(cleaned.kept))
    write_table(table, out)
    metrics = describe_cleaning(loaded, cleaned)
    print(
        f"{int(cleaned.kept.sum()):,} of {loaded.num_edges:,} directed edges kept; {len(table):,} written to {out}"
    )
    _print_metrics(metrics)
    print_json(as_json, {"run": str(run), "graph": name, "out": str(out), "threshold": threshold} | metrics)


@app.command()
def explain(
    run: RunPath,
    graph: GraphName,
    node: Annotated[str, typer.Option("--node", help="id of the node")],
    device: DeviceName = Device.auto,
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = False,
    as_json: Json = False,
) -> None:
    """Say how a node's neighbours were decided on, in order, and what each contributed."""
    model, loaded, _ = _model_and_graph(run, graph, device, source_of(data_dir, columns, directed))
    story = model.explain(loaded, node)
    print(
        f"node {story.node}: predicted '{story.predicted}' with probability {story.probability:.3f} "
        f"({story.probability_alone:.3f} from its own features)"
    )
    rows = [
        (
            one.neighbour,
            one.step,
            one.draw_probability,
            one.keep_probability,
            "kept" if one.kept else ("dropped" if one.step is not None else "not reached"),
            f"{one.contribution:+.3f}" if one.step is not None else "-",
        )
        for one in story.decisions
    ]
    header = ("neighbour", "step", "drawn with", "keep probability", "action", f"adds to '{story.predicted}'")
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


@app.command()
def trials(
    graph: GraphName,
    seeds: Annotated[int, typer.Option(help="number of trials, one seed each", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="the first of these seeds", min=0)] = 0,
    records: Annotated[Path, typer.Option(help="file of records to append to")] = Path(
        "results/accuracy.jsonl"
    ),
    config: ConfigFile = None,
    overrides: Overrides = None,
    device: DeviceName = Device.auto,
    split: Annotated[str, typer.Option(help="paper or random split of a named dataset")] = "paper",
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Train with several seeds, with and without selection, and keep every trial as a record."""
    from gdpnet.experiments.trials import run_trials, summarise

    source = source_of(data_dir, None, False)
    settings = config_of(graph, config, overrides)

    def show(record: dict[str, Any]) -> None:
        score, seconds = record["metrics"]["micro_f1"], record["metrics"]["seconds"]
        print(f"{graph}  seed {record['seed']}  {record['variant']}  {score:.4f}  {seconds} s", flush=True)

    name = graph if split == "paper" else f"{graph} ({split} split)"
    done = run_trials(
        lambda seed: _open(graph, source, split, seed),
        name,
        settings,
        range(first_seed, first_seed + seeds),
        records,
        device=device.value,
        on_record=show,
    )
    summary = summarise(done)
    rows = [
        (f"{row['graph']}, {row['variant']}", row["trials"], row["mean"], row["deviation"]) for row in summary
    ]
    print_table("micro-F1 on test", ("graph, method", "trials", "mean", "deviation"), rows)
    print_json(as_json, {"summary": summary})


def _open(graph: str, source: GraphSource, split: str, seed: int) -> Graph:
    return open_graph(
        graph,
        data_dir=source.data_dir,
        columns=source.columns,
        directed=source.directed,
        split=split,
        seed=seed,
    )


def _absolute(graph: str) -> str:
    """Return a name as it is, and a path so that it can be found from elsewhere."""
    known = graph in DATASETS or graph == "synthetic"
    return graph if known else str(Path(graph).resolve())


def _model_and_graph(
    path: Path, graph: str | None, device: Device, source: GraphSource
) -> tuple[GDPNet, Graph, str]:
    """Open the model of a run, and a graph: the one named or the run's own."""
    run = RunFolder(path)
    if not path.is_dir():
        raise RunFolderError(f"there is no run folder {path}")
    model = GDPNet.load(run.model, device=device.value)
    about: dict[str, Any] = (
        open_run(path)[2] if run.about.is_file() else {"graph": "synthetic", "seed": model.seed}
    )
    name = about["graph"] if graph is None else graph
    same = _absolute(name) == about["graph"]
    split, seed = (about.get("split", "paper"), about["seed"]) if same else ("paper", model.seed)
    source = source.or_from(about.get("source", {})) if same else source
    return model, _open(name, source, split, seed), name


def _has_labels(model: GDPNet, graph: Graph, split: str) -> bool:
    return bool((graph.labels[graph.nodes_in(split)] >= 0).any())


def _epochs(settings: Config) -> int:
    return settings.training.warmup + settings.training.epochs


def _node_columns(graph: Graph) -> dict[str, Any]:
    ids = graph.node_ids
    return {"id": ids.astype(str) if ids.dtype == np.object_ else ids}


def _check_suffix(path: Path) -> None:
    """Refuse a file that could not be written before anything is computed."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"--out must end in {' or '.join(SUFFIXES)}, found '{path.name}'")


def _print_metrics(metrics: dict[str, Any]) -> None:
    for name, value in metrics.items():
        print(f"  {name.replace('_', ' ')}: {text_of(value)}")
