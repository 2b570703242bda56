"""One small search of settings, the same for every network, so that no method is at a disadvantage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from gdpnet.benchmark.baselines.fitting import Settings, Task
from gdpnet.benchmark.baselines.methods import method_of, run_task
from gdpnet.errors import ConfigError

CANDIDATES: tuple[dict[str, Any], ...] = (
    *(
        {"width": 64, "learning_rate": 0.01, "dropout": dropout, "weight_decay": decay}
        for dropout in (0.0, 0.3, 0.5, 0.7)
        for decay in (5e-4, 5e-5)
    ),
    {"width": 64, "learning_rate": 0.003, "dropout": 0.5, "weight_decay": 5e-4},
    {"width": 128, "learning_rate": 0.01, "dropout": 0.5, "weight_decay": 5e-4},
)
"""The ten settings tried first: dropout by weight decay, then a smaller learning rate, then a wider layer."""

DEPTHS = (1, 3)
"""Numbers of layers, in place of two, that are then tried with the best of those."""

Scored = tuple[dict[str, Any], float]
"""The settings that a candidate changes, and its mean validation micro-F1."""


@dataclass(frozen=True)
class Searched:
    """The best settings on validation, and every candidate with its score."""

    settings: Settings
    tried: tuple[Scored, ...] = ()


def search_tasks(
    name: str,
    tasks: Iterable[tuple[Task, int]],
    device: torch.device | str = "cpu",
    known: Iterable[Scored] = (),
) -> Searched:
    """Return the candidate of best mean validation micro-F1 over some tasks, each with its seed; of equals the first.

    Test nodes are not scored. A method that chooses a parameter on validation (a share of edges, a rank) does so once
    per task with its default settings, and all candidates are compared at that choice; the returned settings leave it
    open. A method without a network has nothing to search. ``known`` are candidates that an earlier search on the
    same tasks has scored; they are not tried again.
    """
    method = method_of(name)
    trials = [_Trial(name, task, seed, device) for task, seed in tasks]
    if not trials:
        raise ConfigError("a search needs at least one task, found none")
    if not method.network:
        return Searched(method.settings)
    tried = _try(trials, CANDIDATES, known)
    tried += _try(trials, _deeper(_best_of(tried)), known)
    return Searched(replace(method.settings, **_best_of(tried)), tuple(tried))


@dataclass(frozen=True)
class _Trial:
    """One task and seed on which candidates are compared."""

    name: str
    task: Task
    seed: int
    device: torch.device | str

    @cached_property
    def choice(self) -> float | None:
        """Return the parameter that the method chooses with its default settings, if any."""
        if not method_of(self.name).chooses:
            return None
        return next(iter(run_task(self.name, self.task, self.seed, self.device).chosen.values()), None)

    def score(self, candidate: dict[str, Any]) -> float:
        """Return the validation micro-F1 of a candidate."""
        settings = replace(method_of(self.name).settings, **candidate, choice=self.choice)
        return run_task(self.name, self.task, self.seed, self.device, settings).validation_f1


def is_whole(tried: Iterable[Scored]) -> bool:
    """Return whether every candidate has been scored."""
    scored = {_key(candidate): (candidate, score) for candidate, score in tried}
    first = [scored.get(_key(candidate)) for candidate in CANDIDATES]
    known = [one for one in first if one is not None]
    return len(known) == len(first) and all(_key(one) in scored for one in _deeper(_best_of(known)))


def _deeper(best: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**best, "layers": layers} for layers in DEPTHS]


def _best_of(tried: Iterable[Scored]) -> dict[str, Any]:
    return max(tried, key=lambda one: one[1])[0]


def _try(
    trials: Sequence[_Trial], candidates: Sequence[dict[str, Any]], known: Iterable[Scored]
) -> list[Scored]:
    """Return the mean score of every candidate over all trials."""
    scored = {_key(candidate): score for candidate, score in known}
    new = [candidate for candidate in candidates if _key(candidate) not in scored]
    # one task after the other: scores of its edges are computed once
    each = [[trial.score(candidate) for candidate in new] for trial in trials]
    means = [sum(scores) / len(trials) for scores in zip(*each, strict=True)]
    scored |= dict(zip(map(_key, new), means, strict=True))
    return [(candidate, scored[_key(candidate)]) for candidate in candidates]


def _key(candidate: dict[str, Any]) -> str:
    return repr(sorted(candidate.items()))
