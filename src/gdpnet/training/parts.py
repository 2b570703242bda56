"""Parts of a graph that is too large to train on at once.

The first part holds validation nodes with their surroundings, and training nodes beside them. The best epoch, the
threshold and the heads are chosen on it. Every few epochs another part is drawn around other training nodes, with as
many edges, until all of them had their turn; then they are shuffled and it starts again. No validation or test node
is in these parts, unless the graph is transductive. With several ranks each has its own share of the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet._core.memory import release_freed
from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.graph import Graph, places_among
from gdpnet.data.labels import as_targets, check_classes
from gdpnet.data.prepare import Prepared, prepare
from gdpnet.data.schema import ONE_HOT, Columns, as_read
from gdpnet.data.surroundings import part_around, surroundings
from gdpnet.data.validation import SPLITS
from gdpnet.errors import GraphError
from gdpnet.training.data import (
    TrainingData,
    check_trainable,
    fold_by_number,
    fold_of_targets,
    perturbed_copies,
    split_for_training,
    without_labels,
)
from gdpnet.training.self_training import SelfTraining
from gdpnet.training.state import TrainingState

_TRAIN, _VALIDATION = SPLITS.index("train"), SPLITS.index("validation")


@dataclass(frozen=True)
class FirstPart:
    """The first part of a large graph."""

    graph: Graph
    numbers: Int[Tensor, "nodes"]
    """The numbers of its nodes in the large graph, ascending."""
    core: int
    """Training nodes that it was drawn around."""
    edges: int
    """Edges among the nodes that are trained on, which no other part exceeds."""


def is_too_large(graph: Graph, config: Config) -> bool:
    """Return whether a graph is trained on in parts."""
    return graph.num_nodes > config.training.max_nodes


def part_for_training(graph: Graph, config: Config, seed: int) -> Graph:
    """Return the graph to train on; of a graph of more than ``training.max_nodes`` nodes the first part."""
    return part_and_numbers(graph, config, seed)[0]


def part_and_numbers(graph: Graph, config: Config, seed: int) -> tuple[Graph, Int[Tensor, "nodes"] | None]:
    """Return the graph to train on and, of a part, the numbers of its nodes in the large graph."""
    if is_too_large(graph, config):
        first = draw_first(graph, config, seed)
        return first.graph, first.numbers
    check_trainable(graph, split_for_training(graph, seed))
    return graph, None


def draw_first(graph: Graph, config: Config, seed: int, ranks: Ranks | None = None) -> FirstPart:
    """Draw the first part of a large graph: random labelled nodes and their neighbourhoods.

    Every fifth sampled node is a validation node, while there are both kinds. Sampled nodes keep all their
    neighbours. Labelled nodes among these are used too, with the neighbours that they have in the part. No rank has
    more edges than another one can have.
    """
    most, fan_out, ranks = config.training.max_nodes, config.training.part_fan_out, ranks or Ranks()
    if Columns.of(graph, config).kind == ONE_HOT:
        raise GraphError(
            f"a graph of more than {most:,} nodes is trained on a part of it, and one-hot features, one column "
            "per node, cannot be used on a part: use --features structural, or raise training.max_nodes"
        )
    split = split_for_training(graph, seed)
    check_trainable(graph, split)
    graph = replace(graph, split=split)
    train, validation = (
        _shuffled(graph, code, seed)[ranks.part :: ranks.parts] for code in (_TRAIN, _VALIDATION)
    )
    if train.numel() == 0:
        raise GraphError(
            f"every rank needs a training node of its own, found too few for {ranks.parts} ranks"
        )
    core = _interleaved(train, validation)
    around = surroundings(graph, core, most, fan_out, seed)
    counted = _trained_on(graph)
    bound = ranks.least(int(around.edges_of(graph, around.length_within(most), counted)[-1]))
    numbers, length = around.filled_up(graph, most, bound, counted)
    part = graph.induced(numbers)
    _check_classes(part)
    cored = int((graph.split[core[:length]] == _TRAIN).sum())
    return FirstPart(part, numbers, max(cored, 1), bound)


def part_for_scoring(graph: Graph, most: int, fan_out: tuple[int, ...], seed: int) -> Graph:
    """Return the part of a large graph to score and plot: random test nodes and their neighbourhoods.

    Without labelled test nodes, other labelled nodes are sampled, or else any nodes.
    """
    if graph.num_nodes <= most:
        return graph
    labelled = graph.labelled.nonzero().flatten()
    tested = labelled[graph.split[labelled] == SPLITS.index("test")]
    core = next(some for some in (tested, labelled, torch.arange(graph.num_nodes)) if some.numel())
    core = core[torch.randperm(core.numel(), generator=torch.Generator().manual_seed(seed))]
    part, chosen = part_around(graph, core, most, fan_out, seed)
    split = torch.full_like(part.split, SPLITS.index("none")).index_copy(0, chosen, part.split[chosen])
    return replace(part, split=split)


def checked_labels(graph: Graph, config: Config) -> Graph:
    """Return a graph with labels as the task reads them; refuse numbers as classes, and classes as numbers."""
    if config.task.kind == "regression":
        return as_targets(graph)
    check_classes(graph)
    return graph


class Parts:
    """The parts of a large graph that epochs are trained on, one after the other.

    A part depends on the seed, its number and the rank alone, so that a resumed run draws the same ones.
    """

    current: tuple[int, TrainingData] | None = None
    """The part that epochs are trained on now, by number."""

    def __init__(self, graph: Graph, first: FirstPart, config: Config, seed: int, ranks: Ranks) -> None:
        self.graph = replace(graph, split=split_for_training(graph, seed))
        self.first, self.config, self.seed, self.ranks = first, config, seed, ranks
        self.trained_on = _trained_on(self.graph)

    def number_at(self, epoch: int) -> int:
        """Return the number of the part that an epoch is trained on, from zero."""
        every = self.config.training.redraw_every
        return (epoch - 1) // every if every else 0

    def enter(
        self, state: TrainingState, home: TrainingData, self_training: SelfTraining | None
    ) -> TrainingData:
        """Return the data of the epoch that begins; labels of a part are found anew when its turn comes."""
        number, training = self.number_at(state.epoch), self.config.training
        if self.current is None or self.current[0] != number:
            self.current = state.projected = None  # their memory is needed
            with phase("drawing a part"):
                data = self.data_of(number, home)
            self.current = number, data if self_training is None else self_training.enter(data)
        if state.part != number:
            state.part, state.suggested = number, None
            if state.pseudo is not None and self_training is not None:
                selecting = training.selection and state.epoch > training.warmup + 1
                state.pseudo = self_training.labelled_anew(state, selecting)
        return self.current[1]

    def data_of(self, number: int, home: TrainingData) -> TrainingData:
        """Return the training data of a part; ``home`` is that of the first part, whose validation nodes all use."""
        if number == 0:
            inner = self._inner(self.first.numbers[home.seen.cpu()])
            return replace(home, injected=self._copies(home.train, inner, number))
        numbers = self.draw(number)
        inner = self._inner(numbers)
        read, device = as_read(inner, self.config), home.train.device
        train = prepare(read, self.config, device)
        injected = self._copies(train, inner, number)
        targets = ((inner.split == _TRAIN) & inner.labelled).nonzero().flatten()
        every = fold_by_number(numbers, self.config, self.seed)
        release_freed()  # what the threads that prepared graphs needed
        return replace(
            home,
            train=train,
            injected=injected,
            labels=home.task.truth(read).to(device),
            targets=targets.to(device),
            fold=fold_of_targets(every, targets).to(device),
            every_fold=every.to(device),
            seen=places_among(self.first.numbers, numbers, self.graph.num_nodes).to(device),
            first=home,
        )

    def _copies(self, train: Prepared, inner: Graph, number: int) -> tuple[Prepared, ...]:
        """Return the copies of a part with injected edges, no more than it has epochs."""
        settings, key = self.config.training, Key.of(self.seed).fold_in("injected")
        key = key.fold_in("part", number) if number else key
        count = min(settings.perturbed_graphs, settings.redraw_every or settings.perturbed_graphs)
        return perturbed_copies(train, inner, self.config, key, train.device, count)

    def draw(self, number: int) -> Int[Tensor, "nodes"]:
        """Return the nodes of a part other than the first one, ascending."""
        settings, core = self.config.training, self._core(number)
        seed = Key.of(self.seed).fold_in("part", number).seed32
        given = (self.graph, core, settings.max_nodes, settings.part_fan_out, seed)
        around = surroundings(*given, self.trained_on)
        return around.filled_up(self.graph, settings.max_nodes, self.first.edges)[0]

    def _core(self, number: int) -> Int[Tensor, "core"]:
        """Return the training nodes that a part is drawn around, those that did not have their turn first.

        A sweep is a random order of all training nodes, dealt out to the ranks. Parts begin one after the other in
        it, as far apart as the first part has core nodes.
        """
        part, parts = self.ranks.part, self.ranks.parts
        own = -(-(_labelled(self.graph, _TRAIN).numel() - part) // parts)
        sweep, offset = divmod(number * self.first.core, own)
        pool = _shuffled(self.graph, _TRAIN, self.seed, sweep)[part::parts]
        return pool.roll(-offset)

    def _inner(self, numbers: Int[Tensor, "nodes"]) -> Graph:
        """Return the training graph of some nodes; labels of nodes that are no targets are hidden."""
        inner = self.graph.induced(numbers)
        return without_labels(inner, inner.split != _TRAIN) if inner.transductive else inner


def _trained_on(graph: Graph) -> Bool[np.ndarray, "nodes"] | None:
    """Return which nodes may be in a training graph; None if all may."""
    if graph.transductive:
        return None
    return ((graph.split == _TRAIN) | (graph.split == SPLITS.index("none"))).numpy()


def _shuffled(graph: Graph, code: int, seed: int, sweep: int = 0) -> Int[Tensor, "nodes"]:
    """Return the labelled nodes of a split in a random order."""
    nodes = _labelled(graph, code)
    generator = Key.of(seed).fold_in("parts", code, sweep).generator()
    return nodes[torch.randperm(nodes.numel(), generator=generator)]


def _labelled(graph: Graph, code: int) -> Int[Tensor, "nodes"]:
    """Return the labelled nodes of a split, ascending."""
    return ((graph.split == code) & graph.labelled).nonzero().flatten()


def _interleaved(train: Int[Tensor, "train"], validation: Int[Tensor, "validation"]) -> Int[Tensor, "both"]:
    """Return training and validation nodes in their orders, every fifth one for validation."""
    place = torch.cat([torch.arange(train.numel()) * 5 // 4, torch.arange(validation.numel()) * 5 + 4])
    return torch.cat([train, validation])[place.argsort(stable=True)]


def _check_classes(part: Graph) -> None:
    """Refuse a part whose training nodes are of one class alone."""
    learned = (part.split == _TRAIN) & part.labelled
    if torch.unique((part.labels if part.targets is None else part.targets)[learned]).numel() < 2:
        raise GraphError(
            f"the part of {part.num_nodes:,} nodes that is trained on shows one class alone: "
            "raise training.max_nodes"
        )
