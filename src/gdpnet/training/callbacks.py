"""Callbacks: what happens around the epochs of a fit, and around the steps before and after them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from gdpnet._core.log import LOGGER
from gdpnet._core.profiling import phase
from gdpnet._core.progress import limit, seconds_left, watch
from gdpnet._core.words import counted
from gdpnet.config import METRICS, Config
from gdpnet.errors import ConfigError, check_type, check_whole, nearest
from gdpnet.training.state import Epoch, TrainingState

_SMALLER_IS_BETTER = ("loss", "kl")
_TELL_EVERY = 0.1
"""Least seconds between two reports of how far a step is."""


def score_text(value: float, config: Config) -> str:
    """Return a validation score with the name of the metric that the model is chosen by."""
    metric = "r2" if config.task.kind == "regression" else config.training.metric
    return f"validation {METRICS[metric]} {-value if metric == 'log_loss' else value:.3f}"


def change_text(gains: int, losses: int, kind: str) -> str:
    """Return how many nodes of a kind are predicted right and wrong that were not before."""
    return f"{counted(gains, f'{kind} node')} gained and {losses:,} lost"


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
    done: float | None = None
    """The share of the step that is done while it runs; None if it is not known."""


class Callback:
    """Called while a model is trained. Override what you need; every method does nothing by default."""

    def on_train_begin(self, state: TrainingState) -> None:
        """Run before the first epoch; may change the state, for instance to resume a run."""

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Run after every epoch; ``state.stopped = True`` ends training."""

    def on_train_end(self, state: TrainingState) -> None:
        """Run after the last epoch, before the heads of the ensemble are fitted."""

    def on_step(self, step: Step) -> None:
        """Run as a step before or after the epochs begins, and again with its result."""

    def on_progress(self, step: Step) -> None:
        """Run now and then while a step goes on, with the share that is done."""


class OnEpoch(Callback):
    """Call a function with every epoch and, if it has methods ``on_step`` and ``on_progress``, those with steps."""

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

    def on_progress(self, step: Step) -> None:
        """Call the function's own ``on_progress``."""
        told = getattr(self.function, "on_progress", None)
        if told is not None:
            told(step)


def checked_callbacks(given: Any) -> list[Callback | Callable[[Epoch], object]]:
    """Return callbacks as a list; refuse what can be called with no epoch, before any is trained."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(f"callbacks must be a list, found {type(given).__name__}")
    found = list(given)
    for one in found:
        if isinstance(one, type) and issubclass(one, Callback):
            raise ConfigError(f"a callback must be made of its class: {one.__name__}(), found the class")
        if not (isinstance(one, Callback) or callable(one)):
            raise ConfigError(f"a callback must be a Callback or a function, found {type(one).__name__}")
    return found


class Running:
    """A step that runs; what is set here is reported when it ends."""

    result: str = "done"
    score: float | None = None


class Steps:
    """Reports the steps of a fit to callbacks."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.callbacks = callbacks

    @contextmanager
    def run(self, name: str, doing: str, *, share: float = 1.0) -> Iterator[Running]:
        """Report that a step begins, how far it is and, unless it fails, what it found and how long it took.

        If the time of the fit is limited, the step may take a ``share`` of what is left.
        """
        step, running, start = Step(name, doing), Running(), perf_counter()
        self._report(step)
        with phase(name), watch(self._teller(step)), limit(share * seconds_left()) as limited:
            yield running
        result = running.result + ("; cut short, as the time was up" if limited.was_reached else "")
        seconds = perf_counter() - start
        self._report(replace(step, result=result, score=running.score, seconds=seconds))

    def skips(self, name: str, doing: str) -> bool:
        """Return whether no time is left for a step, which is reported as left out then."""
        if seconds_left() > 0:
            return False
        self._report(Step(name, doing))
        self._report(Step(name, doing, result="left out, as the time is up", seconds=0.0))
        return True

    def _teller(self, step: Step) -> Callable[[float], None]:
        """Return a function that reports how far a step is, not too often."""
        last = perf_counter()

        def tell(done: float) -> None:
            nonlocal last
            now = perf_counter()
            if now - last >= _TELL_EVERY:
                last = now
                for callback in self.callbacks:
                    callback.on_progress(replace(step, done=done, seconds=now - start))

        start = last
        return tell

    def _report(self, step: Step) -> None:
        for callback in self.callbacks:
            callback.on_step(step)


