"""One small search of settings, the same for every network, so that no method is compared at a disadvantage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from gdpnet.baselines.fitting import Settings
from gdpnet.baselines.methods import method_of, run_method
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


def search(
    name: str,
    graphs: Sequence[Graph],
    seeds: Iterable[int] = (0,),
    device: torch.device | str = "cpu",
) -> Settings:
    """Return the candidate of best mean validation micro-F1 over all graphs and seeds; the first of equals.

    Test nodes are not scored. What a method chooses on validation by itself (a share of links, a rank) it
    chooses anew with each candidate. A method without a network has nothing to search.
    """
    method, trials = method_of(name), [(graph, seed) for graph in graphs for seed in seeds]
    if not trials:
        raise ConfigError("a search needs one graph and one seed or more, found none")
    if not method.network:
        return method.settings
    candidates = [replace(method.settings, **candidate) for candidate in CANDIDATES]
    scores = [
        sum(run_method(name, graph, seed, device, candidate).validation_f1 for graph, seed in trials)
        for candidate in candidates
    ]
    return candidates[scores.index(max(scores))]
