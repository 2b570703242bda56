"""One training loop for every network that GDPNet is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet.benchmark.baselines.propagation import Links
from gdpnet.data.features import normalise
from gdpnet.data.graph import SPLITS, UNKNOWN, Graph
from gdpnet.errors import ConfigError, GraphError
from gdpnet.representation.sparse import Table, table_of
from gdpnet.training.data import check_trainable, cut_for_training

_LOOK_EVERY = 10
"""Epochs between two looks at whether to stop; a look makes the host wait for the device."""


@dataclass(frozen=True)
class Settings:
    """How a network is built and trained; checked where it is made."""

    width: int = 64
    """Width of a hidden layer."""
    layers: int = 2
    """Number of layers."""
    heads: int = 8
    """Attention heads of a hidden layer, for networks that have them; they share the width."""
    dropout: float = 0.5
    """Share of inputs and hidden values set to zero while training."""
    drop_edge: float = 0.0
    """Share of links left out while training, drawn anew each epoch."""
    learning_rate: float = 0.01
    """Step size of Adam."""
    weight_decay: float = 5e-5
    """Penalty on the squares of all weights."""
    epochs: int = 300
    """Passes over the training nodes, at most."""
    patience: int = 50
    """Epochs without a better validation score after which training stops."""
    choice: float | None = None
    """What a method else chooses by itself on validation (a share of links, a rank, a temperature)."""

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        for name in ("width", "layers", "heads", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be 1 or more, found {getattr(self, name)}")
        for name in ("dropout", "drop_edge"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"{name} must lie between 0 and 1, found {getattr(self, name)}")
        if self.learning_rate <= 0.0 or self.weight_decay < 0.0:
            raise ConfigError("the learning rate must be above 0 and the weight decay 0 or more")


@dataclass(frozen=True, eq=False)
class Task:
    """What there is to learn: the training graph, the whole one, and which of their nodes have labels to use."""

    train: Graph
    """Nodes of the training split and of none; nothing else is seen while weights are learned."""
    whole: Graph
    seen: Int[Tensor, "seen"]
    """The number in ``whole`` of each node of ``train``."""
    targets: Int[Tensor, "targets"]
    """Labelled training nodes, as numbers in ``train``."""
    validation: Int[Tensor, "validation"]
    """Labelled validation nodes, as numbers in ``whole``."""

    def with_graphs(self, train: Graph, whole: Graph) -> Task:
        """Return the same task on other links."""
        return replace(self, train=train, whole=whole)


def make_task(graph: Graph, seed: int) -> Task:
    """Cut the training graph out of the whole one, as GDPNet's own training does."""
    cut = cut_for_training(graph, seed)
    return Task(cut.inner, graph, cut.seen, cut.targets, cut.validation)


def task_of(train: Graph, whole: Graph) -> Task:
    """Take two graphs as they are, such as two cleaned ones; the nodes of the first are found by their ids."""
    number = {str(node): place for place, node in enumerate(whole.node_ids.tolist())}
    strange = [node for node in train.node_ids.tolist() if str(node) not in number]
    if strange:
        raise GraphError(f"the whole graph must have every training node, found none of id '{strange[0]}'")
    seen = torch.tensor([number[str(node)] for node in train.node_ids.tolist()], dtype=torch.long)
    held = (whole.split == SPLITS.index("validation")) | (whole.split == SPLITS.index("test"))
    if bool(held[seen].any()):
        raise GraphError("the training graph must not have a validation or test node of the whole graph")
    check_trainable(train, train.split)
    targets = ((train.split == SPLITS.index("train")) & (train.labels != UNKNOWN)).nonzero().flatten()
    validation = whole.nodes_in("validation")
    return Task(train, whole, seen, targets, validation[whole.labels[validation] != UNKNOWN])


@dataclass(frozen=True)
class Side:
    """One graph on a device as a network reads it.

    ``links`` are :class:`Links`, or what stands for them with the network's own rule of mixing.
    """

    features: Table
    links: Any


@dataclass(frozen=True)
class Inputs:
    """A task on a device: the training graph, the whole graph, and the nodes whose labels are read."""

    train: Side
    whole: Side
    targets: Int[Tensor, "targets"]
    labels: Int[Tensor, "targets"]
    validation: Int[Tensor, "validation"]
    validation_labels: Int[Tensor, "validation"]
    num_features: int
    num_classes: int


