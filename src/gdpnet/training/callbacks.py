"""Callbacks: what happens around the epochs of a fit."""

from __future__ import annotations

from collections.abc import Callable

from gdpnet.training.state import Epoch, TrainingState


class Callback:
    """Called while a model is trained. Override what you need; every method does nothing by default."""

    def on_train_begin(self, state: TrainingState) -> None:
        """Run before the first epoch; may change the state, for instance to resume a run."""

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Run after every epoch."""

    def on_train_end(self, state: TrainingState) -> None:
        """Run after the last epoch, before the heads of the ensemble are fitted."""


class OnEpoch(Callback):
    """Call a function with every epoch."""

    def __init__(self, function: Callable[[Epoch], object]) -> None:
        self.function = function

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Call the function."""
        self.function(epoch)
