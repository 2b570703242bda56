"""The last word: once the policy is learned, a reader is fitted to what it selects, and kept if it reads better.

Which reads better is asked of nodes whose labels neither has learned: validation nodes, and training nodes as seen by
the members that left them out, all of them on the whole graph. Validation nodes alone are often too few to tell the
two apart, and on the training graph nodes have fewer neighbours than those to be predicted later. The reader must be
ahead by more than chance would have it: by two deviations of the nodes on which the two differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.features import Features, drop_inputs, take_rows
from gdpnet.inference import Selected, represent, rings_of, see
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.reader import Reader
from gdpnet.representation.tasks import classification_loss, micro_f1
from gdpnet.scene import Scene

_SEED = 1 << 22


@dataclass(frozen=True)
class Reading:
    """A fitted reader, how it did on validation, and on how many unseen nodes it alone or AGG alone is right."""

    reader: Reader
    validation_f1: float
    steps: int
    gains: int
    losses: int

    @property
    def is_better(self) -> bool:
        """Say whether the reader is surely ahead (McNemar's test, two deviations)."""
        return self.gains - self.losses > 2.0 * math.sqrt(self.gains + self.losses)


def fit_reader(
    aggregators: Aggregators, scene: Scene, train: Selected, whole: Selected, config: Config, seed: int
) -> Reading:
    """Fit a reader to the training nodes and what was selected for them; return its best step on validation.

    Args:
        aggregators: the trained bank, which the reader is compared with.
        scene: what training sees; it has validation nodes.
        train: what the policy selected on the training graph, for every node.
        whole: what it selected on the whole graph, for every node.
        config: all settings.
        seed: the seed of all draws.
    """
    mode = config.inference.mode
    rows = rings_of(train.prepared, scene.targets, train.weight(mode))
    asked = rings_of(whole.prepared, scene.validation, whole.weight(mode))
    shape = (rows[0].shape[1], config.representation.width, aggregators.classes, aggregators.members)
    reader = Reader(*shape, rings=len(rows))
    reader.initialise(torch.Generator().manual_seed(seed + _SEED))
    reader = reader.to(scene.targets.device)
    score, steps = _learn(reader, rows, asked, scene, config, seed)
    mine, other = (_right(aggregators, scene, whole, mode, who) for who in (reader, None))
    return Reading(reader, score, steps, gains=int((mine & ~other).sum()), losses=int((other & ~mine).sum()))


@torch.no_grad()
def _right(
    aggregators: Aggregators, scene: Scene, whole: Selected, mode: str, reader: Reader | None = None
) -> Bool[Tensor, "unseen"]:
    """Say which unseen nodes are classified right, by the reader if there is one, else by AGG."""
    weight = whole.weight(mode)
    _, chance = represent(aggregators, whole.prepared, scene.validation, weight, reader)
    hits = chance.argmax(dim=1) == scene.validation_labels
    left_out = scene.targets[scene.member[scene.targets] > 0]
    nodes = scene.seen[left_out]
    if reader is None:
        _, votes = see(aggregators, whole.prepared, nodes, weight)
    else:
        votes = reader.votes(reader.embed(rings_of(whole.prepared, nodes, weight)))
    honest = votes[torch.arange(nodes.numel(), device=nodes.device), scene.member[left_out]].argmax(dim=1)
    return torch.cat([hits, honest == scene.labels[left_out]])


def _learn(
    reader: Reader, rows: list[Features], asked: list[Features], scene: Scene, config: Config, seed: int
) -> tuple[float, int]:
    """Train in place, then go back to the best look at validation; return its micro-F1 and its step."""
    settings = config.reader
    optimiser = torch.optim.Adam(
        [
            {"params": [reader.weight], "weight_decay": settings.weight_decay},
            {"params": [reader.bias, reader.head_weight, reader.head_bias], "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
    )
    labels, member = scene.labels[scene.targets], scene.member[scene.targets]
    draws = torch.Generator(device=labels.device).manual_seed(seed + _SEED)
    best, best_step, weights = (-1.0, 0.0), 0, reader.state_dict()
    for step in range(1, settings.steps + 1):
        part = torch.randperm(labels.numel(), generator=draws, device=labels.device)[: settings.batch_size]
        batch = [drop_inputs(take_rows(ring, part), settings.dropout, draws) for ring in rows]
        loss = _loss(reader, batch, labels[part], member[part], settings.dropout, draws)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % settings.look_every and step < settings.steps:
            continue
        score = _score(reader, asked, scene.validation_labels)
        if score > best:
            best, best_step = score, step
            weights = {name: value.detach().clone() for name, value in reader.state_dict().items()}
        if step - best_step >= settings.patience:
            break
    reader.load_state_dict(weights)
    return best[0], best_step


def _loss(
    reader: Reader,
    rings: list[Features],
    labels: Int[Tensor, "batch"],
    left_out_by: Int[Tensor, "batch"],
    dropout: float,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return the loss of one batch; no member but the first learns from a node that it leaves out."""
    hidden = reader.embed(rings)
    if dropout:
        kept = torch.rand(hidden.shape, generator=generator, device=hidden.device) >= dropout
        hidden = hidden * kept / (1.0 - dropout)
    member = torch.arange(reader.members, device=hidden.device)
    learns = (member == 0) | (member != left_out_by[:, None])
    return classification_loss(reader.logits(hidden), labels, learns)


@torch.no_grad()
def _score(reader: Reader, rings: list[Features], labels: Int[Tensor, "asked"]) -> tuple[float, float]:
    """Return micro-F1 and, to part equals, the mean log-probability of the true class."""
    chance = reader.votes(reader.embed(rings)).mean(dim=1)
    return micro_f1(chance.argmax(dim=1), labels), -float(F.nll_loss(chance.clamp(min=1e-12).log(), labels))
