"""The search of settings with Optuna: choices learn from earlier ones, and hopeless fits end early."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from gdpnet._core.progress import part
from gdpnet._core.random import seed32_of
from gdpnet.benchmark.model_selection import SPACE, RandomSearch, Range, Search, Space
from gdpnet.config import checked_seed
from gdpnet.errors import ConfigError, reason_of
from gdpnet.estimator import GDPNet
from gdpnet.training.callbacks import Callback
from gdpnet.training.state import Epoch, TrainingState


def has_optuna() -> bool:
    """Return whether Optuna can be imported."""
    from importlib.util import find_spec

    return find_spec("optuna") is not None


def settings_search(
    model: GDPNet,
    space: Space = SPACE,
    *,
    trials: int = 20,
    seed: int = 0,
    storage: str | None = None,
    name: str = "gdpnet",
) -> OptunaSearch | RandomSearch:
    """Return a search with Optuna if it is installed, else one at random; only Optuna can store its trials."""
    if has_optuna() or storage is not None:
        return OptunaSearch(model, space, trials=trials, seed=seed, storage=storage, name=name)
    return RandomSearch(model, space, trials=trials, seed=seed)


class OptunaSearch(Search):
    """Search a space of settings with Optuna (TPE); fits below the median of earlier ones are pruned by epoch.

    Args:
        model: the model, with the settings that stay as they are.
        space: ranges and options by setting.
        trials: number of trials, together with those that the storage holds.
        seed: seed of the choices.
        storage: a database that keeps the trials, such as ``sqlite:///tune.db``; a search that was interrupted
            continues from it.
        name: the name of the study in the storage.
        prune: whether fits may end early.
    """

    def __init__(
        self,
        model: GDPNet,
        space: Space = SPACE,
        *,
        trials: int = 20,
        seed: int = 0,
        storage: str | None = None,
        name: str = "gdpnet",
        prune: bool = True,
    ) -> None:
        super().__init__(model)
        self.space, self.trials, self.seed = space, trials, checked_seed(seed)
        self.storage, self.name, self.prune = storage, name, prune

    def fit(self, graph: Any) -> OptunaSearch:
        """Run the trials on a graph, or on a list of graphs whose mean score counts; ``study_`` is Optuna's own."""
        optuna = _optuna()
        graphs = self.start(graph)
        pruner = optuna.pruners.MedianPruner(n_warmup_steps=10) if self.prune else optuna.pruners.NopPruner()
        with _refusing_database():
            self.study_ = optuna.create_study(
                direction="maximize",
                storage=self.storage,
                study_name=self.name,
                load_if_exists=True,
                sampler=optuna.samplers.TPESampler(seed=seed32_of(self.seed)),
                pruner=pruner,
            )
            left = self.trials - len(self.study_.get_trials(states=_ended(optuna)))
        numbers = count()

        def objective(trial: Any) -> float:
            settings = {name: _suggest(trial, name, one) for name, one in self.space.items()}
            with part(next(numbers), left):
                return self.try_settings(graphs, settings, [_Pruning(trial, optuna)])

        with _refusing_database("optuna", "sqlalchemy"):
            self.study_.optimize(objective, n_trials=max(left, 0))
        if self.study_.best_value > self.best_score_:  # an earlier session found it
            best = dict(self.study_.best_params)
            self.try_settings(
                graphs, {name: _option(self.space[name], value) for name, value in best.items()}
            )
        return self


@contextmanager
def _refusing_database(*libraries: str) -> Iterator[None]:
    """Say in one sentence why a database of trials cannot be used; exceptions of a trial's own stay as they are."""
    try:
        yield
    except Exception as error:
        if libraries and type(error).__module__.partition(".")[0] not in libraries:
            raise
        cause = error.__cause__ or error
        reason = reason_of(getattr(cause, "orig", None) or cause).split(". ")[
            0
        ]  # without its address and its query
        raise ConfigError(f"the database of trials cannot be used: {reason}") from error


class _Pruning(Callback):
    """Report the validation score of every epoch, and end a fit that Optuna prunes."""

    def __init__(self, trial: Any, optuna: Any) -> None:
        self.trial, self.optuna = trial, optuna

    def on_epoch_end(self, state: TrainingState, epoch: Epoch) -> None:
        """Report the score."""
        if math.isnan(epoch.validation_f1):
            return
        self.trial.report(epoch.validation_f1, epoch.epoch)
        if self.trial.should_prune():
            raise self.optuna.TrialPruned


def _suggest(trial: Any, name: str, options: Any) -> Any:
    if isinstance(options, Range):
        suggest = trial.suggest_int if options.is_whole else trial.suggest_float
        return suggest(name, options.low, options.high, log=options.log)
    return _option(options, trial.suggest_categorical(name, [_plain(one) for one in options]))


def _plain(value: Any) -> Any:
    """Return an option as Optuna stores it; lists are stored as text."""
    return str(list(value)) if isinstance(value, list | tuple) else value


def _option(options: Any, stored: Any) -> Any:
    if isinstance(options, Range):
        return stored
    return next(one for one in options if _plain(one) == stored)


def _ended(optuna: Any) -> tuple[Any, ...]:
    return optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("Optuna is not installed: pip install 'gdpnet[tune]'") from error
    # warnings have tracebacks, also of Ctrl-C; an exception is raised anyway
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
