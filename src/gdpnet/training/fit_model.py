"""Train a model on a graph: data, epochs, finalising."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch

from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.schema import Columns, EdgeColumns, read_edges
from gdpnet.data.splits import fit_columns
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.networks import build_networks
from gdpnet.representation.tasks import CLASSIFICATION, Task
from gdpnet.training.budget import Budget, train_in_time
from gdpnet.training.callbacks import Callback, OnEpoch, Steps, score_text
from gdpnet.training.data import split_for_training
from gdpnet.training.label_noise import name_suspected
from gdpnet.training.registry import TASKS
from gdpnet.training.state import Epoch, TrainingState, begin_training
from gdpnet.training.strategy import TrainingTask


@dataclass
class _Epochs:
    """A fit after its epochs."""

    task: TrainingTask
    state: TrainingState
    config: Config
    budget: Budget
    edges: EdgeColumns | None


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

    With several ``ranks`` the first one calls this, and the others call `help_fit`.
    """
    steps = Steps([one if isinstance(one, Callback) else OnEpoch(one) for one in callbacks])
    fit = _run_epochs(graph, config, seed, device, steps, objective, held_out, ranks or Ranks())
    return _finish(fit, seed, device, steps)


def help_fit(graph: Graph, config: Config, seed: int, device: torch.device, ranks: Ranks) -> None:
    """Take part in the epochs of a fit whose first rank calls `fit_model`."""
    _run_epochs(graph, config, seed, device, Steps([]), None, None, ranks)


def _run_epochs(
    graph: Graph,
    config: Config,
    seed: int,
    device: torch.device,
    steps: Steps,
    objective: Task | None,
    held_out: Pairs | None,
    ranks: Ranks,
) -> _Epochs:
    """Prepare the data and run all epochs."""
    budget, key = Budget(config), Key.of(seed)
    edges = EdgeColumns.of(graph) if config.training.selection else None
    graph = read_edges(fit_columns(graph, split_for_training(graph, seed)), edges)
    with steps.run("data", "preparing the graph") as step:
        task = TASKS[config.task.kind](graph, config, seed, device, objective, held_out, ranks)
        targets, validation = task.data.targets.numel(), task.data.validation.numel()
        step.result = f"{targets:,} training and {validation:,} validation nodes"
    del graph  # a part of it may be all that is needed
    pseudo = task.first_pseudo_labels(key, steps)
    if pseudo is not None:
        settle = max(config.training.settle, config.self_training.settle)
        budget.config = config = config.with_values({"training": {"settle": settle}})
    # with folds for nodes that have a pseudo-label
    state = begin_training(task.data, len(task.class_names), config, key, device, ranks)
    state.pseudo = pseudo
    train_in_time(budget, state, task.data, key, steps.callbacks, task)
    task.end_epochs(state)
    return _Epochs(task, state, config, budget, edges)


def _finish(fit: _Epochs, seed: int, device: torch.device, steps: Steps) -> TrainedModel:
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
