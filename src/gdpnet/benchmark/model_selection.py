"""Choose settings and estimate scores: cross-validation over nodes, and searches by validation score."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler

from gdpnet._core.log import LOGGER
from gdpnet._core.progress import part
from gdpnet._core.random import seed32_of
from gdpnet.config import checked_seed
from gdpnet.data.graph import Graph
from gdpnet.data.io.open import as_graph
from gdpnet.data.splits import cross_validation_splits
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError, GraphError, check_type, check_whole, nearest
from gdpnet.estimator import GDPNet
from gdpnet.inference.classification_metrics import MEASURES
from gdpnet.training.callbacks import Callback

Scoring = str | Callable[[GDPNet, Graph], float]
"""A score of `gdpnet.inference.classification_metrics`, or a function of a fitted model and a graph."""


@dataclass(frozen=True)
class Scores:
    """One row per fold and repeat, and what they come to."""

    rows: list[dict[str, Any]]
    """``repeat``, ``fold``, ``validation``, ``seconds`` and every score."""
    names: tuple[str, ...]

    @property
    def mean(self) -> dict[str, float]:
        """Return the mean of every score."""
        return {name: float(np.mean([row[name] for row in self.rows])) for name in self.names}

    @property
    def deviation(self) -> dict[str, float]:
        """Return the standard deviation of every score over the folds."""
        return {
            name: float(np.std([row[name] for row in self.rows], ddof=len(self.rows) > 1))
            for name in self.names
        }

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame."""
        return _frame(self.rows)


def cross_validate(
    model: GDPNet,
    graph: Any,
    *,
    folds: int = 5,
    repeats: int = 1,
    scoring: Scoring | Sequence[Scoring] = "micro_f1",
    seed: int = 0,
) -> Scores:
    """Train on all folds but two, validate on the next one and score the last, for every fold in turn.

    Folds are stratified by class and cover the labelled nodes; the split of the graph is not used. Nodes of the
    scored fold are not part of the training graph. The model itself is left as it is: every fold trains a clone.

    Args:
        model: the model, with its settings.
        graph: the graph, or what can be read as one.
        folds: number of folds.
        repeats: how often nodes are divided into folds, each time with another seed.
        scoring: one or several scores.
        seed: seed of the first division into folds.
    """
    check_type(model, GDPNet, "the model", "a GDPNet")
    check_whole(folds, "the number of folds", 2)
    check_whole(repeats, "the number of repeats")
    seed = checked_seed(seed)
    wanted = [scoring] if isinstance(scoring, str) or callable(scoring) else scoring
    check_type(wanted, Iterable, "scoring", "a score or a list of them")
    graph, wanted = as_graph(graph), list(wanted)
    names = tuple(_check_score(one) for one in wanted)
    rows = []
    for repeat in range(repeats):
        for fold, split in enumerate(cross_validation_splits(graph, folds, seed + repeat)):
            start, one = time.perf_counter(), replace(graph, split=split)
            with part(repeat * folds + fold, repeats * folds):
                fitted = clone(model).fit(one)
            scores = dict(zip(names, _scores_of(fitted, one, wanted), strict=True))
            about = {"repeat": repeat, "fold": fold, "validation": fitted.validation_f1_}
            rows.append(about | scores | {"seconds": round(time.perf_counter() - start, 2)})
            LOGGER.info("repeat %d, fold %d of %d: %s", repeat + 1, fold + 1, folds, scores)
    return Scores(rows, names)


def _check_score(score: Scoring) -> str:
    if callable(score):
        return getattr(score, "__name__", "score")
    if not isinstance(score, str) or score not in MEASURES:
        raise ConfigError(f"there is no score '{score}'{nearest(score, MEASURES)}")
    return score


def _scores_of(model: GDPNet, graph: Graph, scoring: Iterable[Scoring]) -> list[float]:
    """Score a model on the labelled test nodes of a graph."""
    nodes, label = graph.nodes_in("test"), model.trained_.labels_of(graph)
    nodes = nodes[graph.labels[nodes] != UNKNOWN]
    truth, ones = label[nodes].numpy(), np.ones((1, nodes.numel()))
    probabilities = model.predict_proba(graph, nodes) if model.config.task.kind == "classification" else None
    found = []
    for one in scoring:
        if callable(one):
            found.append(float(one(model, graph)))
        elif probabilities is None:
            raise ConfigError(
                f"the score '{one}' is for classes, not for task {model.config.task.kind}: pass a function of "
                "model and graph"
            )
        else:
            found.append(float(MEASURES[one](probabilities, truth, ones)[0]))
    return found


