"""Play the training graph once as the policy is now, every node by the member that does not know its label."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.prepare import with_circle
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of, roll_outs
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.training.data import Scene


def with_selected_circle(
    policy: Policy, aggregators: Aggregators, scene: Scene, config: Config, seed: int
) -> Scene:
    """With two hops, let every node of the training graph give the mean over what the policy selects for it."""
    if config.representation.hops == 1:
        return scene
    everyone = torch.arange(scene.train.num_nodes, device=scene.train.device)
    weight, _ = play_once(policy, aggregators, scene, config, everyone, seed + 29)
    weight = scene.train.both_ways(weight) if config.inference.both_ways else weight
    return replace(scene, train=with_circle(scene.train, weight))


def play_once(
    policy: Policy,
    aggregators: Aggregators,
    scene: Scene,
    config: Config,
    targets: Int[Tensor, "targets"],
    seed: int,
) -> tuple[Float[Tensor, "edges"], Bool[Tensor, "edges"]]:
    """Play one sampled episode a target; return each edge's keep probability and whether it was kept."""
    edges = scene.train.neighbour.numel()
    probability = torch.ones(edges, device=scene.train.device)
    kept = torch.zeros(edges, dtype=torch.bool, device=scene.train.device)
    view = make_view(aggregators, scene.train, slice(None))
    shift = scene.member[targets] * scene.train.num_nodes
    play = play_of(config, greedy=False)
    for rollout in roll_outs(policy, view, scene.train, targets, config, play, seed, shift):
        probability[rollout.episodes.edge] = rollout.keep_probability
        kept[rollout.episodes.edge] = rollout.selected
    return probability, kept
