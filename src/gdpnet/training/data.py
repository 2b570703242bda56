"""What training sees: the graph cut to its training nodes, and the validation nodes on the whole one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from gdpnet.config import Config
from gdpnet.data.graph import SPLITS, UNKNOWN, Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.schema import as_read
from gdpnet.data.subgraph import part_around
from gdpnet.errors import GraphError
from gdpnet.representation.tasks import CLASSIFICATION, Task

_WORLDS = 4
"""Draws of self-injected links, which the epochs take in turn."""

_PROOF = 1 << 24
"""Added to the seed of the draw that the policy never practises on."""


@dataclass(frozen=True)
class Proof:
    """A draw of self-injected links that the policy never practises on: it is asked which they are."""

    world: Prepared
    genuine: Bool[Tensor, "edges"]
    """The training graph's own edges, noisy or not; nobody knows which of those are."""


@dataclass(frozen=True)
class Scene:
    """What training sees: the training graph, its targets and folds, and the validation nodes on their graph."""

    train: Prepared
    injected: tuple[Prepared, ...]
    """The training graph with known random links added, in several draws; the policy practises on them too."""
    labels: Shaped[Tensor, "nodes *any"]
    """What is true of each node of the training graph: its class, or what else the task asks for."""
    targets: Int[Tensor, "targets"]
    fold: Int[Tensor, "nodes"]
    whole: Prepared
    seen: Int[Tensor, "nodes"]
    """The number in the whole graph of each node of the training graph."""
    validation: Int[Tensor, "validation"]
    validation_labels: Shaped[Tensor, "validation *any"]
    task: Task = CLASSIFICATION
    proof: Proof | None = None
    doubtful: bool = False
    """Whether some targets were set aside for their labels: those that are left agree with the model that judged."""

    @property
    def member(self) -> Int[Tensor, "nodes"]:
        """Return the member that speaks of each node: the one that never learned its label, else the first."""
        return self.fold + 1

    @property
    def member_in_whole(self) -> Int[Tensor, "whole"]:
        """Return the same for each node of the whole graph."""
        return self.member.new_zeros(self.whole.num_nodes).index_copy(0, self.seen, self.member)


