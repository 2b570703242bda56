"""The last word: once the policy is learned, a reader is fitted to what it selects, and has a say if it reads better.

AGG alone may have the say, the reader alone, or both may vote. Which is best is asked of nodes whose labels neither
has learned: validation nodes, and training nodes as seen by the members that left them out, all on the whole graph.
Validation nodes alone are often too few to tell them apart, and on the training graph nodes have fewer neighbours
than those to be predicted later. Where labels were doubted validation nodes alone are asked: AGG had a say in which
training nodes are left. AGG must be beaten by a margin: by two deviations of the nodes on which the two
differ where the reader is to have the say alone, since its best step was chosen on the same nodes; by one where AGG
still votes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.significance import gains_and_losses, is_ahead
from gdpnet.config import Config
from gdpnet.data.features import Features, SparseRows, drop_inputs, drop_values, take_rows
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import rings_of, see
from gdpnet.inference.select import Selected
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.hopwise import Reader
from gdpnet.representation.tasks import CLASSIFICATION, Task, may_learn
from gdpnet.training.data import Scene

MOST_WEIGHTS = 20_000_000
"""A reader of more weights is not fitted: with one-hot features it would be larger than all the rest."""

MOST_VALUES = 100_000_000
"""Nor one whose rings may hold more values: around a hub they fill up."""

_SHARES = (0.5, 1.0)
"""Weights that the reader's vote may have."""

_ALONE, _TOGETHER = 2.0, 1.0
"""Deviations by which the reader must be ahead of AGG, to have the say alone and to vote with it."""

_SEED = 1 << 22
_AT_ONCE = 8192


@dataclass(frozen=True)
class Verdict:
    """How a way to read did on unseen nodes, beside AGG."""

    share: float
    """The weight of the reader's vote: one where it alone has the say."""
    gains: int
    """Nodes on which it is right and AGG is not."""
    losses: int
    """Nodes on which AGG is right and it is not."""
    validation_f1: float

    @property
    def is_better(self) -> bool:
        """Say whether it is ahead of AGG by the margin, in deviations as in McNemar's test."""
        margin = _ALONE if self.share == 1.0 else _TOGETHER
        return is_ahead(self.gains, self.losses, margin)


@dataclass(frozen=True)
class Reading:
    """A fitted reader, and how it did by itself and with AGG."""

    reader: Reader
    steps: int
    verdicts: tuple[Verdict, ...]

    @property
    def best(self) -> Verdict | None:
        """Return the best way to read that is ahead of AGG by its margin, if there is one."""
        better = [one for one in self.verdicts if one.is_better]
        return max(better, key=lambda one: one.gains - one.losses, default=None)


def is_worth_a_reader(scene: Scene, aggregators: Aggregators, config: Config) -> bool:
    """Say whether a reader is wanted, can be judged on validation nodes, and is not too large."""
    columns = aggregators.members * config.representation.width
    weights = (config.representation.hops + 1) * scene.train.features.shape[1] * columns
    fits = weights <= MOST_WEIGHTS and _values_of(scene.whole) <= MOST_VALUES
    return config.reader.use and scene.validation.numel() > 0 and fits


def _values_of(prepared: Prepared) -> int:
    """Return how many values the widest ring of all nodes may have."""
    circle = prepared.circle
    if not isinstance(circle, SparseRows):
        return circle.numel()
    return int(circle.row_ptr.diff()[prepared.neighbour].sum())


@dataclass(frozen=True)
class _Unseen:
    """Nodes whose labels were not learned: validation nodes, and training nodes that some member left out."""

    nodes: Int[Tensor, "unseen"]
    """Numbers in the whole graph."""
    labels: Shaped[Tensor, "unseen *any"]
    member: Int[Tensor, "unseen"]
    """Who speaks of each; -1: all members vote."""
    task: Task = CLASSIFICATION

    @classmethod
    def of(cls, scene: Scene) -> _Unseen:
        left_out = scene.targets[scene.member[scene.targets] > 0]
        left_out = left_out[:0] if scene.doubtful else left_out
        everyone = torch.full_like(scene.validation, -1)
        return cls(
            torch.cat([scene.validation, scene.seen[left_out]]),
            torch.cat([scene.validation_labels, scene.labels[left_out]]),
            torch.cat([everyone, scene.member[left_out]]),
            scene.task,
        )

    def chance(self, votes: Float[Tensor, "unseen members classes"]) -> Float[Tensor, "unseen classes"]:
        """Return the class probabilities of those who may speak."""
        own = votes[torch.arange(self.nodes.numel(), device=votes.device), self.member.clamp(min=0)]
        return torch.where(self.member[:, None] >= 0, own, votes.mean(dim=1))


