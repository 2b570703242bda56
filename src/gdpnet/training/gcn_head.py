"""A deeper reader: convolutions over the cleaned graph, which vote with those who have the say.

What AGG and its reader hear ends two hops away. Where a graph is clean, or was cleaned, farther nodes help: so three
graph convolutions are fitted to the graph as `denoise` gives it back, edges weighted by their keep probability. They
have half of the vote if that does no worse on validation nodes. Training nodes cannot be asked as they are of the
reader: what a node's neighbours decide about it is decided by members that know its label, and convolutions hear
that.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.significance import gains_and_losses
from gdpnet.config import Config
from gdpnet.inference.gcn_head import SHARE, mixing_of
from gdpnet.inference.select import Selected
from gdpnet.representation.gcn import Convolutions
from gdpnet.representation.sparse import table_of
from gdpnet.representation.tasks import Task
from gdpnet.training.data import Scene

MOST_EDGES = 500_000
"""Convolutions are not fitted to a graph with more: every step of theirs passes over all of it."""

MOST_WEIGHTS = 20_000_000
"""Nor where they would have more weights."""

LEAST_NODES = 100
"""Fewer validation nodes would often welcome a vote that does harm."""

_LEARNING_RATE, _PENALTY = 0.01, 5e-4
_EPOCHS, _PATIENCE, _LOOK_EVERY = 300, 50, 10
_SEED = 1 << 23


@dataclass(frozen=True)
class DeepReading:
    """Fitted convolutions, and how the vote with them did on validation nodes."""

    network: Convolutions
    gains: int
    """Validation nodes on which the vote is right and those who had the say before are not."""
    losses: int
    """Validation nodes on which it is the other way round."""
    quality_before: float
    """The task's quality on these nodes without the vote, micro-F1 for classes."""
    validation_f1: float
    """The same with it."""

    @property
    def is_welcome(self) -> bool:
        """Say whether the vote is no worse with them."""
        return self.gains >= self.losses and self.validation_f1 >= self.quality_before


def is_worth_convolutions(scene: Scene, config: Config) -> bool:
    """Say whether convolutions are wanted, can be judged on validation nodes, and are not too costly."""
    settings, features = config.reader, scene.train.features.shape[1]
    fits = int(scene.whole.linked.sum()) <= MOST_EDGES
    fits = fits and features * config.representation.width <= MOST_WEIGHTS
    return settings.use and settings.deep and scene.validation.numel() >= LEAST_NODES and fits


def fit_convolutions(
    scene: Scene,
    train: Selected,
    whole: Selected,
    threshold: float,
    said: Float[Tensor, "validation classes"],
    config: Config,
    seed: int,
) -> DeepReading:
    """Fit convolutions to the cleaned training graph; the epoch that did best on validation nodes counts.

    Args:
        scene: what training sees; it has validation nodes.
        train: what the policy selected on the training graph, for every node.
        whole: what it selected on the whole graph, for every node.
        threshold: that of the cleaned graph.
        said: what those who have the say until now believe of the validation nodes.
        config: all settings.
        seed: the seed of all draws.
    """
    rows, mix = table_of(train.prepared.features, scene.targets.device), mixing_of(train, threshold)
    asked, mix_asked = whole.prepared.features, mixing_of(whole, threshold)
    network = Convolutions(
        train.prepared.features.shape[1],
        config.representation.width,
        said.shape[1],
        exclusive=scene.task.exclusive,
    )
    network.initialise(torch.Generator().manual_seed(seed + _SEED))
    network = network.to(scene.targets.device)
    draws = torch.Generator(device=scene.targets.device).manual_seed(seed + _SEED)
    optimiser = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE, weight_decay=_PENALTY)
    labels, everyone = scene.labels[scene.targets], torch.ones_like(scene.targets, dtype=torch.bool)[:, None]
    best = _Best(network)
    for epoch in range(1, _EPOCHS + 1):
        scores = network(rows, mix, config.reader.dropout, draws)[scene.targets]
        loss = scene.task.loss(scores[:, None], labels, everyone)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            believed = network.believe(asked, mix_asked)[scene.validation]
            best.look(epoch, believed, scene.validation_labels, scene.task)
        if epoch % _LOOK_EVERY == 0 and epoch - best.epoch >= _PATIENCE:
            break
    best.go_back()
    with torch.no_grad():
        vote = torch.lerp(said, network.believe(asked, mix_asked)[scene.validation], SHARE)
    before, after = (scene.task.score(one, scene.validation_labels, "hit") for one in (said, vote))
    qualities = (scene.task.quality(one, scene.validation_labels) for one in (said, vote))
    return DeepReading(network, *gains_and_losses(after, before), *qualities)


class _Best:
    """The epoch with the best quality on validation nodes and, of equals, the greatest mean logarithm of f_c."""

    def __init__(self, network: Convolutions) -> None:
        self.network, self.epoch, self.score = network, 0, (-1.0, 0.0)
        self.weights: dict[str, Tensor] = {}

    def look(self, epoch: int, believed: Tensor, labels: Tensor, task: Task) -> None:
        likely = task.score(believed, labels, "probability").clamp(min=1e-12).log().mean()
        score = (task.quality(believed, labels), float(likely))
        if score > self.score or not self.weights:
            self.epoch, self.score = epoch, score
            self.weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def go_back(self) -> None:
        self.network.load_state_dict(self.weights)
