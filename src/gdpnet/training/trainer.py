"""Train the policy and the aggregators in alternation, evaluate every epoch, and choose the best.

The score of an epoch is its validation F1, or another metric of the task, plus the weighted injected-edge AUC: the
ROC AUC of keep probabilities against injected edges. There are few validation nodes: among epochs with equal F1 some
clean the graph far better than others, and injected edges show which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.roc import roc_auc
from gdpnet.config import Config
from gdpnet.inference.ensemble import aggregate
from gdpnet.inference.select import edges_of, select
from gdpnet.training.callbacks import Callback
from gdpnet.training.data import TrainingData
from gdpnet.training.label_noise import is_time_to_check_labels, suspect_labels, without_suspected
from gdpnet.training.pseudo_labels import with_pseudo_labels
from gdpnet.training.representation_phase import representation_phase
from gdpnet.training.selection_phase import (
    epoch_targets,
    play_once,
    selection_phase,
    with_selected_neighbourhoods,
)
from gdpnet.training.state import Epoch, TrainingState

_MOST_PATIENT = 20
"""Epochs that few targets may prolong the patience to."""

History = Sequence[Mapping[str, Any]]
"""Metrics of the epochs so far, as plain values."""


def train_epochs(
    state: TrainingState,
    data: TrainingData,
    config: Config,
    key: Key,
    callbacks: Sequence[Callback] = (),
    update_targets: Callable[[TrainingState], Tensor | None] | None = None,
) -> None:
    """Train until the last epoch, or until validation has not improved for the configured patience.

    Random streams depend only on the key and the epoch's number, so a checkpoint needs no generator state. At
    the end ``state.best`` holds the best weights by validation F1 and injected-edge AUC, or the last ones
    without validation nodes. Tasks without labels update their labels every few epochs.
    """
    for callback in callbacks:
        callback.on_train_begin(state)
    if state.best_epoch <= settled(config):  # a run that goes on with more epochs may settle later
        state.forget_best()
    total = config.training.warmup + config.training.epochs
    targets = data.targets.numel()
    while (
        state.epoch < total
        and not state.stopped
        and not is_over(state.history, state.best_epoch, config, targets)
    ):
        state.epoch += 1
        selecting = state.epoch - config.training.warmup
        is_due = config.training.selection and selecting > 1 and (selecting - 1) % config.task.refresh == 0
        if is_due and update_targets is not None:
            found = update_targets(state)
            state.truth = state.truth if found is None else found
        if state.truth is not None:
            data = replace(data, labels=state.truth)
        if is_time_to_check_labels(state.epoch, state.suggested, config):
            suspected = suspect_labels(state.aggregators, data, config)
            state.suggested = state.suggested if suspected is None else suspected
        trusted = without_suspected(data, state.suggested)
        if state.pseudo is not None:
            trusted = with_pseudo_labels(trusted, state.pseudo)
        targets = trusted.targets.numel()
        with phase("epochs" if selecting > 0 else "warm-up"):
            epoch = _one_epoch(state, trusted, config, key)
        state.history.append(asdict(epoch))
        if state.epoch > settled(config) and (data.validation.numel() == 0 or is_best(state.history, config)):
            state.remember_best(epoch.validation_f1)
        with phase("callbacks"):
            for callback in callbacks:
                callback.on_epoch_end(state, epoch)
    for callback in callbacks:
        callback.on_train_end(state)


def _one_epoch(state: TrainingState, data: TrainingData, config: Config, key: Key) -> Epoch:
    """Run both phases once and evaluate on the validation nodes."""
    stream = key.fold_in("epoch", state.epoch)
    selecting = config.training.selection and state.epoch > config.training.warmup
    reward: float | Tensor = 0.0
    divergence, decisions = 0.0, 0
    if selecting:
        genuine = stream.fold_in("genuine")
        with phase("selection"):
            data = with_selected_neighbourhoods(state, data, config, genuine)
            reward, divergence, decisions = selection_phase(state, data, config, genuine)
        if data.injected:
            injected = stream.fold_in("injected")
            perturbed = replace(data, train=data.injected[state.epoch % len(data.injected)])
            with phase("injected practice"):
                targets = epoch_targets(perturbed, config, injected)
                perturbed = with_selected_neighbourhoods(state, perturbed, config, injected, targets)
                selection_phase(state, perturbed, config, injected, targets)
    with phase("representation"):
        loss, share = representation_phase(state, data, config, stream, selecting)
    evaluation = key.fold_in("validation")  # the same random numbers in every epoch
    with phase("validation"):
        score = validate(state, data, config, evaluation, selecting=selecting)
    with phase("injected-edge AUC"):
        auc = measure_injected_auc(state, data, config, evaluation) if selecting else None
    metric = getattr(data.task, "metric", "score")
    told = _numbers(loss, reward, share, float("nan") if auc is None else auc)
    found = None if auc is None else told[3]
    return Epoch(state.epoch, told[0], score, told[1], told[2], divergence, decisions, found, metric)


def _numbers(*values: float | Tensor) -> list[float]:
    """Return values as floats; the host waits once for all that are on a device."""
    there = [value.double() for value in values if isinstance(value, Tensor)]
    fetched = iter(torch.stack(there).tolist() if there else [])
    return [next(fetched) if isinstance(value, Tensor) else value for value in values]


def validate(
    state: TrainingState, data: TrainingData, config: Config, key: Key, *, selecting: bool = True
) -> float:
    """Return the task's quality (micro-F1 by default) on the validation nodes, predicted on the whole graph."""
    if data.validation.numel() == 0:
        return float("nan")
    policy = state.policy if selecting else None
    most, usual = config.training.validation_episodes, config.inference
    fewer = replace(
        usual, episodes=min(most, usual.episodes), context_episodes=min(most, usual.context_episodes)
    )
    config = replace(config, inference=fewer)
    chosen = select(policy, state.aggregators, data.whole, data.validation, config, key)
    weight = chosen.weight(config.inference.mode)
    _, probabilities = aggregate(state.aggregators, chosen.prepared, data.validation, weight)
    return data.task.quality(probabilities, data.validation_labels)


