"""Commands that train a model: demo and train."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from gdpnet.cli import options as opt
from gdpnet.cli.describe import print_classes, print_metrics, say_stopped
from gdpnet.cli.output import EpochProgress, note, print_graph, print_table
from gdpnet.config import Config
from gdpnet.errors import ConfigError, RunFolderError


def demo(
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    out: opt.RunFolderOut = Path("runs/demo"),
    seed: opt.Seed = 0,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Train on a generated graph whose noise is known, and report how much of the noise is removed."""
    settings = opt.config_of("synthetic", config, overrides)

    from gdpnet._core.files import write_json
    from gdpnet.benchmark.demo import run_demo
    from gdpnet.benchmark.figures import draw_run
    from gdpnet.data.io.open import open_graph
    from gdpnet.training.checkpoint import RunFolder

    if RunFolder(out).about.exists():
        raise RunFolderError(f"{out} holds a run of gdpnet train; choose another --out for the demo")
    graph = open_graph("synthetic", seed=seed)
    print_graph("synthetic", graph)
    if graph.truth is not None:
        note(f"  {int(graph.truth.spurious.sum()):,} of the directed edges are spurious")
    with EpochProgress(settings.training.warmup + settings.training.epochs) as progress:
        model, metrics = run_demo(graph, settings, seed, device, progress)
    model.save(out / "model.safetensors")
    write_json(out / "metrics.json", metrics)
    figures = draw_run(model.predictor(graph), out / "figures")
    rows = _demo_rows(metrics)
    best = max(row[1] for row in rows)
    print_table(
        "demo: micro-F1 on clean test labels (* best) and the effect on edges",
        ("method", "micro-F1", "spurious edges removed", "genuine edges kept", "ROC AUC"),
        [(name, f"{f1:.3f}{'*' if f1 == best else ''}", *edges) for name, f1, *edges in rows],
    )
    print(f"cleaned graph: {metrics['threshold_reason']}")
    print("figures: " + ", ".join(str(path) for path in figures))
    return metrics


def train(
    graph: opt.GraphName,
    *,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    task: opt.TaskOption = None,
    hops: opt.Hops = None,
    class_weight: opt.ClassWeightOption = None,
    metric: opt.MetricOption = None,
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    out: opt.RunFolderOut,
    resume: Annotated[
        bool,
        opt.flag(
            opt.OUTPUT,
            "--resume",
            "Continue the run in --out, or go on with more epochs after it is finished.",
        ),
    ] = False,
    check: Annotated[
        bool,
        opt.flag(
            opt.OUTPUT,
            "--check/--no-check",
            "Score simple methods beside the model, in up to 20 % of its time.",
        ),
    ] = True,
    seed: opt.RunSeed = None,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Train a model on a graph and save it in a run folder, with its settings, history, scores and figures.

    Interrupted training continues with the same command and --resume. With a larger training.epochs a finished run
    goes on too.
    """
    changes: dict[str, dict[str, Any]] = {} if hops is None else {"policy": {"hops": hops}}
    changes |= {} if source.missing is None else {"features": {"missing": source.missing}}
    changes |= {} if class_weight is None else {"task": {"class_weight": class_weight}}
    changes |= {} if metric is None else {"training": {"metric": metric}}
    settings_from = partial(opt.config_of, graph, config, overrides, task, changes)
    settings = Config() if resume and opt.check_run(out) else settings_from()

    from gdpnet._core.device import pick_device
    from gdpnet.cli.runs import (
        absolute_name,
        continue_run,
        finished_metrics,
        open_named,
        part_to_score,
    )
    from gdpnet.cli.saving import cross_validated, has_few_labels, save_run
    from gdpnet.estimator import GDPNet
    from gdpnet.training.checkpoint import Checkpoint, create_run
    from gdpnet.training.registry import TASKS

    pick_device(device)
    if resume:
        run, settings, loaded, seed = continue_run(
            out, graph, source, settings_from, {"seed": seed, "split": split}
        )
        if (metrics := finished_metrics(run)) is not None:
            print_graph(graph, loaded)
            return _print_run(run.path, graph, seed, metrics, ", finished before: nothing was changed")
    else:
        seed, split = seed or 0, split or "paper"
        loaded = open_named(graph, source, split, seed, settings.task.kind)
        if source.missing is not None and loaded.has_features:
            raise ConfigError(
                f"--features {source.missing} is for graphs without features: leave it out, this graph has "
                f"{loaded.num_features}"
            )
    model = GDPNet.from_config(settings, seed=seed, device=device)
    # may refuse the graph, so it comes before a folder is made
    part = TASKS[settings.task.kind].part_of(loaded, settings, seed)
    if not resume:
        run = create_run(
            out, settings, absolute_name(graph), loaded, seed, split or "paper", source.to_record()
        )
    print_graph(graph, loaded, settings)
    print_classes(loaded)
    scored = part_to_score(loaded, part, settings, seed)
    total, start = settings.training.warmup + settings.training.epochs, time.perf_counter()
    with EpochProgress(total) as progress:
        model.fit(part, callbacks=[Checkpoint(run), progress])
    if len(model.history_) < total:
        say_stopped(len(model.history_), settings)
    seconds = time.perf_counter() - start
    folds = cross_validated(loaded, settings, seed, device) if check and has_few_labels(loaded) else {}
    metrics = save_run(model, scored, run, seconds if check else None, folds)
    return _print_run(run.path, graph, seed, metrics)


def _print_run(
    path: Path, graph: str, seed: int, metrics: dict[str, Any], remark: str = ""
) -> dict[str, Any]:
    """Print the scores and the folder of a run; return its record."""
    print_metrics(metrics)
    print(f"run folder: {path}{remark}")
    return {"run": str(path), "graph": graph, "seed": seed} | metrics


def _demo_rows(metrics: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return one row per method: its F1, and for methods that filter edges the effect on them."""

    def edges(values: dict[str, Any]) -> tuple[str, ...]:
        found = (values.get(key) for key in ("spurious_removed", "genuine_kept", "keep_auc"))
        return tuple("" if value is None else f"{value:.3f}" for value in found)

    return [
        ("GDPNet", metrics["micro_f1"], *edges(metrics)),
        ("GCN on the graph cleaned by GDPNet", metrics["micro_f1_gcn_on_cleaned"], *edges({})),
        ("same aggregator, all neighbours", metrics["micro_f1_all_neighbours"], *edges({})),
        ("logistic regression, no graph", metrics["micro_f1_logistic_regression"], *edges({})),
        *((name, values["micro_f1"], *edges(values)) for name, values in metrics["defences"].items()),
    ]
