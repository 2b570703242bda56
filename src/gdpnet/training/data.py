"""Training data: the graph of training nodes, and validation nodes on the whole graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from gdpnet._core.memory import release_freed
from gdpnet._core.random import Key, mix64
from gdpnet._core.threads import in_order, torch_threads
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.labels import check_classes
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.schema import as_read, size_as_read
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError
from gdpnet.representation.tasks import CLASSIFICATION, Task

_SMALL_VALUES = 1 << 18
"""A graph with at most so many values of features and edges is small, if its columns are few, too."""

_SMALL_COLUMNS = 1 << 13
"""Weights of more feature columns than this take longer to update than the values of a small graph to multiply."""


@dataclass(frozen=True)
class HeldOutGraph:
    """A perturbed graph that the policy is not trained on, to measure whether it finds injected edges."""

    perturbed: Prepared
    genuine: Bool[Tensor, "edges"]
    """Whether each edge is the training graph's own, noisy or not, rather than injected."""


@dataclass(frozen=True)
class TrainingData:
    """The training graph with its targets and folds, and the validation nodes on the whole graph."""

    train: Prepared
    injected: tuple[Prepared, ...]
    """Copies of the training graph with random edges injected; the policy is trained on these too."""
    labels: Shaped[Tensor, "nodes *any"]
    """The class of each node of the training graph, or another label that the task defines."""
    targets: Int[Tensor, "targets"]
    fold: Int[Tensor, "nodes"]
    whole: Prepared
    seen: Int[Tensor, "nodes"]
    """The number in the whole graph of each node of the training graph; -1 if it is not there (see ``first``)."""
    validation: Int[Tensor, "validation"]
    validation_labels: Shaped[Tensor, "validation *any"]
    task: Task = CLASSIFICATION
    held_out_graph: HeldOutGraph | None = None
    has_suspected: bool = False
    """Whether targets with suspected label errors were removed; the others agree with the aggregators."""
    is_pseudo: Bool[Tensor, "nodes"] | None = None
    """Which targets have a pseudo-label, predicted and not given; None if none has."""
    every_fold: Int[Tensor, "nodes"] | None = None
    """Of a part of a larger graph, the fold that each node is in or would be in as a target."""
    first: TrainingData | None = None
    """The data of the first part of a larger graph, whose validation nodes these are, if this is of another part."""

    @property
    def is_redrawn(self) -> bool:
        """Return whether the training graph is another part of a larger graph than ``whole`` is."""
        return self.first is not None

    @property
    def fold_model(self) -> Int[Tensor, "nodes"]:
        """Return the fold model of each node: the one that has not learned its label, else the first."""
        return self.fold + 1

    @property
    def fold_model_in_whole(self) -> Int[Tensor, "whole"]:
        """Return the fold model of each node of the whole graph."""
        return self.fold_model.new_zeros(self.whole.num_nodes).index_copy(0, self.seen, self.fold_model)


