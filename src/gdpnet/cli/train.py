"""The command that trains a model."""

from __future__ import annotations

import re
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from gdpnet._core.launch import own_rank, restarts
from gdpnet.cli import options as opt
from gdpnet.cli.describe import print_classes, print_metrics
from gdpnet.cli.output import print_graph
from gdpnet.config import Config
from gdpnet.errors import ConfigError


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
    finished run goes on too. Started by torchrun (torchrun --nproc-per-node 4 -m gdpnet train ...) several processes
    train one model.
    """
    if own_rank() > 0:
        from gdpnet.cli.helpers import help_train

        help_train(device)
        raise SystemExit(0)
    resume = resume or (restarts() > 0 and (out / "run.json").is_file())
    changes: dict[str, dict[str, Any]] = {} if hops is None else {"policy": {"hops": hops}}
    changes |= {} if source.missing is None else {"features": {"missing": source.missing}}
    changes |= {} if class_weight is None else {"task": {"class_weight": class_weight}}
    training = {"metric": metric, "seconds": None if budget is None else seconds_of(budget)}
    changes["training"] = {name: value for name, value in training.items() if value is not None}
    settings_from = partial(opt.config_of, graph, config, overrides, task, changes)
    settings = Config() if resume and opt.check_run(out) else settings_from()

    from gdpnet._core.files import locked_folder
    from gdpnet.cli.fitting import Profile, fit_and_save, print_profile
    from gdpnet.cli.helpers import check_trainable, first_of, part_to_score, work_of
    from gdpnet.cli.runs import absolute_name, check_features, continue_run, finished_metrics, open_named
    from gdpnet.estimator import GDPNet
    from gdpnet.training.run_folder import check_free, create_run

    with ExitStack() as held:
        ranks, tell = held.enter_context(first_of(device))
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
        check_trainable(loaded, settings, seed, ranks)  # before a folder is made
        if not resume:
            held.enter_context(locked_folder(out))
            name, record = absolute_name(graph), source.to_record()
            run = create_run(out, settings, name, loaded, seed, split or "paper", record, force=force)
        print_graph(graph, loaded, settings)
        print_classes(loaded)
        tell(work_of(graph, source, split, seed, settings, loaded, run.path if resume else None))
        scored = part_to_score(loaded, settings, seed, ranks)
        measured = Profile() if profile else None
        with nullcontext() if measured is None else measured.measure():
            metrics = fit_and_save(model, loaded, scored, run, check=check, ranks=ranks)
        result = _print_run(run.path, graph, seed, metrics)
        return result if measured is None else result | print_profile(measured, run.path, graph)


def _print_run(
    path: Path, graph: str, seed: int, metrics: dict[str, Any], remark: str = ""
) -> dict[str, Any]:
    """Print the scores and the folder of a run; return its record."""
    print_metrics(metrics)
    print(f"run folder: {path}{remark}")
    return {"run": str(path), "graph": graph, "seed": seed} | metrics
