"""Labels that cannot be trusted: where many are wrong, those that members who never learned them deny are set aside.

Every training label is left out by one member. Where these are right about training nodes far less often than about
validation nodes, whose labels are taken as they are, training labels are wrong. A label is then doubted if another
class is believed more, and at least as much as nodes that bear that class are believed to be of it on average
(confident learning: Northcutt, Jiang and Chuang, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.graph import Graph, id_text
from gdpnet.inference.ensemble import see
from gdpnet.inference.select import keep_all
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.tasks import Classification
from gdpnet.training.data import Scene

TRUSTED = -1
"""What stands in place of a believed class where the label is trusted."""

_AT_ONCE = 8192
_DEVIATIONS = 3.0
"""By how many deviations of the two scores training nodes must fall behind, beside the configured gap."""

_LEAST = 20
"""Training labels a class, on average, below which none is doubted: leaving one out then costs its class too much."""

_EVERY = 5
"""Epochs until labels are looked at anew where some are doubted: members have then learned from fewer wrong ones."""


def is_time_to_doubt(epoch: int, believed: Tensor | None, config: Config) -> bool:
    """Say whether labels are looked at before an epoch: the first after the warm-up, then some if any are doubted."""
    since = epoch - 1 - config.training.warmup
    return epoch > 1 and (since == 0 or (believed is not None and since > 0 and since % _EVERY == 0))


@torch.no_grad()
def doubt_labels(aggregators: Aggregators, scene: Scene, config: Config) -> Int[Tensor, "targets"] | None:
    """Return the class that is believed of each target whose label is doubted; None where labels are trusted."""
    left_out, label = scene.member[scene.targets], scene.labels[scene.targets]
    few = left_out.numel() < _LEAST * aggregators.classes
    if type(scene.task) is not Classification or few or not bool((left_out > 0).all()):
        return None
    votes = _votes(aggregators, scene, scene.seen[scene.targets])
    mine = zip(votes, left_out.split(_AT_ONCE), strict=True)
    chance = torch.cat([part[torch.arange(who.numel(), device=who.device), who] for part, who in mine])
    truths = scene.validation_labels.split(_AT_ONCE)
    asked = zip(_votes(aggregators, scene, scene.validation), truths, strict=True)
    right = torch.cat(
        [(part[:, 1:].argmax(dim=2) == truth[:, None]).float().mean(dim=1) for part, truth in asked]
    )
    (reached, spread), (kept, other) = _score(right), _score((chance.argmax(dim=1) == label).float())
    if reached - kept <= max(config.training.doubt, _DEVIATIONS * math.sqrt(spread + other)):
        return None
    return believed_instead(chance, label)


def _score(right: Float[Tensor, "n"]) -> tuple[float, float]:
    """Return the share of nodes that are right, and its variance, which is not zero where all of a few are."""
    count = right.numel()
    share = (float(right.sum()) + 1.0) / (count + 2.0)
    return float(right.mean()) if count else 0.0, share * (1.0 - share) / max(count, 1)


def believed_instead(chance: Float[Tensor, "n classes"], label: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Return the class that is believed in place of each label that is doubted, `TRUSTED` for the others.

    A class all of whose labels would be doubted keeps them: something must be learned of it.
    """
    own = chance.gather(1, label[:, None])
    bearers = torch.bincount(label, minlength=chance.shape[1])
    usual = torch.zeros_like(chance[0]).index_add_(0, label, own[:, 0]) / bearers.clamp(min=1)
    likely = (chance >= usual) & (chance > own) & (bearers > 0)
    believed = torch.where(likely, chance, -1.0).argmax(dim=1)
    believed = torch.where(likely.any(dim=1), believed, TRUSTED)
    left = torch.zeros_like(bearers).index_add_(0, label, (believed == TRUSTED).long())
    return torch.where(left[label] == 0, TRUSTED, believed)


def without_doubted(scene: Scene, believed: Int[Tensor, "targets"] | None) -> Scene:
    """Return the scene without the targets whose labels are doubted."""
    if believed is None:
        return scene
    return replace(scene, targets=scene.targets[believed == TRUSTED], doubtful=True)


class DoubtedLabel(NamedTuple):
    """A training label that was set aside after the warm-up."""

    node: str
    label: str
    believed: str
    """The class that the node is believed to be of."""


def name_doubted(
    graph: Graph, scene: Scene, believed: Int[Tensor, "targets"] | None
) -> tuple[DoubtedLabel, ...]:
    """Name the nodes whose labels are doubted, as the graph names them."""
    if believed is None:
        return ()
    doubted = (believed != TRUSTED).nonzero().flatten()
    nodes, instead = scene.seen[scene.targets[doubted]].tolist(), believed[doubted].tolist()
    names, ids = graph.class_names, id_text(graph.node_ids)
    return tuple(
        DoubtedLabel(str(ids[node]), str(names[int(graph.labels[node])]), str(names[other]))
        for node, other in zip(nodes, instead, strict=True)
    )


def _votes(
    aggregators: Aggregators, scene: Scene, nodes: Int[Tensor, "nodes"]
) -> Iterator[Float[Tensor, "part members classes"]]:
    """Yield what every member believes of some nodes with all their neighbours kept, a part at a time."""
    weight = keep_all(scene.whole).probability
    for part in nodes.split(_AT_ONCE):
        yield see(aggregators, scene.whole, part, weight)[1]
