"""One small search of settings, the same for every network, so that no method is compared at a disadvantage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gdpnet.baselines.fitting import Settings, make_task
from gdpnet.baselines.methods import method_of, run_task
from gdpnet.errors import ConfigError
from gdpnet.graph.graph import Graph

CANDIDATES: tuple[dict[str, Any], ...] = (
    *(
        {"width": 64, "learning_rate": 0.01, "dropout": dropout, "weight_decay": decay}
        for dropout in (0.0, 0.3, 0.5, 0.7)
        for decay in (5e-4, 5e-5)
    ),
    {"width": 64, "learning_rate": 0.003, "dropout": 0.5, "weight_decay": 5e-4},
    {"width": 128, "learning_rate": 0.01, "dropout": 0.5, "weight_decay": 5e-4},
)
"""The ten settings that are tried: dropout by weight decay, then a smaller step, then a wider layer."""


@dataclass(frozen=True)
class Searched:
    """The settings that did best on validation, and the mean validation micro-F1 of every candidate."""

    settings: Settings
    scores: tuple[float, ...] = ()


def search(
    name: str,
    graphs: Sequence[Graph],
    seeds: Iterable[int] = (0,),
    device: torch.device | str = "cpu",
) -> Searched:
    """Find the candidate of best mean validation micro-F1 over all graphs and seeds; the first of equals.

    Test nodes are not scored. What a method chooses on validation by itself (a share of links, a rank) it chooses
    once for each graph and seed with its own settings, and all candidates are compared at that choice; it is open
    again in the settings that are returned. A method without a network has nothing to search.
    """
    method, seeds = method_of(name), list(seeds)
    trials = [(make_task(graph, seed), seed) for graph in graphs for seed in seeds]
    if not trials:
        raise ConfigError("a search needs one graph and one seed or more, found none")
    if not method.network:
        return Searched(method.settings)
    candidates = [replace(method.settings, **candidate) for candidate in CANDIDATES]
    totals = [0.0] * len(candidates)
    for task, seed in trials:  # a trial at a time: scores of its links are worked out once
        chosen = run_task(name, task, seed, device).chosen if method.chooses else {}
        choice = next(iter(chosen.values()), None)
        for place, candidate in enumerate(candidates):
            found = run_task(name, task, seed, device, replace(candidate, choice=choice))
            totals[place] += found.validation_f1
    scores = tuple(total / len(trials) for total in totals)
    return Searched(candidates[scores.index(max(scores))], scores)