def split_for_training(graph: Graph, seed: int) -> Int[Tensor, "nodes"]:
    """Return the graph's split; if it has none, labelled nodes train, and a tenth of these validates."""
    split = graph.split.clone()
    train, validation = SPLITS.index("train"), SPLITS.index("validation")
    generator = torch.Generator().manual_seed(seed)
    if not bool((split == train).any()):
        split[(split == 0) & graph.labelled] = train
    if not bool((split == validation).any()):
        pool = (split == train).nonzero().flatten()
        pool = pool[graph.labelled[pool]]
        held = torch.randperm(pool.numel(), generator=generator)[: pool.numel() // 10]
        split[pool[held]] = validation
    return split


def check_trainable(graph: Graph, split: Int[Tensor, "nodes"]) -> None:
    """Refuse a graph whose training nodes have fewer than two classes, or one number alone."""
    if graph.targets is None:
        check_classes(graph)
    train = (split == SPLITS.index("train")) & graph.labelled
    known = (graph.labels if graph.targets is None else graph.targets)[train]
    different = torch.unique(known).numel()
    if different == 0:
        hint = " in the graph; --task links and --task clusters need no labels"
        raise GraphError(
            f"at least one training node must have a label, found none{'' if bool(graph.labelled.any()) else hint}"
        )
    if different == 1 and graph.targets is not None:
        raise GraphError(f"training nodes must have different numbers, found {float(known[0]):g} alone")
    if different == 1:
        raise GraphError("training nodes must be of two classes or more, found one class alone")


def _injected(inner: Graph, config: Config, keys: Iterable[Key]) -> list[Graph]:
    """Return copies of a graph with injected edges; ``truth`` marks these, not the graph's own noise."""
    rate = config.training.injected
    if not config.training.selection or rate == 0.0 or inner.num_edges == 0:
        return []
    inner = replace(inner, truth=None)
    try:
        return [as_read(corrupt(inner, "random-links", rate, key.seed32).graph, config) for key in keys]
    except GraphError:  # nearly complete graph: no edges can be added
        return []


def _held_out_graph(
    train: Prepared, inner: Graph, config: Config, key: Key, device: torch.device
) -> HeldOutGraph | None:
    """Return the held-out perturbed graph; None if injected edges are not used or cannot be added."""
    drawn = _injected(inner, config, [key.fold_in("held-out")]) if config.training.injected_weight else []
    if not drawn or drawn[0].truth is None or not bool(drawn[0].truth.spurious.any()):
        return None
    perturbed = _beside(train, inner, drawn[0], config, device)
    return HeldOutGraph(perturbed, ~drawn[0].truth.spurious.to(device))


def _beside(
    train: Prepared, inner: Graph, perturbed: Graph, config: Config, device: torch.device
) -> Prepared:
    """Prepare a perturbed graph, which shares equal features with the training graph in memory."""
    prepared = prepare(perturbed, config, device)
    if perturbed.features is not inner.features:  # structural features depend on the edges
        return prepared
    return replace(prepared, features=train.features)


@dataclass(frozen=True)
class Cut:
    """The training graph, cut out of the whole graph, and the labelled nodes for training and validation."""

    inner: Graph
    """Nodes of the training split and of no split; weights are learned on these alone.

    Of a transductive graph all nodes, those that are no targets without labels.
    """
    seen: Int[Tensor, "seen"]
    """The number in the whole graph of each node of ``inner``."""
    targets: Int[Tensor, "targets"]
    """Labelled training nodes, as numbers in ``inner``."""
    validation: Int[Tensor, "validation"]
    """Labelled validation nodes, as numbers in the whole graph."""


def cut_for_training(graph: Graph, seed: int) -> Cut:
    """Cut out the training graph, which excludes validation and test nodes unless the graph is transductive."""
    split = split_for_training(graph, seed)
    check_trainable(graph, split)
    train, labelled = split == SPLITS.index("train"), graph.labelled
    validation = ((split == SPLITS.index("validation")) & labelled).nonzero().flatten()
    if graph.transductive:
        learned = train & labelled
        return Cut(
            without_labels(graph, ~learned),
            torch.arange(graph.num_nodes),
            learned.nonzero().flatten(),
            validation,
        )
    seen = (train | (split == SPLITS.index("none"))).nonzero().flatten()
    targets = (train & labelled)[seen].nonzero().flatten()
    return Cut(graph.induced(seen), seen, targets, validation)


def without_labels(graph: Graph, hidden: Bool[Tensor, "nodes"]) -> Graph:
    """Return a graph without the labels, or the numbers in place of classes, of some nodes."""
    targets = None if graph.targets is None else graph.targets.masked_fill(hidden, torch.nan)
    return replace(graph, labels=graph.labels.masked_fill(hidden, UNKNOWN), targets=targets, notes=())


def make_training_data(
    graph: Graph,
    config: Config,
    seed: int,
    device: torch.device,
    task: Task = CLASSIFICATION,
    numbers: Int[Tensor, "nodes"] | None = None,
) -> TrainingData:
    """Return the training data of a graph on a device, with the targets split into folds.

    Of a part of a larger graph, ``numbers`` are those of its nodes there. Folds then depend on these alone, so that
    they are the same in every part; copies with injected edges are left out.
    """
    cut = cut_for_training(graph, seed)
    inner, targets = as_read(cut.inner, config), cut.targets
    key = Key.of(seed).fold_in("injected")
    every = None if numbers is None else fold_by_number(numbers[cut.seen], config, seed)
    fold = (
        cut_into_folds(inner.num_nodes, targets, config, seed)
        if every is None
        else fold_of_targets(every, targets)
    )
    train = prepare(inner, config, device)
    found = TrainingData(
        train=train,
        injected=()
        if numbers is not None
        else perturbed_copies(train, cut.inner, config, key, device, config.training.perturbed_graphs),
        labels=task.truth(inner).to(device),
        targets=targets.to(device),
        fold=fold.to(device),
        whole=prepare(as_read(graph, config), config, device),
        seen=cut.seen.to(device),
        validation=cut.validation.to(device),
        validation_labels=task.truth(graph)[cut.validation].to(device),
        task=task,
        held_out_graph=_held_out_graph(train, cut.inner, config, key, device)
        if cut.validation.numel()
        else None,
        every_fold=None if every is None else every.to(device),
    )
    release_freed()  # what the threads that prepared graphs needed
    return found


def perturbed_copies(
    train: Prepared, inner: Graph, config: Config, key: Key, device: torch.device, count: int
) -> tuple[Prepared, ...]:
    """Return copies of a training graph with injected edges, on a device."""
    graphs = _injected(inner, config, [key.fold_in("perturbed", number) for number in range(count)])
    threads = torch.get_num_threads()

    def prepared(one: Graph) -> Prepared:
        with torch_threads(threads):  # as many as the caller has
            return _beside(train, inner, one, config, device)

    return tuple(in_order(prepared, graphs))


def after_epochs(data: TrainingData) -> TrainingData:
    """Return the data without what only epochs need: perturbed graphs, and means over all neighbours."""
    release_freed()
    return replace(data, train=replace(data.train), injected=(), held_out_graph=None)


def is_small(graph: Graph, config: Config) -> bool:
    """Return whether products of a graph's features are so small that threads of torch would mostly wait."""
    values, columns = size_as_read(graph, config)
    return values + graph.num_edges <= _SMALL_VALUES and columns <= _SMALL_COLUMNS


def folds_asked(config: Config) -> int:
    """Return how many folds the targets are split into; one if they are not split."""
    return config.reward.folds if config.reward.kind != "paper" else 1


def fold_by_number(numbers: Int[Tensor, "nodes"], config: Config, seed: int) -> Int[Tensor, "nodes"]:
    """Return the fold of each node of a larger graph, which depends on its number there; -1 without folds."""
    folds = folds_asked(config)
    if folds == 1:
        return torch.full_like(numbers, -1)
    drawn = mix64(Key.of(seed).fold_in("folds").value, numbers.cpu().numpy()) % np.uint64(folds)
    return torch.from_numpy(drawn.astype(np.int64))


def fold_of_targets(every: Int[Tensor, "nodes"], targets: Int[Tensor, "targets"]) -> Int[Tensor, "nodes"]:
    """Return the folds of the targets; -1 for other nodes."""
    return torch.full_like(every, -1).index_copy(0, targets, every[targets])


def cut_into_folds(
    nodes: int, targets: Int[Tensor, "targets"], config: Config, seed: int
) -> Int[Tensor, "nodes"]:
    """Return the random fold of each target; -1 for other nodes, and for all nodes if there are no folds."""
    folds = folds_asked(config)
    fold = torch.full((nodes,), -1)
    if folds > 1:
        order = torch.randperm(targets.numel(), generator=Key.of(seed).fold_in("folds").generator())
        fold[targets[order]] = torch.arange(targets.numel()) % folds
    return fold
