"""Train a model on a graph: data, epochs, finalising."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite

import numpy as np
import torch

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.schema import Columns
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.networks import build_networks
from gdpnet.representation.tasks import CLASSIFICATION, Task
from gdpnet.training.callbacks import Callback, OnEpoch, Steps, score_text
from gdpnet.training.label_noise import name_suspected
from gdpnet.training.run_epochs import EpochsDone, run_epochs
from gdpnet.training.state import Epoch, TrainingState

__all__ = ["Ranks", "fit_model"]


def fit_model(
    graph: Graph,
    config: Config,
    seed: int,
    device: torch.device,
    *,
    objective: Task | None = None,
    held_out: Pairs | None = None,
    callbacks: Iterable[Callback | Callable[[Epoch], object]] = (),
    ranks: Ranks | None = None,
) -> TrainedModel:
    """Train a model for the configured task; see `gdpnet.GDPNet.fit`.

    With several ``ranks`` the first one calls this, and the others call
    `gdpnet.training.run_epochs.help_fit`.
    """
    steps = Steps([one if isinstance(one, Callback) else OnEpoch(one) for one in callbacks])
    ranks = ranks or Ranks()
    # steps of a fit that must end in time run one after the other, so that each has its share; so do those of a
    # user's task, which need not bear to be called by several threads
    may_run_beside = device.type == "cpu" and ranks.size == 1 and not config.training.seconds
    may_run_beside = may_run_beside and objective is None
    with Beside(enabled=may_run_beside) as beside:
        fit = run_epochs(graph, config, seed, device, steps, objective, held_out, ranks, beside)
        return _finish(fit, seed, device, steps)


def _finish(fit: EpochsDone, seed: int, device: torch.device, steps: Steps) -> TrainedModel:
    """Choose the best epoch, and fit what follows the epochs."""
    task, state, config, budget, edges = fit.task, fit.state, fit.config, fit.budget, fit.edges
    data, key = task.data, Key.of(seed)
    budget.report(state, steps)
    has_policy = _has_policy(state, config)
    if not has_policy:
        config, edges = config.with_values({"training": {"selection": False}}), None
    _report_best(state, config, steps, has_policy=has_policy)
    weights = state.best or state.weights()
    width = 0 if edges is None else edges.width
    networks = build_networks(config, weights, exclusive=data.task.exclusive, edge_columns=width).to(device)
    if task.basis is not None:
        networks.basis = task.basis.to(device)
    with budget.limit_rest():
        found = task.complete(networks, task.trusted(networks, data, state), key, steps)
    score = state.best_f1 if found.score is None else found.score
    has_labels = config.task.kind not in ("links", "clusters")
    if has_labels:
        _report_ensemble(str(found.weights), score, config, steps)
    return TrainedModel(
        config=config,
        seed=seed,
        networks=networks,
        columns=Columns.of(task.graph, config),
        encoding=None if task.graph.table is None else task.graph.table.encoding,
        classes=np.array(task.class_names),
        task=data.task if has_labels else CLASSIFICATION,
        weights=found.weights,
        threshold=found.threshold,
        selects=found.selects,
        history=tuple(state.history),
        best_epoch=state.best_epoch,
        validation_f1=score,
        suspected_labels=name_suspected(task.graph, data, state.best_suggested),
        edge_columns=edges,
    )


def _has_policy(state: TrainingState, config: Config) -> bool:
    """Return whether the policy was trained, if it was to be: training may have ended within the warm-up."""
    return not config.training.selection or (state.best_epoch or state.epoch) > config.training.warmup


def _report_best(state: TrainingState, config: Config, steps: Steps, *, has_policy: bool) -> None:
    """Report which epoch's weights are used, and what they score before any head is fitted."""
    with steps.run("best epoch", "choosing the epoch") as step:
        step.result = f"the weights of epoch {state.best_epoch or state.epoch} of {state.epoch} are used"
        if state.best and isfinite(state.best_f1):
            step.score = state.best_f1
            step.result += f"; aggregator alone: {score_text(state.best_f1, config)}"
        if not has_policy:
            step.result += "; training ended before the policy was trained, so that all neighbours are kept"


def _report_ensemble(heads: str, score: float, config: Config, steps: Steps) -> None:
    """Report which heads predict, and the validation score of all together."""
    with steps.run("ensemble", "weighing the heads") as step:
        step.result = heads
        if isfinite(score):
            step.score = score
            step.result += f"; {score_text(score, config)}"
