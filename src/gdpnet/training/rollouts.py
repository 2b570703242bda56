"""Run episodes on the training graph with the policy as it is now, each target seen by its own fold model."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.prepare import with_neighbourhoods
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of, roll_outs
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.training.data import TrainingData


def with_selected_neighbourhoods(
    policy: Policy, aggregators: Aggregators, data: TrainingData, config: Config, key: Key
) -> TrainingData:
    """With two hops, replace the neighbourhood means of ``train`` by means over selected neighbours."""
    if config.representation.hops == 1:
        return data
    all_nodes = torch.arange(data.train.num_nodes, device=data.train.device)
    weight, _ = play_once(policy, aggregators, data, config, all_nodes, key.fold_in("neighbourhoods"))
    weight = data.train.symmetrise(weight) if config.inference.symmetrise else weight
    return replace(data, train=with_neighbourhoods(data.train, weight))


def play_once(
    policy: Policy,
    aggregators: Aggregators,
    data: TrainingData,
    config: Config,
    targets: Int[Tensor, "targets"],
    key: Key,
) -> tuple[Float[Tensor, "edges"], Bool[Tensor, "edges"]]:
    """Run one sampled episode per target; return each edge's keep probability and whether it was kept."""
    edges = data.train.neighbour.numel()
    probability = torch.ones(edges, device=data.train.device)
    kept = torch.zeros(edges, dtype=torch.bool, device=data.train.device)
    view = make_view(aggregators, data.train, slice(None))
    shift = data.fold_model[targets] * data.train.num_nodes
    play = play_of(config, greedy=False)
    for rollout in roll_outs(policy, view, data.train, targets, config, play, key.seed32, shift):
        probability[rollout.episodes.edge] = rollout.keep_probability
        kept[rollout.episodes.edge] = rollout.selected
    return probability, kept
