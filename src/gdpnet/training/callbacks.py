"""Callbacks: what happens around the epochs of a fit, and around the steps before and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from gdpnet.config import METRICS, Config
from gdpnet.training.state import Epoch, TrainingState


def score_text(value: float, config: Config) -> str:
    """Return a validation score with the name of the metric that the model is chosen by."""
    metric = "r2" if config.task.kind == "regression" else config.training.metric
    return f"validation {METRICS[metric]} {-value if metric == 'log_loss' else value:.3f}"


@dataclass(frozen=True)
class Step:
    """A step of a fit beside its epochs: reported as it begins, and again with its result."""

    name: str
    """``data``, ``best epoch``, ``decisions``, ``threshold``, ``hop-wise head``, ``GCN head``, ``ensemble``, ..."""
    doing: str
    """What is done."""
    result: str | None = None
    """What was found; None as long as the step runs."""
    score: float | None = None
    """Validation score of the model after the step, if the step has one."""
    seconds: float | None = None
    """How long the step took."""


class Callback:
    """Called while a model is trained. Override what you need; every method does nothing by default."""

    def on_train_begin(self, state: TrainingState) -> None:
        """Run before the first epoch; may change the state, for instance to resume a run."""

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Run after every epoch."""

    def on_train_end(self, state: TrainingState) -> None:
        """Run after the last epoch, before the heads of the ensemble are fitted."""

    def on_step(self, step: Step) -> None:
        """Run as a step before or after the epochs begins, and again with its result."""


class OnEpoch(Callback):
    """Call a function with every epoch and, if it has a method ``on_step``, that one with every step."""

    def __init__(self, function: Callable[[Epoch], object]) -> None:
        self.function = function

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Call the function."""
        self.function(epoch)

    def on_step(self, step: Step) -> None:
        """Call the function's own ``on_step``."""
        told = getattr(self.function, "on_step", None)
        if told is not None:
            told(step)


class Running:
    """A step that runs; what is set here is reported when it ends."""

    result: str = "done"
    score: float | None = None


class Steps:
    """Reports the steps of a fit to callbacks."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.callbacks = callbacks

    @contextmanager
    def run(self, name: str, doing: str) -> Iterator[Running]:
        """Report that a step begins and, unless it fails, what it found and how long it took."""
        step, running, start = Step(name, doing), Running(), perf_counter()
        self._report(step)
        yield running
        seconds = perf_counter() - start
        self._report(replace(step, result=running.result, score=running.score, seconds=seconds))

    def _report(self, step: Step) -> None:
        for callback in self.callbacks:
            callback.on_step(step)
