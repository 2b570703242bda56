"""The training data of one epoch: the part whose turn it is, trusted labels, and the share of this rank."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gdpnet.config import Config
from gdpnet.training.data import TrainingData
from gdpnet.training.label_noise import is_time_to_check_labels, suspect_labels, without_suspected
from gdpnet.training.pseudo_labels import with_pseudo_labels
from gdpnet.training.state import TrainingState

if TYPE_CHECKING:
    from gdpnet.training.strategy import TrainingTask


def data_of_epoch(
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


def own_share(state: TrainingState, data: TrainingData, config: Config) -> tuple[TrainingData, Config]:
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
