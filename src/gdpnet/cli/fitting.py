"""Fit the model of a run, and say where the time went. Imports torch, so commands import it when they run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.profile_page import HEADER, cells_of
from gdpnet._core.profiling import Profile, phase
from gdpnet._core.ranks import Ranks
from gdpnet.cli.describe import say_stopped
from gdpnet.cli.output import note, print_table
from gdpnet.cli.progress import EpochProgress, doing
from gdpnet.cli.saving import save_run
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.splits import FEW_TEST_NODES
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import Checkpoint, RunFolder
from gdpnet.training.trainer import is_over

_SCORES = ("micro_f1", "macro_f1", "average_precision", "roc_auc")

__all__ = ["Profile", "fit_and_save", "print_profile"]


def fit_and_save(
    model: GDPNet, graph: Graph, scored: Graph, run: RunFolder, *, check: bool, ranks: Ranks
) -> dict[str, Any]:
    """Fit a model to a graph and save it with its scores on ``scored``; return these.

    With ``check``, simple methods are scored beside it and, if the graph has few labels, folds of that.
    """
    settings, start = model.config, time.perf_counter()
    total = settings.training.warmup + settings.training.epochs
    with EpochProgress(total) as progress, phase("fit"):
        model.fit(graph, callbacks=[Checkpoint(run), progress], ranks=ranks)
    epochs = len(model.history_)
    if epochs < total and is_over(model.history_, model.best_epoch_, settings):
        say_stopped(epochs, settings)
    seconds = time.perf_counter() - start
    folds = (
        _cross_validated(graph, settings, model.seed, model.device)
        if check and _has_few_labels(graph)
        else {}
    )
    return save_run(model, scored, run, seconds if check else None, folds)


def print_profile(profile: Profile, folder: Path, graph: str) -> dict[str, Any]:
    """Print where the time went and write it to the run folder; return it as a record."""
    rows = profile.rows()
    print_table("where the time went", HEADER, map(cells_of, rows))
    paths = [str(path) for path in profile.save(folder, f"gdpnet train {Path(graph).name}")]
    print("profile: " + ", ".join(paths))
    return {"profile": [row._asdict() for row in rows]}


def _has_few_labels(graph: Graph) -> bool:
    """Return whether a split that was drawn has so few test nodes that one figure on them says little."""
    drawn = any(note.startswith("split ") for note in graph.notes)
    nodes = graph.nodes_in("test")
    return drawn and graph.targets is None and 0 < int(graph.labelled[nodes].sum()) < FEW_TEST_NODES


def _cross_validated(graph: Graph, settings: Config, seed: int, device: str) -> dict[str, Any]:
    """Return mean and standard deviation of scores over five folds of the labelled nodes; nothing for other tasks."""
    from gdpnet.benchmark.model_selection import cross_validate

    largest = int(torch.bincount(graph.labels[graph.labelled]).max())
    folds = min(5, largest)
    if settings.task.kind != "classification" or folds < 3:
        return {}
    note(f"few test nodes: training {folds} more models, to score all labelled nodes by cross-validation ...")
    model = GDPNet.from_config(settings, seed=seed, device=device)
    with doing("cross-validating"):
        scores = cross_validate(model, graph, folds=folds, scoring=_SCORES, seed=seed)
    both = {name: [scores.mean[name], scores.deviation[name]] for name in _SCORES}
    return {"cross_validation": {"folds": folds, "nodes": int(graph.labelled.sum()), **both}}
