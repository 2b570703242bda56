"""Fit the heads that no decision of the policy has a part in, and report each."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.networks import Networks
from gdpnet.training.callbacks import Steps, score_text
from gdpnet.training.data import TrainingData
from gdpnet.training.fit_all_edges_head import fit_all_edges, is_worth_all_edges
from gdpnet.training.fit_linear_head import fit_linear, is_worth_linear
from gdpnet.training.fit_trees_head import fit_trees, is_worth_trees
from gdpnet.training.held_out import HeldOutNodes


def fit_without_decisions(
    networks: Networks, data: TrainingData, held_out: HeldOutNodes, config: Config, key: Key, steps: Steps
) -> dict[str, Float[Tensor, "held classes"]]:
    """Fit the all-edges, the trees and the linear head; return their probabilities of held-out nodes by name."""
    outputs, found = networks.aggregators.classes, {}
    given = (data, held_out, outputs, config)

    def alone(probabilities: Tensor) -> str:
        score = score_text(data.task.quality(probabilities, held_out.labels), config)
        return f"alone: {score.removeprefix('validation ')} on {held_out.nodes.numel():,} held-out nodes"

    if is_worth_all_edges(data, held_out, config):
        with steps.run("all-edges head", "fitting the all-edges head") as step:
            networks.all_edges, found["all_edges"] = fit_all_edges(*given, key.fold_in("all-edges"))
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
