"""The data, the settings and the training loop of every network that GDPNet is compared with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gdpnet._core.fit import fit, fit_each
from gdpnet.benchmark.baselines.propagation import Links
from gdpnet.data.features import normalise, to_dense
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError
from gdpnet.representation.sparse import Table, table_of
from gdpnet.training.data import cut_for_training

_CHECK_EVERY = 10
"""Epochs between two checks whether to stop."""


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters of a network, checked when they are made."""

    width: int = 64
    """Width of a hidden layer."""
    layers: int = 2
    """Number of layers."""
    heads: int = 8
    """Attention heads of a hidden layer, for networks with attention; they share the width."""
    dropout: float = 0.5
    """Share of inputs and hidden values set to zero in training."""
    drop_edge: float = 0.0
    """Share of edges left out in training, drawn anew each epoch."""
    learning_rate: float = 0.01
    """Step size of Adam."""
    weight_decay: float = 5e-5
    """Penalty on the squares of all weights."""
    epochs: int = 300
    """Largest number of passes over the training nodes."""
    patience: int = 50
    """Epochs without a better validation score after which training stops."""
    choice: float | None = None
    """The value that a method otherwise chooses on validation (a share of edges, a rank, a temperature)."""

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
    """The training graph, the whole graph, and the nodes of each whose labels are used."""

    train: Graph
    """Nodes of the training split and of no split, or all of a transductive graph; nothing else is learned from."""
    whole: Graph
    seen: Int[Tensor, "seen"]
    """The index in ``whole`` of each node of ``train``."""
    targets: Int[Tensor, "targets"]
    """Labelled training nodes, as indices into ``train``."""
    validation: Int[Tensor, "validation"]
    """Labelled validation nodes, as indices into ``whole``."""
    weight: Float[Tensor, "targets"] | None = None
    """Weight of each target in the loss; None if all weigh the same."""
    origin: Task | None = None
    """The task without pseudo-labels, of one that has some: what needs no label is computed once for both."""


def make_task(graph: Graph, seed: int, denoise: Callable[[Graph], Any] | None = None) -> Task:
    """Return the task of a graph, with the same training graph as GDPNet uses, or of both as GDPNet cleans them."""
    cut = cut_for_training(graph, seed)
    graphs = cut.inner, graph
    train, whole = graphs if denoise is None else (denoise(one).graph for one in graphs)
    return Task(train, whole, cut.seen, cut.targets, cut.validation)


@dataclass(frozen=True)
class Side:
    """One graph on a device: its features, and its edges as the propagation rule of the network reads them."""

    features: Table
    links: Any


@dataclass(frozen=True)
class Inputs:
    """A task on a device."""

    train: Side
    whole: Side
    targets: Int[Tensor, "targets"]
    labels: Int[Tensor, "targets"]
    validation: Int[Tensor, "validation"]
    validation_labels: Int[Tensor, "validation"]
    num_features: int
    num_classes: int
    weight: Float[Tensor, "targets"] | None = None
    """Weight of each target in the loss; None if all weigh the same."""

    def with_links(self, train: Any, whole: Any) -> Inputs:
        """Return the inputs with other edges."""
        return replace(self, train=replace(self.train, links=train), whole=replace(self.whole, links=whole))


def inputs_of(task: Task, device: torch.device) -> Inputs:
    """Move a task to a device, with feature rows of unit length."""
    train, whole = (
        Side(table_of(normalise(graph.features, "l2"), device), Links.of(graph, device))
        for graph in (task.train, task.whole)
    )
    return Inputs(
        train=train,
        whole=whole,
        targets=task.targets.to(device),
        labels=task.train.labels[task.targets].to(device),
        validation=task.validation.to(device),
        validation_labels=task.whole.labels[task.validation].to(device),
        num_features=task.whole.num_features,
        num_classes=task.whole.num_classes,
        weight=None if task.weight is None else task.weight.to(device),
    )


def unit_rows(graph: Graph) -> Float[Tensor, "nodes features"]:
    """Return dense feature rows of unit length, as the layers of torch_geometric read them."""
    return to_dense(normalise(graph.features, "l2"))


