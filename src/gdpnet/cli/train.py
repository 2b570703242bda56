"""Commands that train a model: demo and train."""

from __future__ import annotations

import re
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from gdpnet.cli import options as opt
from gdpnet.cli.describe import print_classes, print_metrics
from gdpnet.cli.output import note, print_graph, print_table
from gdpnet.cli.progress import EpochProgress, doing
from gdpnet.config import Config
from gdpnet.errors import ConfigError, RunFolderError


def seconds_of(text: str) -> float:
    """Return a time such as 60s, 2m, 1.5h or 90 in seconds."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+) *(s|m|min|h|)", text.strip().lower())
    seconds = float(found[1]) * {"m": 60.0, "min": 60.0, "h": 3600.0}.get(found[2], 1.0) if found else 0.0
    if not seconds > 0:
        raise ConfigError(f"--budget must be a time above zero such as 60s, 2m or 1.5h, found '{text}'")
    return seconds


def _check_budget(text: str | None) -> str | None:
    if text is not None:
        seconds_of(text)
    return text


RunForce = Annotated[
    bool,
    opt.flag(
        opt.OUTPUT,
        "--force",
        "Replace a run in --out, or write beside files that are no run; of these only those with the name of a run's "
        "file are replaced.",
    ),
]
_DEMO = "demo.json"
"""Marks a folder that the demo wrote."""


def demo(
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    out: opt.RunFolderOut = Path("runs/demo"),
    force: RunForce = False,
    seed: opt.Seed = 0,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Train on a generated graph whose noise is known, and report how much of the noise is removed."""
    settings = opt.config_of("synthetic", config, overrides)

    from gdpnet._core.files import locked_folder, write_json
    from gdpnet.benchmark.demo import run_demo
    from gdpnet.benchmark.figures import draw_run
    from gdpnet.data.io.open import open_graph

    _check_demo_folder(out, force)
    graph = open_graph("synthetic", seed=seed)
    print_graph("synthetic", graph)
    if graph.truth is not None:
        note(f"  {int(graph.truth.spurious.sum()):,} of the directed edges are spurious")
    with EpochProgress(settings.training.warmup + settings.training.epochs) as progress:
        model, metrics = run_demo(graph, settings, seed, device, progress)
    with locked_folder(out):
        write_json(out / _DEMO, {"format": "gdpnet-demo", "seed": seed})  # first: it marks the folder as ours
        model.save(out / "model.safetensors")
        write_json(out / "metrics.json", metrics)
        with doing("drawing figures"):
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


def _check_demo_folder(out: Path, force: bool) -> None:
    """Refuse a folder that is neither new, empty nor that of a demo."""
    from gdpnet.training.run_folder import RunFolder, check_free

    if RunFolder(out).about.exists() and not force:
        raise RunFolderError(f"{out} holds a run of gdpnet train; choose another --out for the demo")
    check_free(out, force=force or (out / _DEMO).is_file())


def train(
    graph: opt.GraphName,
    *,
    split: opt.RunSplit = None,
    source: opt.GraphSource,
    task: opt.TaskOption = None,
    hops: opt.Hops = None,
    class_weight: opt.ClassWeightOption = None,
    metric: opt.MetricOption = None,
    budget: Annotated[
        str | None,
        opt.model(
            "--budget TIME",
            "End the fit after this time, such as 60s, 2m or 1.5h, with the best model so far.",
            callback=_check_budget,
            show_default="setting training.seconds: no limit",
        ),
    ] = None,
    config: opt.ConfigFile = None,
    overrides: opt.Overrides = None,
    out: opt.RunFolderOut,
    force: RunForce = False,
    resume: Annotated[
        bool,
        opt.flag(
            opt.OUTPUT,
            "--resume",
            "Continue the run in --out, or go on with more epochs or more time after it is finished.",
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
    profile: Annotated[
        bool,
        opt.flag(
            opt.OUTPUT,
            "--profile",
            "Print where the time goes, and write profile.html, a page with a timeline, and profile.json to --out.",
        ),
    ] = False,
    seed: opt.RunSeed = None,
    device: opt.DeviceName = "auto",
) -> dict[str, Any]:
    """Train a model on a graph and save it in a run folder, with its settings, history, scores and figures.

    Interrupted training continues with the same command and --resume. With a larger training.epochs or --budget a
    finished run goes on too.
    """
    changes: dict[str, dict[str, Any]] = {} if hops is None else {"policy": {"hops": hops}}
    changes |= {} if source.missing is None else {"features": {"missing": source.missing}}
    changes |= {} if class_weight is None else {"task": {"class_weight": class_weight}}
    training = {"metric": metric, "seconds": None if budget is None else seconds_of(budget)}
    changes["training"] = {name: value for name, value in training.items() if value is not None}
    settings_from = partial(opt.config_of, graph, config, overrides, task, changes)
    settings = Config() if resume and opt.check_run(out) else settings_from()

    from gdpnet._core.device import pick_device
    from gdpnet._core.files import locked_folder
    from gdpnet.cli.fitting import Profile, fit_and_save, part_to_score, print_profile
    from gdpnet.cli.runs import (
        absolute_name,
        check_features,
        continue_run,
        finished_metrics,
        open_named,
        part_to_train,
    )
    from gdpnet.estimator import GDPNet
    from gdpnet.training.run_folder import check_free, create_run

    pick_device(device)
    with ExitStack() as held:
        if resume:
            held.enter_context(locked_folder(out))
            run, settings, loaded, seed = continue_run(
                out, graph, source, settings_from, {"seed": seed, "split": split}
            )
            if (metrics := finished_metrics(run)) is not None:
                print_graph(graph, loaded)
                return _print_run(run.path, graph, seed, metrics, ", finished before: nothing was changed")
        else:
            check_free(out, force=force)
            seed, split = seed or 0, split or "paper"
            loaded = open_named(graph, source, split, seed, settings.task.kind)
            check_features(source, loaded)
        model = GDPNet.from_config(settings, seed=seed, device=device)
        # may refuse the graph, so it comes before a folder is made
        part = part_to_train(loaded, settings, seed)
        if not resume:
            held.enter_context(locked_folder(out))
            name, record = absolute_name(graph), source.to_record()
            run = create_run(out, settings, name, loaded, seed, split or "paper", record, force=force)
        print_graph(graph, loaded, settings)
        print_classes(loaded)
        scored = part_to_score(loaded, part, settings, seed)
        measured = Profile() if profile else None
        with nullcontext() if measured is None else measured.measure():
            metrics = fit_and_save(model, part, loaded, scored, run, check=check)
        result = _print_run(run.path, graph, seed, metrics)
        return result if measured is None else result | print_profile(measured, run.path, graph)


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