@torch.no_grad()
def measure_injected_auc(
    state: TrainingState, data: TrainingData, config: Config, key: Key
) -> Float[Tensor, ""] | None:
    """Return the ROC AUC of keep probabilities on the held-out perturbed graph; None if there is none."""
    if data.held_out_graph is None:
        return None
    train, genuine = data.held_out_graph.perturbed, data.held_out_graph.genuine
    nodes, most = torch.arange(train.num_nodes, device=train.device), config.training.injected_targets
    if nodes.numel() > most:  # of a large graph, the decisions of some nodes
        nodes = torch.randperm(train.num_nodes, generator=key.fold_in("sample").generator())[:most].to(nodes)
    perturbed = replace(data, train=train)
    perturbed = with_selected_neighbourhoods(state, perturbed, config, key, nodes)
    probability, _ = play_once(state, perturbed, config, nodes, key)
    if nodes.numel() == train.num_nodes:
        on_edges = train.on_edges(train.symmetrise(probability))
    else:
        asked = torch.zeros_like(probability, dtype=torch.bool)
        asked[edges_of(train, nodes)[1]] = True
        asked = train.on_edges(asked)
        on_edges, genuine = train.on_edges(probability)[asked], genuine[asked]
    with phase("ROC AUC"):
        return roc_auc(genuine, on_edges)


def settled(config: Config) -> int:
    """Return the last epoch that cannot be the best, since the policy is not yet trained enough."""
    waiting = min(config.training.settle, config.training.epochs - 1) if config.training.selection else 0
    return config.training.warmup + waiting


def is_best(history: History, config: Config) -> bool:
    """Return whether the last epoch has a higher score than all eligible epochs before it."""
    *before, last = _worths(history, config)
    return all(last > other for other in before)


def is_over(history: History, best_epoch: int, config: Config, targets: int | None = None) -> bool:
    """Return whether neither validation F1 nor the score has improved for the configured patience.

    An epoch of few targets teaches little, so that the patience also counts targets; it is 20 epochs at most then.
    """
    start = settled(config)
    scores = [one["validation_f1"] for one in history[start:]]
    risen = max(_last_rise(scores), _last_rise(_worths(history, config)), best_epoch - start)
    wanted = 0 if targets is None else -(-config.training.patience_targets // max(targets, 1))
    wanted = min(wanted, _MOST_PATIENT)
    return len(history) - start - risen >= max(config.training.patience, wanted)


def _worths(history: History, config: Config) -> list[float]:
    """Return the score of each eligible epoch."""
    weight = config.training.injected_weight
    return [
        one["validation_f1"] + weight * (one.get("injected_auc") or 0.0) for one in history[settled(config) :]
    ]


def _last_rise(values: Sequence[float]) -> int:
    """Return the position, from one, of the first of the largest values; zero if there is none."""
    return max(range(len(values)), key=values.__getitem__, default=-1) + 1