class Progress(Callback):
    """Write a line per epoch to the logger ``gdpnet``, at level INFO; every metric at level DEBUG.

    ``GDPNet(verbose=1)`` adds this callback and shows the lines on stderr.
    """

    def __init__(self, every: int = 1) -> None:
        check_whole(every, "the number of epochs between two lines")
        self.every = every

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Write the line of an epoch."""
        if epoch.epoch % self.every == 0:
            score, kept = epoch.validation_f1, epoch.kept_share
            LOGGER.info(
                "epoch %d: loss %.4f, validation F1 %.4f, kept %.3f", epoch.epoch, epoch.loss, score, kept
            )
            LOGGER.debug("epoch %d: %s", epoch.epoch, _metrics(epoch))

    def on_step(self, step: Step) -> None:
        """Write what a step before or after the epochs found."""
        if step.result is not None:
            LOGGER.info("%s: %s (%.1f s)", step.name, step.result, step.seconds or 0.0)

    def on_train_end(self, state: TrainingState) -> None:
        """Write the best epoch."""
        LOGGER.info("best epoch: %d of %d, validation F1 %.4f", state.best_epoch, state.epoch, state.best_f1)


class EarlyStopping(Callback):
    """End training when a metric has not improved for some epochs.

    This is in addition to `training.patience`, which watches the validation score.

    Args:
        monitor: a metric of `gdpnet.training.state.Epoch`; ``loss`` and ``kl`` improve downwards, the others upwards.
        patience: epochs without an improvement before training ends.
        min_delta: the smallest change that counts as an improvement.
    """

    def __init__(self, monitor: str = "validation_f1", patience: int = 10, min_delta: float = 0.0) -> None:
        known = [item.name for item in fields(Epoch) if item.name not in ("epoch", "metric")]
        check_type(monitor, str, "the metric to monitor", "a name")
        if monitor not in known:
            raise ConfigError(f"an epoch has no metric '{monitor}'{nearest(monitor, known)}")
        check_whole(patience, "the patience, in epochs,")
        check_type(min_delta, (int, float), "min_delta", "a number")
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta

    def on_train_begin(self, state: TrainingState) -> None:
        """Start counting anew; epochs of a resumed run count."""
        self.best, self.waited = -math.inf, 0
        for line in state.history:
            self._count(line[self.monitor])

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """End training after too many epochs without an improvement."""
        self._count(getattr(epoch, self.monitor))
        state.stopped = state.stopped or self.waited >= self.patience

    def _count(self, value: float | None) -> None:
        if value is None or math.isnan(value):
            return
        worth = -value if self.monitor in _SMALLER_IS_BETTER else value
        if worth > self.best + self.min_delta:
            self.best, self.waited = worth, 0
        else:
            self.waited += 1


class MLflowCallback(Callback):
    """Log the metrics of every epoch to MLflow: to the active run, or else to one of its own."""

    def __init__(self, **run: Any) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise ConfigError("MLflow is not installed: pip install 'gdpnet[tracking]'") from error
        self.mlflow, self.run, self.started = mlflow, run, False

    def on_train_begin(self, state: TrainingState) -> None:
        """Start a run, with the arguments of ``mlflow.start_run``, unless one is active."""
        self.started = self.mlflow.active_run() is None
        if self.started:
            self.mlflow.start_run(**self.run)

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Log the metrics of an epoch."""
        self.mlflow.log_metrics(_metrics(epoch), step=epoch.epoch)

    def on_train_end(self, state: TrainingState) -> None:
        """End the run if this callback started it."""
        if self.started:
            self.mlflow.end_run()


class TensorBoardCallback(Callback):
    """Write the metrics of every epoch to a folder that TensorBoard shows."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError("TensorBoard is not installed: pip install 'gdpnet[tracking]'") from error
        self.writer = SummaryWriter(str(folder))

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Write the metrics of an epoch."""
        for name, value in _metrics(epoch).items():
            self.writer.add_scalar(name, value, epoch.epoch)

    def on_train_end(self, state: TrainingState) -> None:
        """Write what is left."""
        self.writer.flush()


def _metrics(epoch: Epoch) -> dict[str, float]:
    """Return the metrics of an epoch that it has."""
    values = asdict(epoch)
    del values["epoch"]
    known = {name: value for name, value in values.items() if isinstance(value, float | int)}
    return {name: float(value) for name, value in known.items() if not math.isnan(value)}
