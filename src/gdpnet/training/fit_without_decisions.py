"""Fit the heads that no decision of the policy has a part in, and report each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.networks import Networks
from gdpnet.training.callbacks import Steps, score_text
from gdpnet.training.data import TrainingData
from gdpnet.training.fit_all_edges_head import FittedAllEdges, fit_all_edges, is_worth_all_edges
from gdpnet.training.fit_linear_head import fit_linear, is_worth_linear
from gdpnet.training.fit_trees_head import fit_trees, is_worth_trees
from gdpnet.training.held_out import HeldOutNodes

AllEdgesBegun: TypeAlias = Callable[[], FittedAllEdges]
"""Waits for an all-edges head that is being fitted."""


def begin_all_edges(
    networks: Networks, data: TrainingData, config: Config, key: Key, beside: Beside
) -> AllEdgesBegun | None:
    """Begin to fit the all-edges head, if it is wanted; return what waits for it."""
    held_out, outputs = HeldOutNodes.of(data), networks.aggregators.classes
    if not is_worth_all_edges(data, held_out, outputs, config):
        return None
    job = partial(fit_all_edges, data, held_out, outputs, config, key.fold_in("all-edges"))
    return beside.start("all-edges head", job)


def fit_without_decisions(
    networks: Networks,
    data: TrainingData,
    held_out: HeldOutNodes,
    config: Config,
    key: Key,
    steps: Steps,
    all_edges: AllEdgesBegun | None,
) -> dict[str, Float[Tensor, "held classes"]]:
    """Fit the trees and the linear head, and wait for the all-edges head; return their probabilities by name.

    They are those of the held-out nodes.
    """
    outputs, found = networks.aggregators.classes, {}
    given = (data, held_out, outputs, config)

    def alone(probabilities: Tensor) -> str:
        score = score_text(data.task.quality(probabilities, held_out.labels), config)
        return f"alone: {score.removeprefix('validation ')} on {held_out.nodes.numel():,} held-out nodes"

    if all_edges is not None:
        with steps.run("all-edges head", "fitting the all-edges head") as step:
            networks.all_edges, found["all_edges"] = all_edges()
            step.result = alone(found["all_edges"])
    if is_worth_trees(data, held_out, outputs, config):
        with steps.run("trees head", "fitting the trees head") as step:
            networks.trees, found["trees"] = fit_trees(*given, key.fold_in("trees"))
            step.result = alone(found["trees"])
    if is_worth_linear(data, held_out, config):
        with steps.run("linear head", "fitting the linear head") as step:
            networks.linear, found["linear"] = fit_linear(*given)
            step.result = alone(found["linear"])
    return found
