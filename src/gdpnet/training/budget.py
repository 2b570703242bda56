"""End a fit in time: the epochs stop early enough for what follows them, with the best weights so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from time import perf_counter

from gdpnet._core.progress import Limit, limit, watch, watcher
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.training.callbacks import Callback, Steps
from gdpnet.training.data import TrainingData
from gdpnet.training.state import Epoch, TrainingState
from gdpnet.training.strategy import TrainingTask
from gdpnet.training.trainer import settled, train_epochs

_RESERVED_SHARE = 0.3
"""Share of the time that is kept for the steps after the epochs."""

_RESERVED_EPOCHS = 2.0
"""The time of so many epochs of the policy is kept at least: deciding on every edge takes about one."""

_FIRST_EPOCH = 4.0
"""How many epochs of the warm-up the first epoch of the policy is expected to take."""


class Budget(Callback):
    """Ends training before ``training.seconds`` are over, after one epoch at least.

    It must be the first callback, so that a checkpoint holds the time of its epoch. No time is measured inside an
    epoch. Whoever watches the fit is told how many epochs are done.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.settings = config, config.training
        self.last, self.tell = perf_counter(), watcher()
        self.state: TrainingState | None = None
        self.is_over, self.best_of_warmup = False, -math.inf

    @property
    def left(self) -> float:
        """Return the seconds that are left; infinity without a limit."""
        spent = 0.0 if self.state is None else self.state.seconds
        total = self.settings.seconds or math.inf
        return total - spent - (perf_counter() - self.last)

    def limit_preparation(self) -> AbstractContextManager[Limit]:
        """Limit what precedes the epochs, where it can end early, to half of the seconds."""
        return limit(self.left / 2)

    def limit_rest(self) -> AbstractContextManager[Limit]:
        """Limit what follows the epochs to the seconds that are left."""
        return limit(self.left)

    def on_train_begin(self, state: TrainingState) -> None:
        """Take the state, which counts the time."""
        self.state = state

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Count the time of the epoch, and end training if the next one would take too long."""
        now = perf_counter()
        took, self.last = now - self.last, now
        state.seconds += took
        self.tell(state.epoch / (self.settings.warmup + self.settings.epochs))
        if not self.settings.seconds:
            return
        if state.epoch <= settled(self.config) and not epoch.validation_f1 <= self.best_of_warmup:
            self.best_of_warmup = epoch.validation_f1
            state.remember_best(epoch.validation_f1)  # the first epoch that may be chosen replaces it
        self.is_over = self.left < self._needed(state.epoch, took)
        state.stopped = state.stopped or self.is_over

    def _needed(self, epoch: int, took: float) -> float:
        """Return the seconds that one more epoch and all that follows the epochs are expected to take."""
        needed = self.settings.seconds * _RESERVED_SHARE
        if self.settings.selection and epoch == self.settings.warmup:
            took *= _FIRST_EPOCH
        if self.settings.selection and epoch >= self.settings.warmup:
            needed = max(needed, took * _RESERVED_EPOCHS)
        return took + needed

    def report(self, state: TrainingState, steps: Steps) -> None:
        """Say what is left out, if the time ended the epochs."""
        last = self.settings.warmup + self.settings.epochs
        if not self.is_over or state.epoch >= last:
            return
        with steps.run("time limit", "ending the epochs in time") as step:
            step.result = (
                f"epochs {state.epoch + 1} to {last} are left out; {max(0.0, self.left):.1f} of "
                f"{self.settings.seconds:g} s are left for what follows them (training.seconds)"
            )


def train_in_time(
    budget: Budget,
    state: TrainingState,
    data: TrainingData,
    key: Key,
    callbacks: Sequence[Callback],
    task: TrainingTask,
) -> None:
    """Run the epochs; only whole ones advance the fit."""
    with watch(None):
        train_epochs(state, data, budget.config, key, [budget, *callbacks], task)
