"""The tasks with labels: classes, sets of labels, numbers, and those of the user's own."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from gdpnet._core.progress import part
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.inference.networks import Networks
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import TrainingData, make_training_data
from gdpnet.training.fit_without_decisions import begin_all_edges
from gdpnet.training.heads import Heads
from gdpnet.training.objective import learned_task, names_of_outputs
from gdpnet.training.parts import Parts, checked_labels, draw_first, is_too_large, part_for_training
from gdpnet.training.self_training import SelfTraining
from gdpnet.training.state import Finalised, TrainingState
from gdpnet.training.strategy import TrainingTask


class LabelTask(TrainingTask):
    """One class, several labels or a number per node; also tasks of the user's own."""

    self_training: SelfTraining | None = None
    parts: Parts | None = None
    """The parts of a graph that is too large to train on at once."""

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the part of a graph that is trained on; refuse numbers as classes, and classes as numbers."""
        return part_for_training(checked_labels(graph, config), config, seed)

    def gather(self) -> TrainingData:
        """Return the training data of the graph, or of the first part of a large one."""
        config, seed, numbers = self.config, self.seed, None
        whole = self.graph = checked_labels(self.graph, config)
        if is_too_large(whole, config):
            first = draw_first(whole, config, seed, self.ranks)
            self.parts = Parts(whole, first, config, seed, self.ranks)
            self.graph, numbers = first.graph, first.numbers
        objective = learned_task(whole, config, seed) if self.objective is None else self.objective
        return make_training_data(self.graph, config, seed, self.device, objective, numbers)

    def data_of_epoch(self, state: TrainingState) -> TrainingData:
        """Return the data of the epoch that begins; of a large graph that of the part whose turn it is."""
        return self.data if self.parts is None else self.parts.enter(state, self.data, self.self_training)

    def end_epochs(self, state: TrainingState) -> None:
        """Drop what only epochs need; pseudo-labels are those of the first part again."""
        super().end_epochs(state)
        if self.parts is not None:
            self.parts.current = None
            state.pseudo = None if self.self_training is None else self.self_training.first

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes or labels, the centres of bins, or numbers for outputs of another kind."""
        return names_of_outputs(self.data.task, self.graph)

    def first_pseudo_labels(self, key: Key, steps: Steps) -> Int[Tensor, "nodes"] | None:
        """Return the confident predictions of a teacher, if labels are few; unlabelled nodes get folds, too."""
        self.self_training = SelfTraining(self.data, self.config, self.seed)
        found = self.self_training.begin(len(self.class_names), key, steps, self.ranks)
        self.data = self.self_training.data
        if found is None:
            self.self_training = None  # it holds graphs that only epochs need
        return found

    def update_targets(self, state: TrainingState) -> None:
        """Predict the pseudo-labels anew with the networks as they are now."""
        if state.pseudo is not None and self.self_training is not None:
            state.pseudo = self.self_training.relabelled(state, state.pseudo)

    def trusted(self, networks: Networks, data: TrainingData, state: TrainingState) -> TrainingData:
        """Return the training data with the pseudo-labels that the best epoch predicts, if labels are few."""
        data = super().trusted(networks, data, state)
        if state.pseudo is None or self.self_training is None:
            return data
        self.self_training.data = self.data  # without what only epochs need
        return self.self_training.applied(data, networks, state.pseudo)

    def finalise(self, networks: Networks, data: TrainingData, key: Key, steps: Steps) -> Finalised:
        """Choose the threshold of the cleaned graph; fit the heads, and add those that help to the ensemble."""
        all_edges = begin_all_edges(networks, data, self.config, key, self.beside)
        stream = key.fold_in("finalise")
        with steps.run("decisions", "deciding on every edge"):
            with part(0, 2):
                train = self.decide_all(networks, data.train, stream, data.fold_model)
            with part(1, 2):
                whole = self.decide_all(networks, data.whole, stream, data.fold_model_in_whole)
        genuine = self.genuine_in(networks, whole)
        given = (networks, data, train, whole, self.config, key, steps, genuine)
        return Heads(*given, self.beside, all_edges).finalise()
