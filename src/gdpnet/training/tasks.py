"""Tasks as strategies: each owns its training data and what is fitted after training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import Ensemble, HeadWeights
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected, select
from gdpnet.inference.threshold import Choice
from gdpnet.representation.tasks import CLASSIFICATION, MultiLabel, Task, label_names
from gdpnet.training.choose_threshold import choose_threshold
from gdpnet.training.data import TrainingData, make_training_data, part_for_training
from gdpnet.training.fit_gcn_head import fit_gcn, is_worth_gcn
from gdpnet.training.fit_hopwise_head import fit_hopwise, is_worth_hopwise
from gdpnet.training.state import TrainingState


@dataclass(frozen=True)
class Finalised:
    """What was chosen after training. Networks that were fitted are part of the module that was handed over."""

    threshold: Choice
    weights: HeadWeights = field(default_factory=HeadWeights)
    selects: bool = True
    """Whether link prediction weights edges by their keep probability, rather than all alike."""
    score: float | None = None
    """The validation score of the final model, if it differs from that of the best epoch."""


@dataclass
class TrainingTask(ABC):
    """How a kind of task is trained."""

    graph: Graph
    """The graph that is trained on."""
    config: Config
    seed: int
    device: torch.device
    objective: Task | None = None
    """A task of the user's own."""
    held_out: Pairs | None = None
    """Pairs that validate link prediction."""
    basis: Tensor | None = field(init=False, default=None)
    """What features are projected on before anything is learned, if they are."""

    def __post_init__(self) -> None:
        self.data = self.gather()

    @staticmethod
    @abstractmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the part of a graph that is trained on; refuse a graph that the task cannot be learned on."""

    @abstractmethod
    def gather(self) -> TrainingData:
        """Return the training data."""

    @property
    @abstractmethod
    def class_names(self) -> list[str]:
        """Return a name for each output of the aggregators."""

    def update_targets(self, state: TrainingState) -> Shaped[Tensor, "nodes *any"] | None:
        """Return new targets found with the policy as it is now; None if labels are given."""
        return None

    @abstractmethod
    def finalise(self, networks: Networks, data: TrainingData, key: Key) -> Finalised:
        """Choose and fit what the task needs beside the networks that were trained."""

    def decide_all(
        self,
        networks: Networks | TrainingState,
        prepared: Prepared,
        key: Key,
        fold_model: Int[Tensor, "nodes"],
    ) -> Selected:
        """Decide on every edge, each target seen by the fold model that has not learned its label."""
        all_nodes, policy = torch.arange(prepared.num_nodes, device=prepared.device), networks.policy
        return select(policy, networks.aggregators, prepared, all_nodes, self.config, key, fold_model)


class LabelTask(TrainingTask):
    """One class, or several labels, per node; also tasks of the user's own."""

    part_of = staticmethod(part_for_training)

    def gather(self) -> TrainingData:
        """Return the training data of the graph, or of the part of a large one."""
        self.graph = self.part_of(self.graph, self.config, self.seed)
        objective = self.objective
        if objective is None:
            multiple = self.config.task.kind == "multi-label"
            objective = MultiLabel(label_names(self.graph)) if multiple else CLASSIFICATION
        return make_training_data(self.graph, self.config, self.seed, self.device, objective)

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes or labels, or numbers for outputs of another kind."""
        task = self.data.task
        names = task.names if isinstance(task, MultiLabel) else self.graph.class_names
        outputs = task.outputs(self.graph)
        return list(names) if outputs == len(names) else [str(number) for number in range(outputs)]

    def finalise(self, networks: Networks, data: TrainingData, key: Key) -> Finalised:
        """Choose the threshold of the cleaned graph; fit the heads, and add those that help to the ensemble."""
        config, aggregators, score = self.config, networks.aggregators, None
        stream = key.fold_in("finalise")
        train = self.decide_all(networks, data.train, stream, data.fold_model)
        whole = self.decide_all(networks, data.whole, stream, data.fold_model_in_whole)
        selection = networks.policy is not None
        choice = choose_threshold(aggregators, data, train, whole, config.threshold, selection=selection)
        weights = HeadWeights()
        if is_worth_hopwise(data, aggregators, config):
            hopwise = fit_hopwise(aggregators, data, train, whole, config, key.fold_in("hopwise"))
            if hopwise.best is not None:
                networks.hopwise, score = hopwise.network, hopwise.best.validation_f1
                weights = weights.with_hopwise(hopwise.best.share)
        if is_worth_gcn(data, config):
            ensemble = Ensemble(networks, weights, choice.threshold)
            before = ensemble.local(whole.prepared, data.validation, whole.weight(config.inference.mode))[1]
            gcn = fit_gcn(data, train, whole, choice.threshold, before, config, key.fold_in("gcn"))
            if gcn.is_accepted:
                networks.gcn, score = gcn.network, gcn.validation_f1
                weights = weights.with_gcn(config.gcn.weight)
        return Finalised(choice, weights, score=score)
