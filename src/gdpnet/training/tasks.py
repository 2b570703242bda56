"""The tasks with labels: classes, sets of labels, numbers, and those of the user's own."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.memory import release_freed
from gdpnet._core.progress import part
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.labels import as_targets, check_classes
from gdpnet.data.validation import UNKNOWN
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import select
from gdpnet.representation.regression import Regression
from gdpnet.representation.tasks import MultiLabel
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import TrainingData, make_training_data, part_for_training
from gdpnet.training.heads import Heads
from gdpnet.training.objective import learned_task
from gdpnet.training.pseudo_labels import (
    can_be_trusted,
    confident_labels,
    deviation_of,
    is_worth_self_training,
    relabel,
    unlabelled_nodes,
    with_context_folds,
)
from gdpnet.training.state import Finalised, TrainingState
from gdpnet.training.strategy import TrainingTask
from gdpnet.training.teacher import fit_teacher


class LabelTask(TrainingTask):
    """One class, several labels or a number per node; also tasks of the user's own."""

    source_quality = 0.0
    """Quality on validation nodes of what predicted the first pseudo-labels."""

    @staticmethod
    def part_of(graph: Graph, config: Config, seed: int) -> Graph:
        """Return the part of a graph that is trained on; refuse numbers as classes, and classes as numbers."""
        if config.task.kind == "regression":
            graph = as_targets(graph)
        else:
            check_classes(graph)
        return part_for_training(graph, config, seed)

    def gather(self) -> TrainingData:
        """Return the training data of the graph, or of the part of a large one."""
        self.graph = self.part_of(self.graph, self.config, self.seed)
        objective = self.objective
        if objective is None:
            objective = learned_task(self.graph, self.config, self.seed)
        data = make_training_data(self.graph, self.config, self.seed, self.device, objective)
        release_freed()  # what the threads that prepared graphs needed
        return data

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes or labels, the centres of bins, or numbers for outputs of another kind."""
        task = self.data.task
        if isinstance(task, Regression):
            return [repr(centre) for centre in task.centres]
        names = task.names if isinstance(task, MultiLabel) else self.graph.class_names
        outputs = task.outputs(self.graph)
        return list(names) if outputs == len(names) else [str(number) for number in range(outputs)]

    def first_pseudo_labels(self, key: Key, steps: Steps) -> Int[Tensor, "nodes"] | None:
        """Return the confident predictions of a teacher, if labels are few; unlabelled nodes get folds, too."""
        if not is_worth_self_training(self.data, self.config):
            return None
        stream, settings = key.fold_in("self-training"), self.config.self_training
        with steps.run("pseudo-labels", "predicting missing labels") as step:
            taught = fit_teacher(self.data, len(self.class_names), self.config, stream)
            found = confident_labels(
                self.data, taught.nodes, taught.validation, settings.later_share, settings
            )
            self.source_quality = taught.score[0]
            if not can_be_trusted(self.data, found, taught.score[0]):
                step.result = "none: predictions for unlabelled nodes are too unsure"
                return None
            self.data = with_context_folds(self.data, stream)
            step.result = (
                f"{int((found != UNKNOWN).sum()):,} of {unlabelled_nodes(self.data).numel():,} unlabelled nodes have "
                f"one; a GCN on {taught.kept.share:.0%} of the edges predicts them"
            )
        return found

    def update_targets(self, state: TrainingState) -> None:
        """Predict the pseudo-labels anew with the networks as they are now."""
        if state.pseudo is not None:
            state.pseudo = self.relabelled(state, state.pseudo)

    def relabelled(
        self, networks: Networks | TrainingState, pseudo: Int[Tensor, "nodes"]
    ) -> Int[Tensor, "nodes"]:
        """Return the confident predictions of the aggregators for unlabelled nodes.

        Those before are returned if the aggregators are worse on validation nodes than what first predicted them.
        """
        data, aggregators, stream = self.data, networks.aggregators, Key.of(self.seed).fold_in("relabel")
        once = self.config.inference
        config = replace(self.config, inference=replace(once, episodes=2, context_episodes=1))
        everyone = torch.arange(data.train.num_nodes, device=self.device)
        train = select(networks.policy, aggregators, data.train, everyone, config, stream, data.fold_model)
        whole = select(networks.policy, aggregators, data.whole, data.validation, config, stream)
        found, quality = relabel(aggregators, data, train, whole, config)
        least = self.source_quality - deviation_of(self.source_quality, data.validation.numel())
        return found if quality >= least and can_be_trusted(data, found, quality) else pseudo

    def finalise(self, networks: Networks, data: TrainingData, key: Key, steps: Steps) -> Finalised:
        """Choose the threshold of the cleaned graph; fit the heads, and add those that help to the ensemble."""
        stream = key.fold_in("finalise")
        release_freed()  # what the epochs needed
        with steps.run("decisions", "deciding on every edge"):
            with part(0, 2):
                train = self.decide_all(networks, data.train, stream, data.fold_model)
            with part(1, 2):
                whole = self.decide_all(networks, data.whole, stream, data.fold_model_in_whole)
        return Heads(networks, data, train, whole, self.config, key, steps).finalise()
