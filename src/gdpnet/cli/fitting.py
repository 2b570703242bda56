"""Fit the model of a run, and say where the time went. Imports torch, so commands import it when they run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gdpnet._core.profile_page import HEADER, cells_of
from gdpnet._core.profiling import Profile, phase
from gdpnet.cli.describe import say_stopped
from gdpnet.cli.output import print_table
from gdpnet.cli.progress import EpochProgress
from gdpnet.cli.saving import cross_validated, has_few_labels, save_run
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet
from gdpnet.training.checkpoint import Checkpoint, RunFolder
from gdpnet.training.trainer import is_over

__all__ = ["Profile", "fit_and_save", "print_profile"]


def fit_and_save(
    model: GDPNet, part: Graph, whole: Graph, scored: Graph, run: RunFolder, *, check: bool
) -> dict[str, Any]:
    """Fit a model to a part of a graph and save it with its scores on ``scored``; return these.

    With ``check``, simple methods are scored beside it and, if the ``whole`` graph has few labels, folds of that.
    """
    settings, start = model.config, time.perf_counter()
    total = settings.training.warmup + settings.training.epochs
    with EpochProgress(total) as progress, phase("fit"):
        model.fit(part, callbacks=[Checkpoint(run), progress])
    epochs = len(model.history_)
    if epochs < total and is_over(model.history_, model.best_epoch_, settings):
        say_stopped(epochs, settings)
    seconds = time.perf_counter() - start
    folds = (
        cross_validated(whole, settings, model.seed, model.device) if check and has_few_labels(whole) else {}
    )
    return save_run(model, scored, run, seconds if check else None, folds)


def print_profile(profile: Profile, folder: Path, graph: str) -> dict[str, Any]:
    """Print where the time went and write it to the run folder; return it as a record."""
    rows = profile.rows()
    print_table("where the time went", HEADER, map(cells_of, rows))
    paths = [str(path) for path in profile.save(folder, f"gdpnet train {Path(graph).name}")]
    print("profile: " + ", ".join(paths))
    return {"profile": [row._asdict() for row in rows]}