@dataclass(frozen=True)
class Fitted:
    """A method at its best epoch: its logits for all nodes of the whole graph, and its validation scores."""

    logits: Float[Tensor, "nodes classes"]
    validation_f1: float
    validation_loss: float
    epochs: int
    hidden: Float[Tensor, "nodes width"] | None = None
    """The input of the last layer, of a method that is a network of layers."""
    seen_logits: Float[Tensor, "seen classes"] | None = None
    """Its logits for the nodes of the training graph, read on that graph alone, of a network."""
    chosen: dict[str, Any] = field(default_factory=dict)
    """The part of the settings that the method chose on validation."""
    keep_score: Float[Tensor, "edges"] | None = None
    kept: Bool[Tensor, "edges"] | None = None
    network: Any = None
    """The network itself, of a method that is one."""
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


Run = Callable[[Task, int, torch.device, Settings], Fitted]
"""Train a method: the task, a seed, a device and settings."""

Build = Callable[[Inputs, Settings], nn.Module]
"""Build an untrained network for some inputs."""

Losses = Callable[[Any, Inputs, Settings], Iterator[Tensor]]
"""Yield the losses of one epoch, one per optimiser step."""


def whole_batch(network: nn.Module, inputs: Inputs, settings: Settings) -> Iterator[Tensor]:
    """Yield one loss per epoch: the mean cross-entropy of all targets, with some edges dropped if set."""
    side = inputs.train
    if settings.drop_edge > 0.0:
        side = replace(side, links=side.links.dropped(settings.drop_edge))
    yield mean_loss(network(side)[inputs.targets], inputs.labels, inputs.weight)


def mean_loss(
    logits: Float[Tensor, "n classes"], labels: Int[Tensor, "n"], weight: Float[Tensor, "n"] | None
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy, weighted if there are weights."""
    if weight is None:
        return F.cross_entropy(logits, labels)
    return (F.cross_entropy(logits, labels, reduction="none") * weight).sum() / weight.sum()


def fit_network(
    build: Build, inputs: Inputs, settings: Settings, seed: int, losses: Losses = whole_batch
) -> Fitted:
    """Train on the training graph with Adam; return the epoch of best validation micro-F1, then least loss.

    Without validation nodes the last epoch is returned. The random state of the caller is left as it was.
    """
    known, device = inputs.validation.numel() > 0, inputs.targets.device

    def epoch() -> Iterator[Tensor]:
        network.train()
        return losses(network, inputs, settings)

    def evaluate() -> tuple[float, float]:
        network.eval()
        if not known:
            return torch.nan, -torch.inf
        logits = network(inputs.whole)[inputs.validation]
        f1 = (logits.argmax(dim=1) == inputs.validation_labels).float().mean()
        return float(f1), -float(F.cross_entropy(logits, inputs.validation_labels))

    with seeded(seed, device):
        network: Any = build(inputs, settings).to(device)
        adam = torch.optim.Adam(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        found = fit(
            network,
            adam,
            epoch,
            evaluate,
            steps=settings.epochs,
            patience=settings.patience,
            evaluate_every=1 if known else settings.epochs,
            check_every=_CHECK_EVERY,
        )
    with torch.no_grad():
        hidden, logits = (read(inputs.whole).float().cpu() for read in (network.represent, network))
        seen = network(inputs.train).float().cpu()
    return Fitted(logits, found.score[0], -found.score[1], found.steps, hidden, seen, network=network)


def choose(name: str, options: Sequence[Any], settings: Settings, fit: Callable[[Any], Fitted]) -> Fitted:
    """Return the best fit on validation over all options of a parameter, or that of the option that is set.

    Validation micro-F1 decides, then the least validation loss.
    """
    options = options if settings.choice is None else (settings.choice,)
    fitted = fit_each([partial(fit, option) for option in options])
    found = [replace(one, chosen={name: option}) for one, option in zip(fitted, options, strict=True)]
    return max(found, key=lambda one: (one.validation_f1, -one.validation_loss))


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators, and restore them afterwards."""
    state = random.getstate()  # negative_sampling of torch_geometric draws from it
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            random.seed(seed)
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            yield
    finally:
        random.setstate(state)
