"""Tasks as strategies: each owns its training data and what is fitted after training."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Shaped
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.schema import ONE_HOT, Columns
from gdpnet.errors import GraphError
from gdpnet.inference.networks import Networks
from gdpnet.representation.tasks import CLASSIFICATION, MultiLabel, Task, label_names
from gdpnet.training.clusters import ClustersTask
from gdpnet.training.data import (
    TrainingData,
    check_trainable,
    make_training_data,
    part_for_training,
    split_for_training,
)
from gdpnet.training.finalise import Finalised, finalise_labelled
from gdpnet.training.link_task import LinksTask
from gdpnet.training.state import TrainingState


class TrainingTask(Protocol):
    """How a kind of task is trained."""

    graph: Graph
    """The graph that is trained on."""
    data: TrainingData
    basis: Tensor | None
    """What features are projected on before anything is learned, if they are."""

    @staticmethod
    def check(graph: Graph, config: Config, seed: int) -> None:
        """Refuse a graph that the task cannot be learned on."""

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the part of a graph that is trained on."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        seed: int,
        device: torch.device,
        objective: Task | None,
        held_out: Pairs | None,
    ) -> None: ...

    @property
    def class_names(self) -> list[str]:
        """Return a name for each output of the aggregators."""

    def update_targets(self, state: TrainingState) -> Shaped[Tensor, "nodes *any"] | None:
        """Return new targets found with the policy as it is now; None if labels are given."""

    def finalise(self, networks: Networks, data: TrainingData, key: Key) -> Finalised:
        """Choose and fit what the task needs beside the networks that were trained."""


class LabelTask:
    """One class, or several labels, per node; also tasks of the user's own."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        seed: int,
        device: torch.device,
        objective: Task | None,
        held_out: Pairs | None,
    ) -> None:
        self.config = config
        self.basis: Tensor | None = None
        self.graph = self.part_of(graph, config, seed)
        if objective is None:
            multiple = config.task.kind == "multi-label"
            objective = MultiLabel(label_names(self.graph)) if multiple else CLASSIFICATION
        self.objective = objective
        self.data = make_training_data(self.graph, config, seed, device, objective)

    @staticmethod
    def check(graph: Graph, config: Config, seed: int) -> None:
        """Refuse a graph whose training nodes have fewer than two classes."""
        check_trainable(graph, split_for_training(graph, seed))

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the whole graph, or a sampled part of one with more than ``training.max_nodes`` nodes."""
        most = config.training.max_nodes
        if graph.num_nodes > most and Columns.of(graph, config).kind == ONE_HOT:
            raise GraphError(
                f"a graph of more than {most:,} nodes is trained on a part of it, and one-hot features, one column "
                "per node, cannot be used on a part: use --features structural, or raise training.max_nodes"
            )
        return part_for_training(graph, most, config.training.part_fan_out, seed)

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes or labels, or numbers for outputs of another kind."""
        names = self.objective.names if isinstance(self.objective, MultiLabel) else self.graph.class_names
        outputs = self.objective.outputs(self.graph)
        return list(names) if outputs == len(names) else [str(number) for number in range(outputs)]

    def update_targets(self, state: TrainingState) -> None:
        """Labels are given: there is nothing to update."""

    def finalise(self, networks: Networks, data: TrainingData, key: Key) -> Finalised:
        """Choose the threshold of the cleaned graph and fit the heads of the ensemble."""
        return finalise_labelled(networks, data, self.config, key)


TASKS: dict[str, type[TrainingTask]] = {
    "classification": LabelTask,
    "multi-label": LabelTask,
    "links": LinksTask,
    "clusters": ClustersTask,
}
