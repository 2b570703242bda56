"""The first half of a fit: the data, and all epochs, by one process or several ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.schema import EdgeColumns, read_edges
from gdpnet.data.splits import fit_columns
from gdpnet.representation.tasks import Task
from gdpnet.training.budget import Budget, train_in_time
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import is_small, split_for_training
from gdpnet.training.registry import TASKS, check_ranks
from gdpnet.training.state import TrainingState, begin_training
from gdpnet.training.strategy import TrainingTask


@dataclass
class EpochsDone:
    """A fit after its epochs."""

    task: TrainingTask
    state: TrainingState
    config: Config
    budget: Budget
    edges: EdgeColumns | None


def help_fit(graph: Graph, config: Config, seed: int, device: torch.device, ranks: Ranks) -> None:
    """Take part in the epochs of a fit whose first rank calls `fit_model`."""
    with Beside(enabled=False) as beside:
        run_epochs(graph, config, seed, device, Steps([]), None, None, ranks, beside)


def run_epochs(
    graph: Graph,
    config: Config,
    seed: int,
    device: torch.device,
    steps: Steps,
    objective: Task | None,
    held_out: Pairs | None,
    ranks: Ranks,
    beside: Beside,
) -> EpochsDone:
    """Prepare the data and run all epochs; what needs none of them begins beside them."""
    check_ranks(ranks.size, config.task.kind if objective is None else "")
    budget, key = Budget(config), Key.of(seed)
    edges = EdgeColumns.of(graph) if config.training.selection else None
    graph = read_edges(fit_columns(graph, split_for_training(graph, seed)), edges)
    is_small_on_cpu = device.type == "cpu" and is_small(graph, config)
    if is_small_on_cpu:
        beside.give_torch_one_thread()
    with steps.run("data", "preparing the graph") as step, budget.limit_preparation():
        task = TASKS[config.task.kind](graph, config, seed, device, objective, held_out, ranks, beside)
        targets, validation = task.data.targets.numel(), task.data.validation.numel()
        step.result = f"{targets:,} training and {validation:,} validation nodes"
    del graph  # a part of it may be all that is needed
    if is_small_on_cpu:
        task.begin_without_epochs(key)
    pseudo = task.first_pseudo_labels(key, steps)
    if pseudo is not None:
        settle = max(config.training.settle, config.self_training.settle)
        budget.config = config = config.with_values({"training": {"settle": settle}})
    # with folds for nodes that have a pseudo-label
    state = begin_training(task.data, len(task.class_names), config, key, device, ranks)
    state.pseudo = pseudo
    train_in_time(budget, state, task.data, key, steps.callbacks, task)
    task.end_epochs(state)
    ranks.leave()
    return EpochsDone(task, state, config, budget, edges)
