"""How good an epoch is: the score on validation nodes, and whether injected edges are found."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.roc import roc_auc
from gdpnet.config import Config
from gdpnet.inference.ensemble import aggregate
from gdpnet.inference.select import edges_of, select
from gdpnet.training.data import TrainingData
from gdpnet.training.selection_phase import play_once, with_selected_neighbourhoods
from gdpnet.training.state import TrainingState


def validate(
    state: TrainingState, data: TrainingData, config: Config, key: Key, *, selecting: bool = True
) -> float:
    """Return the task's quality (micro-F1 by default) on the validation nodes of all ranks, on the whole graph."""
    labels = state.ranks.join_rows(data.validation_labels)
    if labels.shape[0] == 0:
        return float("nan")
    probabilities = state.aggregators.weight.new_empty(0, state.aggregators.classes)
    if data.validation.numel():
        probabilities = _validation_probabilities(state, data, config, key, selecting)
    return data.task.quality(state.ranks.join_rows(probabilities), labels)


def _validation_probabilities(
    state: TrainingState, data: TrainingData, config: Config, key: Key, selecting: bool
) -> Float[Tensor, "validation classes"]:
    policy = state.policy if selecting else None
    most, usual = config.training.validation_episodes, config.inference
    fewer = replace(
        usual, episodes=min(most, usual.episodes), context_episodes=min(most, usual.context_episodes)
    )
    config = replace(config, inference=fewer)
    chosen = select(policy, state.aggregators, data.whole, data.validation, config, key)
    weight = chosen.weight(config.inference.mode)
    return aggregate(state.aggregators, chosen.prepared, data.validation, weight)[1]


@torch.no_grad()
def measure_injected_auc(
    state: TrainingState, data: TrainingData, config: Config, key: Key
) -> Float[Tensor, ""] | None:
    """Return the ROC AUC of keep probabilities on the held-out perturbed graph; None if there is none."""
    if data.held_out_graph is None:
        return None
    train, genuine = data.held_out_graph.perturbed, data.held_out_graph.genuine
    nodes, most = torch.arange(train.num_nodes, device=train.device), config.training.injected_targets
    if nodes.numel() > most:  # of a large graph, the decisions of some nodes
        nodes = torch.randperm(train.num_nodes, generator=key.fold_in("sample").generator())[:most].to(nodes)
    perturbed = replace(data.first or data, train=train)
    perturbed = with_selected_neighbourhoods(state, perturbed, config, key, nodes)
    probability, _ = play_once(state, perturbed, config, nodes, key)
    if nodes.numel() == train.num_nodes:
        on_edges = train.on_edges(train.symmetrise(probability))
    else:
        asked = torch.zeros_like(probability, dtype=torch.bool)
        asked[edges_of(train, nodes)[1]] = True
        asked = train.on_edges(asked)
        on_edges, genuine = train.on_edges(probability)[asked], genuine[asked]
    with phase("ROC AUC"):
        return roc_auc(genuine, on_edges)
