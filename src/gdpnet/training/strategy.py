"""What every task has to say for training: its part of the graph, its data, and what is fitted at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.beside import Beside
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.data.prepare import Prepared
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected, select
from gdpnet.representation.tasks import Task
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import TrainingData, after_epochs
from gdpnet.training.fit_genuine import EvidenceBegun, begin_evidence, fit_genuine, match_genuine
from gdpnet.training.label_noise import suspect_labels, without_suspected
from gdpnet.training.state import Finalised, TrainingState


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
    ranks: Ranks = field(default_factory=Ranks)
    """The processes that train the model together."""
    beside: Beside = field(default_factory=lambda: Beside(enabled=False))
    """Runs what need not wait for the other steps."""
    evidence: EvidenceBegun | None = field(init=False, default=None)
    """Waits for the evidence model that is fitted beside the epochs; None if it is fitted after them."""
    score: Float[Tensor, "edges"] | None = field(init=False, default=None)
    """The evidence score of every edge of the whole graph, once it is known."""
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

    def begin_without_epochs(self, key: Key) -> None:
        """Begin what needs no epoch."""
        if self.config.evidence.use and self.config.training.selection:
            self.evidence = begin_evidence(self.data.whole, self.config, key, self.beside)

    def data_of_epoch(self, state: TrainingState) -> TrainingData:
        """Return the data of the epoch that begins, which may be another part of a large graph than before."""
        return self.data

    def end_epochs(self, state: TrainingState) -> None:
        """Drop what only epochs need."""
        state.projected = None
        self.data = after_epochs(self.data)

    def update_targets(self, state: TrainingState) -> Shaped[Tensor, "nodes *any"] | None:
        """Return new targets found with the policy as it is now; None if labels are given."""
        return None

    def first_pseudo_labels(self, key: Key, steps: Steps) -> Int[Tensor, "nodes"] | None:
        """Return what stands for missing labels before any epoch; None where labels are plenty, or not read."""
        return None

    def trusted(self, networks: Networks, data: TrainingData, state: TrainingState) -> TrainingData:
        """Return the training data without suspected labels, for what is fitted after the epochs."""
        if data.every_fold is not None and state.best_suggested is not None:  # those of another part
            state.best_suggested = suspect_labels(networks.aggregators, data, self.config)
        return without_suspected(data, state.best_suggested)

    def complete(self, networks: Networks, data: TrainingData, key: Key, steps: Steps) -> Finalised:
        """Learn which edges are genuine, and finalise the networks."""
        self.score = fit_genuine(networks, self.graph, data.whole, self.config, key, steps, self.evidence)
        return self.finalise(networks, data, key, steps)

    @abstractmethod
    def finalise(self, networks: Networks, data: TrainingData, key: Key, steps: Steps) -> Finalised:
        """Choose and fit what the task needs beside the networks that were trained; report every step."""

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

    def genuine_in(self, networks: Networks, selected: Selected) -> Float[Tensor, "edges"] | None:
        """Return the genuine probability of every edge that was decided on; None if it is not learned."""
        return match_genuine(networks, selected, self.config, self.score)
