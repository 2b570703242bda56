"""The last word: once the policy is learned, a reader is fitted to what it selects, and kept if it reads better."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.features import Features, drop_inputs, take_rows
from gdpnet.inference import Selected, rings_of
from gdpnet.representation.reader import Reader
from gdpnet.representation.tasks import micro_f1
from gdpnet.scene import Scene

_SEED = 1 << 22


@dataclass(frozen=True)
class Reading:
    """A fitted reader, and how it did on the validation nodes."""

    reader: Reader
    validation_f1: float
    steps: int


def fit_reader(
    scene: Scene, train: Selected, whole: Selected, classes: int, config: Config, seed: int
) -> Reading:
    """Fit a reader to the training nodes and what was selected for them; return its best step on validation.

    Args:
        scene: what training sees.
        train: what the policy selected on the training graph, for every node.
        whole: what it selected on the whole graph, for every node.
        classes: number of classes.
        config: all settings.
        seed: the seed of all draws.
    """
    settings, mode = config.reader, config.inference.mode
    rows = rings_of(train.prepared, scene.targets, train.weight(mode))
    asked = rings_of(whole.prepared, scene.validation, whole.weight(mode))
    generator = torch.Generator().manual_seed(seed + _SEED)
    reader = Reader(rows[0].shape[1], config.representation.width, classes, settings.members, len(rows))
    reader.initialise(generator)
    reader = reader.to(scene.targets.device)
    optimiser = torch.optim.Adam(
        [
            {"params": [reader.weight], "weight_decay": settings.weight_decay},
            {"params": [reader.bias, reader.head_weight, reader.head_bias], "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
    )
    labels = scene.labels[scene.targets]
    draws = torch.Generator(device=labels.device).manual_seed(seed + _SEED)
    best, best_step, weights = (-1.0, 0.0), 0, reader.state_dict()
    for step in range(1, settings.steps + 1):
        part = torch.randperm(labels.numel(), generator=draws, device=labels.device)[: settings.batch_size]
        loss = _loss(reader, [take_rows(ring, part) for ring in rows], labels[part], settings.dropout, draws)
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
    return Reading(reader, best[0], best_step)


def _loss(
    reader: Reader,
    rings: list[Features],
    labels: Int[Tensor, "batch"],
    dropout: float,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return the loss of one batch, summed over members, inputs and hidden units dropped at random."""
    hidden = reader.embed([drop_inputs(ring, dropout, generator) for ring in rings])
    if dropout:
        kept = torch.rand(hidden.shape, generator=generator, device=hidden.device) >= dropout
        hidden = hidden * kept / (1.0 - dropout)
    logits = reader.logits(hidden)
    return F.cross_entropy(logits.flatten(0, 1), labels.repeat_interleave(reader.members)) * reader.members


@torch.no_grad()
def _score(reader: Reader, rings: list[Features], labels: Int[Tensor, "asked"]) -> tuple[float, float]:
    """Return micro-F1 and, to part equals, the mean log-probability of the true class."""
    chance = reader.vote(reader.embed(rings))
    return micro_f1(chance.argmax(dim=1), labels), -float(F.nll_loss(chance.clamp(min=1e-12).log(), labels))
