"""Train the policy and the aggregators in alternation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import torch
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.training.best_epoch import is_best, is_over, settled
from gdpnet.training.data import TrainingData
from gdpnet.training.label_noise import is_time_to_check_labels, suspect_labels, without_suspected
from gdpnet.training.representation_phase import representation_phase, selected_edges, shuffled_batches
from gdpnet.training.rollouts import with_selected_neighbourhoods
from gdpnet.training.selection_phase import selection_phase
from gdpnet.training.state import Epoch, TrainingState
from gdpnet.training.validation import measure_injected_auc, validate


def train_epochs(
    state: TrainingState,
    data: TrainingData,
    config: Config,
    key: Key,
    on_epoch_end: Callable[[TrainingState, Epoch], None],
    update_targets: Callable[[TrainingState], Tensor | None],
) -> None:
    """Train until the last epoch, or until validation has not improved for the configured patience.

    Random streams depend only on the key and the epoch's number, so a checkpoint needs no generator state. At
    the end ``state.best`` holds the best weights by validation F1 and injected-edge AUC, or the last ones
    without validation nodes. Tasks without labels update their labels every few epochs.
    """
    total = config.training.warmup + config.training.epochs
    while state.epoch < total and not is_over(state.history, state.best_epoch, config):
        state.epoch += 1
        selecting = state.epoch - config.training.warmup
        if config.training.selection and selecting > 1 and (selecting - 1) % config.task.refresh == 0:
            found = update_targets(state)
            state.truth = state.truth if found is None else found
        if state.truth is not None:
            data = replace(data, labels=state.truth)
        if is_time_to_check_labels(state.epoch, state.suggested, config):
            suspected = suspect_labels(state.aggregators, data, config)
            state.suggested = state.suggested if suspected is None else suspected
        trusted = without_suspected(data, state.suggested)
        epoch = _one_epoch(state, trusted, config, key)
        state.history.append(asdict(epoch))
        if state.epoch > settled(config) and (data.validation.numel() == 0 or is_best(state.history, config)):
            state.remember_best(epoch.validation_f1)
        on_epoch_end(state, epoch)


def _one_epoch(state: TrainingState, data: TrainingData, config: Config, key: Key) -> Epoch:
    """Run both phases once and evaluate on the validation nodes."""
    stream = key.fold_in("epoch", state.epoch)
    selecting = config.training.selection and state.epoch > config.training.warmup
    reward, divergence, decisions = 0.0, 0.0, 0
    policy, aggregators = state.policy, state.aggregators
    if selecting:
        genuine = stream.fold_in("genuine")
        data = with_selected_neighbourhoods(policy, aggregators, data, config, genuine)
        reward, divergence, decisions = selection_phase(state, data, config, genuine)
        if data.injected:
            injected = stream.fold_in("injected")
            perturbed = replace(data, train=data.injected[state.epoch % len(data.injected)])
            perturbed = with_selected_neighbourhoods(policy, aggregators, perturbed, config, injected)
            selection_phase(state, perturbed, config, injected)
    generator = stream.fold_in("batches").generator(data.targets.device)
    batches = list(shuffled_batches(data.targets, config, generator))
    selected, share = selected_edges(state, data, config, stream, torch.cat(batches), selecting)
    loss = representation_phase(state, data, config, generator, batches, selected)
    evaluation = key.fold_in("validation")  # the same random numbers in every epoch
    score = validate(policy if selecting else None, aggregators, data, config, evaluation)
    auc = measure_injected_auc(policy, aggregators, data, config, evaluation) if selecting else None
    return Epoch(state.epoch, loss, score, reward, share, divergence, decisions, auc)