class Range(NamedTuple):
    """Numbers from ``low`` to ``high``, whole ones if both are; with ``log``, uniform in the logarithm."""

    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether only whole numbers are in the range."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def rvs(self, random_state: np.random.RandomState) -> float:
        """Draw a number, as scikit-learn's sampler asks for it."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.is_whole and not self.log:
            return int(random_state.randint(int(self.low), int(self.high) + 1))
        drawn = float(random_state.uniform(low, high))
        value = min(max(math.exp(drawn) if self.log else drawn, self.low), self.high)
        return round(value) if self.is_whole else value


_WIDEST = (1 << 63) - 1
"""Numbers of a range are smaller in size, as numpy draws them."""

Space = Mapping[str, Range | Sequence[Any]]
"""For each setting, as ``section__key`` or ``key``, a range or the options to choose from."""

SPACE: Space = {
    "representation__learning_rate": Range(1e-3, 1e-2, log=True),
    "representation__weight_decay": Range(5e-5, 5e-3, log=True),
    "representation__dropout": Range(0.2, 0.8),
    "representation__width": (64, 128, 256),
    "ppo__learning_rate": Range(1e-3, 1e-2, log=True),
    "ppo__discount": Range(0.8, 1.0),
    "training__injected": Range(0.25, 1.0),
    "features__normalise": ("none", "row", "l2"),
}
"""The settings that `gdpnet tune --methods gdpnet` searches."""


class Search:
    """Fit a model with one choice of settings after another, and keep the one of best validation score.

    What searches have in common. Test nodes are not used. After ``fit``, ``results_`` has a row per choice, and
    ``best_settings_``, ``best_score_`` and ``best_model_`` are those of the best.
    """

    def __init__(self, model: GDPNet) -> None:
        self.model = model

    def try_all(self, graph: Any, choices: Iterable[dict[str, Any]]) -> None:
        """Try some choices of settings on a graph, or on a list of graphs whose mean score counts."""
        graphs = self.start(graph)
        every = list(choices)
        for number, settings in enumerate(every):
            with part(number, len(every)):
                self.try_settings(graphs, settings)

    def start(self, graph: Any) -> list[Graph]:
        """Forget earlier results and return the graphs."""
        check_type(self.model, GDPNet, "the model", "a GDPNet")
        self.results_: list[dict[str, Any]] = []
        self.best_settings_: dict[str, Any] = {}
        self.best_score_, self.best_model_ = -math.inf, self.model
        return [as_graph(one) for one in (graph if isinstance(graph, list | tuple) else [graph])]

    def try_settings(
        self, graphs: list[Graph], settings: dict[str, Any], callbacks: Iterable[Callback] = ()
    ) -> float:
        """Return the mean validation score of a choice of settings; the callbacks see the first fit."""
        start, models = time.perf_counter(), []
        for place, graph in enumerate(graphs):
            model = clone(self.model).set_params(**settings)
            with part(place, len(graphs)):
                models.append(model.fit(graph, callbacks=callbacks if place == 0 else ()))
        score = float(np.mean([model.validation_f1_ for model in models]))
        if math.isnan(score):
            raise GraphError("a search needs labelled validation nodes, found none")
        self.results_.append(settings | {"score": score, "seconds": round(time.perf_counter() - start, 2)})
        LOGGER.info("settings %d: validation score %.4f, %s", len(self.results_), score, settings)
        if score > self.best_score_:
            self.best_settings_, self.best_score_, self.best_model_ = settings, score, models[0]
        return score

    def to_pandas(self) -> Any:
        """Return the results as a pandas frame, best first."""
        return _frame(sorted(self.results_, key=lambda row: -row["score"]))


class GridSearch(Search):
    """Try every combination of some settings: ``GridSearch(GDPNet(), {"epochs": [20, 60], "hops": [1, 2]})``."""

    def __init__(self, model: GDPNet, grid: Mapping[str, Sequence[Any]]) -> None:
        super().__init__(model)
        self.grid = _checked_options(grid, "grid")

    def fit(self, graph: Any) -> GridSearch:
        """Try every combination on a graph, or on a list of graphs whose mean score counts."""
        self.try_all(graph, self.choices())
        return self

    def choices(self) -> Iterable[dict[str, Any]]:
        """Return every combination."""
        return ParameterGrid({name: list(values) for name, values in self.grid.items()})


class RandomSearch(Search):
    """Try some random choices out of a space of settings.

    Args:
        model: the model, with the settings that stay as they are.
        space: ranges and options by setting; distributions of ``scipy.stats`` work too.
        trials: number of choices.
        seed: seed of the choices.
    """

    def __init__(self, model: GDPNet, space: Space = SPACE, *, trials: int = 20, seed: int = 0) -> None:
        super().__init__(model)
        check_whole(trials, "the number of trials")
        self.space, self.trials = _checked_options(space, "space"), trials
        self.seed = checked_seed(seed)

    def fit(self, graph: Any) -> RandomSearch:
        """Try the random choices on a graph, or on a list of graphs whose mean score counts."""
        self.try_all(graph, self.choices())
        return self

    def choices(self) -> Iterable[dict[str, Any]]:
        """Return the random choices; fewer if the space has fewer."""
        space = {name: one if hasattr(one, "rvs") else list(one) for name, one in self.space.items()}
        count = math.prod(len(one) if isinstance(one, list) else self.trials for one in space.values())
        for drawn in ParameterSampler(space, min(self.trials, count), random_state=seed32_of(self.seed)):
            yield {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in drawn.items()
            }


def _checked_options(given: Any, what: str) -> Any:
    """Refuse what is no dictionary from settings to options."""
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"the {what} must be a dictionary from settings to options, found {type(given).__name__}"
        )
    for name, options in given.items():
        if isinstance(options, str) or not (hasattr(options, "rvs") or isinstance(options, Iterable)):
            raise ConfigError(f"the options of '{name}' must be a list or a range, found {options!r}")
        if isinstance(options, Range):
            _check_range(name, options)
        elif isinstance(options, Sized) and not len(options):
            raise ConfigError(f"the options of '{name}' must hold at least one, found none")
    return given


def _check_range(name: str, given: Range) -> None:
    """Refuse a range between what are no numbers, or without a number in it."""
    ends = given.low, given.high
    for end in ends:
        if not isinstance(end, int | float) or not abs(end) < _WIDEST:
            raise ConfigError(f"the range of '{name}' must be one of finite numbers, found {end!r}")
    if given.low > given.high:
        raise ConfigError(f"the range of '{name}' must ascend, found {given.low} to {given.high}")
    if given.log and given.low <= 0:
        raise ConfigError(f"the range of '{name}' must begin above zero for a logarithm, found {given.low}")


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ConfigError(
            "frames need pandas, which is not installed: pip install 'gdpnet[pandas]'"
        ) from error
    return pandas.DataFrame(rows)
