"""Evaluate an epoch: F1 on validation nodes, and ROC AUC of keep probabilities against injected edges."""

from __future__ import annotations

from dataclasses import replace

import torch
from sklearn.metrics import roc_auc_score

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.ensemble import aggregate
from gdpnet.inference.select import select
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.training.data import TrainingData
from gdpnet.training.rollouts import play_once, with_selected_neighbourhoods


def validate(
    policy: Policy | None, aggregators: Aggregators, data: TrainingData, config: Config, key: Key
) -> float:
    """Return the task's quality (micro-F1) on the validation nodes, predicted on the whole graph."""
    if data.validation.numel() == 0:
        return float("nan")
    chosen = select(policy, aggregators, data.whole, data.validation, config, key)
    weight = chosen.weight(config.inference.mode)
    _, probabilities = aggregate(aggregators, chosen.prepared, data.validation, weight)
    return data.task.quality(probabilities, data.validation_labels)


@torch.no_grad()
def measure_injected_auc(
    policy: Policy, aggregators: Aggregators, data: TrainingData, config: Config, key: Key
) -> float | None:
    """Return the ROC AUC of keep probabilities on the held-out perturbed graph; None if there is none."""
    if data.held_out_graph is None:
        return None
    perturbed = with_selected_neighbourhoods(
        policy, aggregators, replace(data, train=data.held_out_graph.perturbed), config, key
    )
    all_nodes = torch.arange(perturbed.train.num_nodes, device=perturbed.train.device)
    probability, _ = play_once(policy, aggregators, perturbed, config, all_nodes, key)
    on_edges = perturbed.train.on_edges(perturbed.train.symmetrise(probability))
    return float(roc_auc_score(data.held_out_graph.genuine.cpu(), on_edges.cpu()))