def split_for_training(graph: Graph, seed: int) -> Int[Tensor, "nodes"]:
    """Return the split to train with: the graph's own, or a tenth of the labelled nodes held out for validation."""
    split = graph.split.clone()
    train, validation = SPLITS.index("train"), SPLITS.index("validation")
    generator = torch.Generator().manual_seed(seed)
    if not bool((split == train).any()):
        split[(split == 0) & (graph.labels != UNKNOWN)] = train
    if not bool((split == validation).any()):
        pool = (split == train).nonzero().flatten()
        pool = pool[graph.labels[pool] != UNKNOWN]
        held = torch.randperm(pool.numel(), generator=generator)[: pool.numel() // 10]
        split[pool[held]] = validation
    return split


def check_trainable(graph: Graph, split: Int[Tensor, "nodes"]) -> None:
    """Refuse a graph whose training nodes show fewer than two classes."""
    labels = graph.labels[split == SPLITS.index("train")]
    classes = torch.unique(labels[labels != UNKNOWN]).numel()
    if classes == 0:
        raise GraphError("at least one training node must have a label, found none")
    if classes == 1:
        raise GraphError("training nodes must be of two classes or more, found one class alone")


def _injected(inner: Graph, config: Config, seeds: Iterable[int]) -> list[Graph]:
    """Draw worlds with self-injected links, whose truth tells of those alone, not of the graph's own noise."""
    rate = config.training.injected
    if not config.training.selection or rate == 0.0 or inner.num_edges == 0:
        return []
    inner = replace(inner, truth=None)
    try:
        return [as_read(corrupt(inner, "random-links", rate, seed).graph, config) for seed in seeds]
    except GraphError:  # nearly all pairs of nodes are linked: there is no room for more
        return []


def _proof(train: Prepared, inner: Graph, config: Config, seed: int, device: torch.device) -> Proof | None:
    """Draw the world that the policy is asked about, if it practises at all."""
    drawn = _injected(inner, config, [_PROOF + seed]) if config.training.injected_weight else []
    if not drawn or drawn[0].truth is None or not bool(drawn[0].truth.spurious.any()):
        return None
    world = _beside(train, inner, drawn[0], config, device)
    return Proof(world, ~drawn[0].truth.spurious.to(device))


def _beside(train: Prepared, inner: Graph, world: Graph, config: Config, device: torch.device) -> Prepared:
    """Prepare a world of injected links; features that the training graph has too are held once."""
    prepared = prepare(world, config, device)
    if world.features is not inner.features:  # structural ones are those of the world's links
        return prepared
    circle = train.features if prepared.circle is prepared.features else prepared.circle
    return replace(prepared, features=train.features, circle=circle)


@dataclass(frozen=True)
class Cut:
    """The training graph, cut out of the whole one, and the labelled nodes to learn from and to choose on."""

    inner: Graph
    """Nodes of the training split and of none; nothing else is seen while weights are learned."""
    seen: Int[Tensor, "seen"]
    """The number in the whole graph of each node of ``inner``."""
    targets: Int[Tensor, "targets"]
    """Labelled training nodes, as numbers in ``inner``."""
    validation: Int[Tensor, "validation"]
    """Labelled validation nodes, as numbers in the whole graph."""


def cut_for_training(graph: Graph, seed: int) -> Cut:
    """Cut the training graph out of the whole one: validation and test nodes are not in it."""
    split = split_for_training(graph, seed)
    check_trainable(graph, split)
    train, labelled = split == SPLITS.index("train"), graph.labels != UNKNOWN
    seen = (train | (split == SPLITS.index("none"))).nonzero().flatten()
    targets = (train & labelled)[seen].nonzero().flatten()
    validation = ((split == SPLITS.index("validation")) & labelled).nonzero().flatten()
    return Cut(graph.induced(seen), seen, targets, validation)


def part_for_training(graph: Graph, most: int, seed: int) -> Graph:
    """Return what of a large graph is trained on: labelled nodes drawn at random, and what lies around them.

    A graph of no more than ``most`` nodes is taken as it is. One drawn node in five is of validation, while there are
    both. A drawn node has all its neighbours; the labelled nodes that are taken along are learned from and chosen on
    too, each with those of its neighbours that are there.
    """
    if graph.num_nodes <= most:
        return graph
    split = split_for_training(graph, seed)
    check_trainable(graph, split)
    part = part_around(replace(graph, split=split), _drawn(graph, split, seed), most, seed)[0]
    learned = part.labels[part.split == SPLITS.index("train")]
    if torch.unique(learned[learned != UNKNOWN]).numel() < 2:
        raise GraphError(
            f"the part of {part.num_nodes:,} nodes that is trained on shows one class alone: "
            "raise training.most_nodes"
        )
    return part


def part_for_scoring(graph: Graph, most: int, seed: int) -> Graph:
    """Return what of a large graph is scored and drawn: test nodes drawn at random, and what lies around them.

    Without a labelled test node, other labelled nodes, or any, take their place.
    """
    if graph.num_nodes <= most:
        return graph
    labelled = (graph.labels != UNKNOWN).nonzero().flatten()
    tested = labelled[graph.split[labelled] == SPLITS.index("test")]
    core = next(some for some in (tested, labelled, torch.arange(graph.num_nodes)) if some.numel())
    core = core[torch.randperm(core.numel(), generator=torch.Generator().manual_seed(seed))]
    part, chosen = part_around(graph, core, most, seed)
    split = torch.full_like(part.split, SPLITS.index("none")).index_copy(0, chosen, part.split[chosen])
    return replace(part, split=split)


def _drawn(graph: Graph, split: Int[Tensor, "nodes"], seed: int) -> Int[Tensor, "drawn"]:
    """Return the labelled nodes of training and validation in random order, every fifth one of validation."""
    generator, labelled = torch.Generator().manual_seed(seed), graph.labels != UNKNOWN
    learned, asked = (
        nodes[torch.randperm(nodes.numel(), generator=generator)]
        for name in ("train", "validation")
        for nodes in [((split == SPLITS.index(name)) & labelled).nonzero().flatten()]
    )
    place = torch.cat([torch.arange(learned.numel()) * 5 // 4, torch.arange(asked.numel()) * 5 + 4])
    return torch.cat([learned, asked])[place.argsort(stable=True)]


def make_scene(
    graph: Graph, config: Config, seed: int, device: torch.device, task: Task = CLASSIFICATION
) -> Scene:
    """Bring what training sees to a device, and cut the targets into folds."""
    cut = cut_for_training(graph, seed)
    inner, targets = as_read(cut.inner, config), cut.targets
    worlds = _injected(cut.inner, config, range(seed * _WORLDS, (seed + 1) * _WORLDS))
    fold = cut_into_folds(inner.num_nodes, targets, config, seed)
    train = prepare(inner, config, device)
    return Scene(
        train=train,
        injected=tuple(_beside(train, cut.inner, world, config, device) for world in worlds),
        labels=task.truth(inner).to(device),
        targets=targets.to(device),
        fold=fold.to(device),
        whole=prepare(as_read(graph, config), config, device),
        seen=cut.seen.to(device),
        validation=cut.validation.to(device),
        validation_labels=task.truth(graph)[cut.validation].to(device),
        task=task,
        proof=_proof(train, cut.inner, config, seed, device) if cut.validation.numel() else None,
    )


def cut_into_folds(
    nodes: int, targets: Int[Tensor, "targets"], config: Config, seed: int
) -> Int[Tensor, "nodes"]:
    """Return the fold of each target, drawn by the seed; -1 for other nodes, and where there are no folds."""
    folds = config.reward.folds if config.reward.kind != "paper" else 1
    fold = torch.full((nodes,), -1)
    if folds > 1:
        order = torch.randperm(targets.numel(), generator=torch.Generator().manual_seed(seed + 1))
        fold[targets[order]] = torch.arange(targets.numel()) % folds
    return fold
