"""What an epoch has reached: F1 on validation nodes, and how well injected links are told from the graph's own."""

from __future__ import annotations

from dataclasses import replace

import torch
from sklearn.metrics import roc_auc_score

from gdpnet.config import Config
from gdpnet.inference.ensemble import represent
from gdpnet.inference.select import select
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.training.data import Scene
from gdpnet.training.playing import play_once, with_selected_circle

_EVALUATION_SEED = 1 << 20


def validate(policy: Policy | None, aggregators: Aggregators, scene: Scene, config: Config) -> float:
    """Return the task's quality (micro-F1) on the validation nodes, predicted on the whole graph."""
    if scene.validation.numel() == 0:
        return float("nan")
    chosen = select(policy, aggregators, scene.whole, scene.validation, config, _EVALUATION_SEED)
    weight = chosen.weight(config.inference.mode)
    _, logits = represent(aggregators, chosen.prepared, scene.validation, weight)
    return scene.task.quality(logits.exp(), scene.validation_labels)


@torch.no_grad()
def tell_apart(policy: Policy, aggregators: Aggregators, scene: Scene, config: Config) -> float | None:
    """Return how well the policy tells self-injected links that it never practised on from the graph's own."""
    if scene.proof is None:
        return None
    world = with_selected_circle(
        policy, aggregators, replace(scene, train=scene.proof.world), config, _EVALUATION_SEED
    )
    everyone = torch.arange(world.train.num_nodes, device=world.train.device)
    probability, _ = play_once(policy, aggregators, world, config, everyone, _EVALUATION_SEED)
    chance = world.train.on_edges(world.train.both_ways(probability))
    return float(roc_auc_score(scene.proof.genuine.cpu(), chance.cpu()))
