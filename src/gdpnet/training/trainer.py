"""Train the policy and the aggregators in alternation, evaluate every epoch, and choose the best.

The score of an epoch is its validation F1, or another metric of the task, plus the weighted injected-edge AUC: the
ROC AUC of keep probabilities against injected edges. There are few validation nodes: among epochs with equal F1 some
clean the graph far better than others, and injected edges show which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
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
from gdpnet.training.shared_state import collect_found, share_state
from gdpnet.training.state import Epoch, TrainingState

if TYPE_CHECKING:
    from gdpnet.training.strategy import TrainingTask

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
    task: TrainingTask | None = None,
) -> None:
    """Train until the last epoch, or until validation has not improved for the configured patience.

    Random streams depend only on the key and the epoch's number, so a checkpoint needs no generator state. At
    the end ``state.best`` holds the best weights by validation F1 and injected-edge AUC, or the last ones
    without validation nodes. The task says on which part of a large graph an epoch is trained; tasks without labels
    update their labels every few epochs.
    """
    for callback in callbacks:
        callback.on_train_begin(state)
    ranks = state.ranks
    share_state(state)
    if state.best_epoch <= settled(config):  # a run that goes on with more epochs may settle later
        state.forget_best()
    total = config.training.warmup + config.training.epochs
    targets = ranks.least(data.targets.numel())
    has_validation = ranks.any(data.validation.numel() > 0)
    while (
        state.epoch < total
        and not state.stopped
        and not is_over(state.history, state.best_epoch, config, targets)
    ):
        state.epoch += 1
        trusted = _data_of_epoch(state, data, config, task)
        targets = ranks.least(trusted.targets.numel())
        with phase("epochs" if state.epoch > config.training.warmup else "warm-up"):
            epoch = _one_epoch(state, *_own_share(state, trusted, config), key)
        del trusted  # a part whose memory the next one needs
        state.history.append(asdict(epoch))
        if state.epoch > settled(config) and (not has_validation or is_best(state.history, config)):
            state.remember_best(epoch.validation_f1)
        collect_found(state)
        with phase("callbacks"):
            for callback in callbacks:
                callback.on_epoch_end(state, epoch)
        state.stopped = ranks.any(state.stopped)
    for callback in callbacks:
        callback.on_train_end(state)


def _data_of_epoch(
    state: TrainingState, data: TrainingData, config: Config, task: TrainingTask | None
) -> TrainingData:
    """Return the data of the epoch that begins, with the labels that are trusted and those that were found."""
    before, selecting = state.part, state.epoch - config.training.warmup
    data = data if task is None else task.data_of_epoch(state)
    has_begun = state.part != before  # a part whose labels were found just now
    is_due = config.training.selection and selecting > 1 and (selecting - 1) % config.task.refresh == 0
    if is_due and task is not None and not has_begun:
        found = task.update_targets(state)
        state.truth = state.truth if found is None else found
    if state.truth is not None:
        data = replace(data, labels=state.truth)
    checks = is_time_to_check_labels(state.epoch, state.suggested, config) or (has_begun and selecting > 1)
    if checks:
        suspected = suspect_labels(state.aggregators, data, config)
        state.suggested = state.suggested if suspected is None else suspected
    trusted = without_suspected(data, state.suggested)
    return trusted if state.pseudo is None else with_pseudo_labels(trusted, state.pseudo)


def _own_share(state: TrainingState, data: TrainingData, config: Config) -> tuple[TrainingData, Config]:
    """Return the targets and validation nodes that this rank works on, if all ranks train on the same graph.

    Batches and roll-outs are smaller by the number of ranks, so that all ranks together take the steps of one
    process.
    """
    part, parts = state.ranks.part, state.ranks.parts
    if parts == 1 or data.every_fold is not None:  # a rank has a part of its own
        return data, config
    own = replace(
        data,
        targets=data.targets[part::parts],
        validation=data.validation[part::parts],
        validation_labels=data.validation_labels[part::parts],
    )
    sizes = {
        "ppo": {
            name: max(1, getattr(config.ppo, name) // parts)
            for name in ("batch_size", "max_targets", "rollout_targets")
        },
        "representation": {"batch_size": max(1, config.representation.batch_size // parts)},
    }
    return own, config.with_values(sizes)


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
        if state.ranks.least(len(data.injected)):
            injected = stream.fold_in("injected")
            perturbed = replace(data, train=data.injected[state.epoch % len(data.injected)])
            with phase("injected practice"):
                targets = epoch_targets(perturbed, config, injected, state.ranks)
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
    is_known = auc is not None
    if state.ranks.size > 1:
        told, decisions = _merged(state.ranks, told, decisions)
        is_known = not isnan(told[3])
    found = told[3] if is_known else None
    return Epoch(state.epoch, told[0], score, told[1], told[2], divergence, decisions, found, metric)


def _merged(ranks: Ranks, told: list[float], decisions: int) -> tuple[list[float], int]:
    """Return the means of an epoch's numbers over the ranks that have them, and the sum of the decisions."""
    known = [not isnan(value) for value in told]
    sums = ranks.add(*(value if has else 0.0 for value, has in zip(told, known, strict=True)), decisions)
    counts = ranks.add(*known)
    means = [total / count if count else nan for total, count in zip(sums, counts, strict=False)]
    return means, int(sums[-1])


def _numbers(*values: float | Tensor) -> list[float]:
    """Return values as floats; the host waits once for all that are on a device."""
    there = [value.double() for value in values if isinstance(value, Tensor)]
    fetched = iter(torch.stack(there).tolist() if there else [])
    return [next(fetched) if isinstance(value, Tensor) else value for value in values]


def validate(
    state: TrainingState, data: TrainingData, config: Config, key: Key, *, selecting: bool = True
) -> float:
    """Return the task's quality (micro-F1 by default) on the validation nodes of all ranks, on the whole graph."""
    labels = state.ranks.join_rows(data.validation_labels)
    if labels.shape[0] == 0:
        return float("nan")
    probabilities = state.aggregators.weight.new_empty(0, state.aggregators.classes)
    if data.validation.numel():
        probabilities = _validation_probabilities(state, data, config, key, selecting)
    return data.task.quality(state.ranks.join_rows(probabilities), labels)


def _validation_probabilities(
    state: TrainingState, data: TrainingData, config: Config, key: Key, selecting: bool
) -> Float[Tensor, "validation classes"]:
    policy = state.policy if selecting else None
    most, usual = config.training.validation_episodes, config.inference
    fewer = replace(
        usual, episodes=min(most, usual.episodes), context_episodes=min(most, usual.context_episodes)
    )
    config = replace(config, inference=fewer)
    chosen = select(policy, state.aggregators, data.whole, data.validation, config, key)
    weight = chosen.weight(config.inference.mode)
    return aggregate(state.aggregators, chosen.prepared, data.validation, weight)[1]


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
