"""The command that trains on a generated graph whose noise is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdpnet.cli import options as opt
from gdpnet.cli.output import note, print_graph, print_table
from gdpnet.cli.progress import EpochProgress, doing
from gdpnet.cli.train import RunForce
from gdpnet.errors import RunFolderError


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
    with locked_folder(out):
        _check_demo_folder(out, force)  # another process may have written a run meanwhile
        with EpochProgress(settings.training.warmup + settings.training.epochs) as progress:
            model, metrics = run_demo(graph, settings, seed, device, progress)
        _replace_run(out, seed)
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

    run = RunFolder(out)
    if run.about.exists() and not force:
        raise RunFolderError(f"{out} holds a run of gdpnet train; choose another --out for the demo")
    check_free(out, force=force or run.is_demo)


def _replace_run(out: Path, seed: int) -> None:
    """Delete a run that is there, which would mix with the demo, and mark the folder as that of a demo."""
    from gdpnet._core.files import write_json
    from gdpnet.training.old_run import delete_run
    from gdpnet.training.run_folder import DEMO, RunFolder, is_marked

    run = RunFolder(out)
    if is_marked(run):
        delete_run(run, is_known=True)
        run.about.unlink()
    write_json(run.demo, {"format": DEMO, "seed": seed})  # before the others: it says that they are ours


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
