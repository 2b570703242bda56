"""Commands that train: demo, train, trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gdpnet._core.device import pick_device
from gdpnet._core.files import write_json
from gdpnet.cli.app import app
from gdpnet.cli.inputs import absolute_name, open_named
from gdpnet.cli.options import (
    ColumnNames,
    ConfigFile,
    DataDir,
    Device,
    DeviceName,
    Directed,
    GraphName,
    Hops,
    Json,
    MissingFeatures,
    Overrides,
    Seed,
    SplitName,
    TaskKind,
    check_split,
    config_of,
    source_of,
)
from gdpnet.cli.output import EpochProgress, print_graph, print_json, print_metrics, print_table
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.io.open import open_graph
from gdpnet.data.io.tables import write_table
from gdpnet.errors import ConfigError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import RunFolder, check_same_graph, create_run, open_run
from gdpnet.training.data import check_trainable, part_for_scoring, split_for_training
from gdpnet.training.label_noise import DoubtedLabel
from gdpnet.training.unsupervised import UNLABELLED


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
    from gdpnet.benchmark.demo import run_demo
    from gdpnet.benchmark.figures import draw_run

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
    rows = _demo_rows(metrics)
    best = max(row[1] for row in rows)
    rows = [(name, f"{f1:.3f}{'*' if f1 == best else ''}", *rest) for name, f1, *rest in rows]
    print_table(
        "the demo: micro-F1 on clean test labels (* best), and what became of the links",
        ("method", "micro-F1", "planted links removed", "genuine links kept", "ROC AUC"),
        rows,
    )
    print(f"the cleaned graph: {metrics['threshold_reason']}")
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
    task: TaskKind = None,
    hops: Hops = None,
    features: MissingFeatures = None,
    split: SplitName = "paper",
    data_dir: DataDir = None,
    columns: ColumnNames = None,
    directed: Directed = None,
    as_json: Json = False,
) -> None:
    """Train a model on a graph and keep it, its history and its pictures in a run folder."""
    from gdpnet.benchmark.evaluation import evaluate
    from gdpnet.benchmark.figures import draw_run

    source = source_of(data_dir, columns, directed)
    check_split(split)
    pick_device(device.value)
    if resume:
        if config is not None or overrides or task is not None or hops is not None:
            raise ConfigError(
                "--resume goes on with the run's own settings: leave --config, --set, --task and --hops out"
            )
        if features is not None:
            raise ConfigError("--resume goes on with the run's own settings: leave --features out")
        run, settings, about = open_run(out)
        seed, split = about["seed"], about.get("split", "paper")
        loaded = open_named(graph, source.or_from(about.get("source", {})), split, seed)
        check_same_graph(about, loaded)
    else:
        settings = config_of(graph, config, overrides, task, hops)
        if features is not None:
            settings = settings.with_values({"features": {"missing": features}})
        loaded = open_named(graph, source, split, seed)
        if features is not None and loaded.has_features:
            raise ConfigError(
                "--features says what nodes get that have none of their own: leave it out, this graph has "
                f"{loaded.num_features} features"
            )
        _refuse_untrainable(loaded, settings, seed)
    model = GDPNet.from_config(settings, seed=seed, device=device.value)
    seen, part = loaded, model.part_of(loaded)  # which may be refused: no folder is made before
    if not resume:
        run = create_run(out, settings, absolute_name(graph), loaded, seed, split, source.to_record())
    print_graph(graph, loaded)
    if part is not loaded:
        learned, told = (part.nodes_in(name).numel() for name in ("train", "validation"))
        print(
            f"  note: a part of {part.num_nodes:,} nodes is trained on, {learned:,} of them learned from and "
            f"{told:,} for validation (training.most_nodes)"
        )
        seen = part_for_scoring(loaded, settings.training.most_nodes, seed)
    progress = EpochProgress(_epochs(settings))
    try:
        model.fit(part, run=run, on_epoch=progress)
    finally:
        progress.close()
    model.save(run.model)
    metrics: dict[str, Any] = {"best_epoch": model.best_epoch_, "validation_f1": model.validation_f1_}
    metrics |= _tell_doubted(model, run)
    if settings.task.kind == "links":
        metrics["validation_score"] = metrics.pop("validation_f1")
    if settings.task.kind in UNLABELLED or _has_labels(model, seen, "test"):
        metrics |= evaluate(model, seen)
    write_json(run.metrics, metrics)
    draw_run(model, seen, run.figures)
    print_metrics(metrics)
    print(f"run folder: {run.path}")
    print_json(as_json, {"run": str(run.path), "graph": graph, "seed": seed} | metrics)


def _tell_doubted(model: GDPNet, run: RunFolder) -> dict[str, int]:
    """Write the training labels that were set aside, say so, and return how many; without any, do nothing."""
    import pyarrow as pa

    if not model.doubted_:
        return {}
    columns = dict(zip(DoubtedLabel._fields, map(list, zip(*model.doubted_, strict=True)), strict=True))
    write_table(pa.table(columns), run.doubted)
    print(
        f"note: {len(model.doubted_):,} training labels are doubted and were set aside after the warm-up, see "
        f"{run.doubted} (training.doubt)"
    )
    return {"doubted_labels": len(model.doubted_)}


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
    split: SplitName = "paper",
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Train with several seeds, with and without selection, and keep every trial as a record."""
    from gdpnet.benchmark.trials import run_trials, summarise

    check_split(split)
    source = source_of(data_dir, None, False)
    settings = config_of(graph, config, overrides)

    def show(record: dict[str, Any]) -> None:
        score, seconds = record["metrics"]["micro_f1"], record["metrics"]["seconds"]
        print(f"{graph}  seed {record['seed']}  {record['variant']}  {score:.4f}  {seconds} s", flush=True)

    name = graph if split == "paper" else f"{graph} ({split} split)"
    done = run_trials(
        lambda seed: open_named(graph, source, split, seed),
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


def _refuse_untrainable(graph: Graph, settings: Config, seed: int) -> None:
    """Refuse a graph that the task cannot be learned on, before a run folder is made."""
    from gdpnet.data.link_split import check_links
    from gdpnet.training.unsupervised import clusters_of

    if settings.task.kind not in UNLABELLED:
        check_trainable(graph, split_for_training(graph, seed))
        return
    clusters_of(graph, settings)
    if settings.task.kind == "links":
        check_links(graph)


def _demo_rows(metrics: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return a line a method: F1, then what it did to the links where it judged them."""

    def links(values: dict[str, Any]) -> tuple[str, ...]:
        found = (values.get(key) for key in ("spurious_removed", "genuine_kept", "keep_auc"))
        return tuple("" if value is None else f"{value:.3f}" for value in found)

    nothing = ("", "", "")
    return [
        ("GDPNet", metrics["micro_f1"], *links(metrics)),
        ("GCN on the graph that GDPNet cleaned", metrics["micro_f1_gcn_on_cleaned"], *nothing),
        ("same aggregator, all neighbours", metrics["micro_f1_all_neighbours"], *nothing),
        ("logistic regression, no graph", metrics["micro_f1_logistic_regression"], *nothing),
        *((name, values["micro_f1"], *links(values)) for name, values in metrics["defences"].items()),
    ]


def _has_labels(model: GDPNet, graph: Graph, split: str) -> bool:
    return bool((graph.labels[graph.nodes_in(split)] >= 0).any())


def _epochs(settings: Config) -> int:
    return settings.training.warmup + settings.training.epochs
