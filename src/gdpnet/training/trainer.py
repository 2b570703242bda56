"""Train the policy and the aggregators in alternation, evaluate every epoch, and choose the best.

The score of an epoch is its validation F1, or another metric of the task, plus the weighted injected-edge AUC: the
ROC AUC of keep probabilities against injected edges. There are few validation nodes: among epochs with equal F1 some
clean the graph far better than others, and injected edges show which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gdpnet._core.beside import Beside
from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.training.callbacks import Callback
from gdpnet.training.data import TrainingData
from gdpnet.training.epoch_data import data_of_epoch, own_share
from gdpnet.training.representation_phase import representation_phase
from gdpnet.training.selection_phase import epoch_targets, selection_phase, with_selected_neighbourhoods
from gdpnet.training.shared_state import collect_found, share_state
from gdpnet.training.state import Epoch, TrainingState
from gdpnet.training.validation import measure_injected_auc, validate

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
    beside = Beside(enabled=False) if task is None else task.beside
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
        trusted = data_of_epoch(state, data, config, task)
        targets = ranks.least(trusted.targets.numel())
        with phase("epochs" if state.epoch > config.training.warmup else "warm-up"):
            epoch = _one_epoch(state, *own_share(state, trusted, config), key, beside)
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


def _one_epoch(state: TrainingState, data: TrainingData, config: Config, key: Key, beside: Beside) -> Epoch:
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
    measure = partial(measure_injected_auc, state, data, config, evaluation)
    # it projects features of its own, and validation does not call `TrainingState.project_alone`
    measured = beside.start("injected-edge AUC", measure) if selecting else None
    with phase("validation"):
        score = validate(state, data, config, evaluation, selecting=selecting)
    with phase("injected-edge AUC"):
        auc = None if measured is None else measured()
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