def inputs_of(task: Task, device: torch.device) -> Inputs:
    """Bring a task to a device, with feature rows of length one."""
    return Inputs(
        train=side_of(task.train, device),
        whole=side_of(task.whole, device),
        targets=task.targets.to(device),
        labels=task.train.labels[task.targets].to(device),
        validation=task.validation.to(device),
        validation_labels=task.whole.labels[task.validation].to(device),
        num_features=task.whole.num_features,
        num_classes=task.whole.num_classes,
    )


def side_of(graph: Graph, device: torch.device) -> Side:
    """Bring one graph to a device."""
    return Side(table_of(normalise(graph.features, "l2"), device), Links.of(graph, device))


@dataclass(frozen=True)
class Fitted:
    """A network at its best epoch: its logits for all nodes of the whole graph, and how it did on validation."""

    logits: Float[Tensor, "nodes classes"]
    validation_f1: float
    validation_loss: float
    epochs: int
    hidden: Float[Tensor, "nodes width"] | None = None
    """What the network's last layer reads of every node, where the network can say."""


Build = Callable[[Inputs, Settings], nn.Module]
"""Make a network, untrained, for some inputs."""

Losses = Callable[[Any, Inputs, Settings], Iterator[Tensor]]
"""The losses of one epoch, one a step of the optimiser."""


def whole_batch(network: nn.Module, inputs: Inputs, settings: Settings) -> Iterator[Tensor]:
    """Return one loss an epoch: the cross-entropy of all training nodes, less some links if asked for."""
    side = inputs.train
    if settings.drop_edge > 0.0:
        side = replace(side, links=side.links.dropped(settings.drop_edge))
    yield F.cross_entropy(network(side)[inputs.targets], inputs.labels)


def fit_network(
    build: Build, inputs: Inputs, settings: Settings, seed: int, losses: Losses = whole_batch
) -> Fitted:
    """Train on the training graph with Adam; return the epoch of best validation micro-F1, then least loss.

    Draws follow the seed alone, and the random state of the caller is left as it was.
    """
    with seeded(seed, inputs.targets.device):
        network = build(inputs, settings).to(inputs.targets.device)
        optimiser = torch.optim.Adam(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        best = _Best(network, inputs)
        epoch = 0
        for epoch in range(1, settings.epochs + 1):
            network.train()
            for loss in losses(network, inputs, settings):
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            best.look(epoch)
            if epoch % _LOOK_EVERY == 0 and epoch - best.last_better() >= settings.patience:
                break
        return best.fitted(epoch)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the generators that layers draw from, and give them back as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


class _Best:
    """The best epoch so far, kept on the device so that no epoch waits for the host."""

    def __init__(self, network: nn.Module, inputs: Inputs) -> None:
        self.network, self.inputs = network, inputs
        self.weights = [weight.detach().clone() for weight in network.parameters()]
        device = inputs.targets.device
        self.f1 = torch.tensor(-1.0, device=device)
        self.loss = torch.tensor(torch.inf, device=device)
        self.epoch = torch.tensor(0, device=device)

    @torch.no_grad()
    def look(self, epoch: int) -> None:
        """Score the network on validation nodes and keep its weights if it is better; without any, always."""
        f1, loss = self.f1, self.loss
        better = torch.tensor(True, device=f1.device)
        if self.inputs.validation.numel():
            self.network.eval()
            logits = self.network(self.inputs.whole)[self.inputs.validation]
            f1 = (logits.argmax(dim=1) == self.inputs.validation_labels).float().mean()
            loss = F.cross_entropy(logits, self.inputs.validation_labels)
            better = (f1 > self.f1) | ((f1 == self.f1) & (loss < self.loss))
        self.f1, self.loss = torch.where(better, f1, self.f1), torch.where(better, loss, self.loss)
        self.epoch = torch.where(better, torch.full_like(self.epoch, epoch), self.epoch)
        for kept, weight in zip(self.weights, self.network.parameters(), strict=True):
            kept.copy_(torch.where(better, weight, kept))

    def last_better(self) -> int:
        """Return the best epoch."""
        return int(self.epoch)

    @torch.no_grad()
    def fitted(self, epochs: int) -> Fitted:
        """Return what the network says at its best."""
        for kept, weight in zip(self.weights, self.network.parameters(), strict=True):
            weight.copy_(kept)
        self.network.eval()
        logits = self.network(self.inputs.whole).float().cpu()
        represent = getattr(self.network, "represent", None)
        hidden = None if represent is None else represent(self.inputs.whole).float().cpu()
        known = self.inputs.validation.numel() > 0
        return Fitted(logits, float(self.f1) if known else float("nan"), float(self.loss), epochs, hidden)