def fit_reader(
    aggregators: Aggregators, scene: Scene, train: Selected, whole: Selected, config: Config, seed: int
) -> Reading:
    """Fit a reader to the training nodes and what was selected for them; return its best look at unseen nodes.

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
    unseen = _Unseen.of(scene)
    asked = rings_of(whole.prepared, unseen.nodes, whole.weight(mode))
    shape = (rows[0].shape[1], config.representation.width, aggregators.classes, aggregators.members)
    reader = Reader(*shape, rings=len(rows), exclusive=scene.task.exclusive)
    reader.initialise(torch.Generator().manual_seed(seed + _SEED))
    reader = reader.to(scene.targets.device)
    steps = _learn(reader, rows, asked, unseen, scene, config, seed)
    with torch.no_grad():
        weight = whole.weight(mode)
        parts = [see(aggregators, whole.prepared, part, weight)[1] for part in unseen.nodes.split(_AT_ONCE)]
        votes = torch.cat(parts)
        agg, read = unseen.chance(votes), _read(reader, asked, unseen)
        verdicts = tuple(_judge(scene, unseen, agg, read, share) for share in _SHARES)
    return Reading(reader, steps, verdicts)


def _judge(
    scene: Scene,
    unseen: _Unseen,
    agg: Float[Tensor, "unseen classes"],
    read: Float[Tensor, "unseen classes"],
    share: float,
) -> Verdict:
    """Compare a vote of AGG and the reader with AGG's own on unseen nodes."""
    chance, held = torch.lerp(agg, read, share), scene.validation.numel()
    mine = scene.task.score(chance, unseen.labels, "hit")
    other = scene.task.score(agg, unseen.labels, "hit")
    score = scene.task.quality(chance[:held], unseen.labels[:held])
    return Verdict(share, *gains_and_losses(mine, other), score)


def _learn(
    reader: Reader,
    rows: list[Features],
    asked: list[Features],
    unseen: _Unseen,
    scene: Scene,
    config: Config,
    seed: int,
) -> int:
    """Train in place, then go back to the best look at unseen nodes; return its step."""
    settings = config.reader
    optimiser = torch.optim.Adam(
        [
            {"params": [reader.weight], "weight_decay": settings.weight_decay},
            {"params": [reader.bias, reader.head_weight, reader.head_bias], "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
    )
    labels, member = scene.labels[scene.targets], scene.member[scene.targets]
    count, device = member.numel(), labels.device
    draws = torch.Generator(device=device).manual_seed(seed + _SEED)
    best, best_step, weights = (-1.0, 0.0), 0, reader.state_dict()
    for step in range(1, settings.steps + 1):
        part = torch.randperm(count, generator=draws, device=device)[: settings.batch_size]
        batch = [drop_inputs(take_rows(ring, part), settings.dropout, draws) for ring in rows]
        loss = _loss(reader, batch, scene.task, labels[part], member[part], settings.dropout, draws)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % settings.look_every and step < settings.steps:
            continue
        score = _score(reader, asked, unseen)
        if score > best:
            best, best_step = score, step
            weights = {name: value.detach().clone() for name, value in reader.state_dict().items()}
        if step - best_step >= settings.patience:
            break
    reader.load_state_dict(weights)
    return best_step


def _loss(
    reader: Reader,
    rings: list[Features],
    task: Task,
    labels: Shaped[Tensor, "batch *any"],
    left_out_by: Int[Tensor, "batch"],
    dropout: float,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return the loss of one batch; no member but the first learns from a node that it leaves out."""
    hidden = drop_values(reader.embed(rings), dropout, generator)
    return task.loss(reader.logits(hidden), labels, may_learn(left_out_by, reader.members))


def _read(reader: Reader, rings: list[Features], unseen: _Unseen) -> Float[Tensor, "unseen classes"]:
    """Return what the reader says of unseen nodes, by the members that may speak."""
    return unseen.chance(reader.votes(reader.embed(rings)))


@torch.no_grad()
def _score(reader: Reader, rings: list[Features], unseen: _Unseen) -> tuple[float, float]:
    """Return the quality (micro-F1) on unseen nodes and, to part equals, the mean logarithm of f_c."""
    chance = _read(reader, rings, unseen)
    likely = unseen.task.score(chance, unseen.labels, "probability")
    return unseen.task.quality(chance, unseen.labels), float(likely.clamp(min=1e-12).log().mean())
