"""Self-training: the pseudo-labels of one fit, first by a teacher and then by the aggregators and the teacher."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config
from gdpnet.data.validation import UNKNOWN
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import select
from gdpnet.training.callbacks import Steps
from gdpnet.training.data import TrainingData
from gdpnet.training.pseudo_labels import (
    can_be_trusted,
    confident_labels,
    deviation_of,
    is_worth_self_training,
    predict_by_folds,
    share_of_nodes,
    unlabelled_nodes,
    with_context_folds,
    with_pseudo_labels,
)
from gdpnet.training.state import TrainingState
from gdpnet.training.teacher import Taught, fit_teacher


class SelfTraining:
    """Predicts missing labels before the first epoch, and again every few epochs."""

    def __init__(self, data: TrainingData, config: Config, seed: int) -> None:
        self.data, self.config, self.seed = data, config, seed
        self.quality = 0.0
        """Quality of the teacher on validation nodes."""
        self.first: Tensor | None = None
        """The predictions of the teacher, for nodes of the first part of a large graph."""
        self.taught: Taught | None = None
        """The class probabilities of the teacher, as long as the data is that part."""

    def begin(
        self, outputs: int, key: Key, steps: Steps, ranks: Ranks | None = None
    ) -> Int[Tensor, "nodes"] | None:
        """Return the confident predictions of a teacher; None where labels are plenty, or predictions too unsure.

        Either every rank has some or none.
        """
        ranks = ranks or Ranks()
        if not ranks.least(is_worth_self_training(self.data, self.config)):
            return None
        stream, settings = key.fold_in("self-training"), self.config.self_training
        with steps.run("pseudo-labels", "predicting missing labels") as step:
            taught = fit_teacher(self.data, outputs, self.config, stream)
            if not ranks.least(taught.helps):
                step.result = "none: learning from them makes predictions worse on validation nodes"
                return None
            share = share_of_nodes(self.data, settings)
            found = confident_labels(self.data, taught.nodes, taught.validation, share, settings)
            self.quality, self.taught = taught.score[0], taught
            if not ranks.least(can_be_trusted(self.data, found, self.quality)):
                step.result = "none: predictions for unlabelled nodes are too unsure"
                return None
            self.data = with_context_folds(self.data, stream)
            step.result = (
                f"{int((found != UNKNOWN).sum()):,} of {unlabelled_nodes(self.data).numel():,} unlabelled nodes have "
                f"one; {taught.about} predict them"
            )
        self.first = found
        return found

    def enter(self, data: TrainingData) -> TrainingData:
        """Take the data of a part of a large graph, with folds for unlabelled nodes too, and return it."""
        self.data, self.taught = with_context_folds(data, Key.of(self.seed).fold_in("self-training")), None
        return self.data

    def labelled_anew(self, state: TrainingState, selecting: bool) -> Int[Tensor, "nodes"]:
        """Return the confident predictions of the aggregators for the part that was entered; none if unsure.

        Before the policy is trained all neighbours are kept.
        """
        found, quality = self._predicted(state, selecting)
        return found if can_be_trusted(self.data, found, quality) else torch.full_like(found, UNKNOWN)

    def relabelled(
        self, networks: Networks | TrainingState, pseudo: Int[Tensor, "nodes"]
    ) -> Int[Tensor, "nodes"]:
        """Return the confident predictions of the aggregators and the teacher for unlabelled nodes.

        Those before are returned if the aggregators are worse on validation nodes than the teacher.
        """
        data = self.data
        found, quality = self._predicted(networks)
        least = self.quality - deviation_of(self.quality, data.validation.numel())
        return found if quality >= least and can_be_trusted(data, found, quality) else pseudo

    def _predicted(
        self, networks: Networks | TrainingState, selecting: bool = True
    ) -> tuple[Int[Tensor, "nodes"], float]:
        """Return the confident predictions for unlabelled nodes, and the aggregators' quality on validation nodes."""
        data, aggregators, stream = self.data, networks.aggregators, Key.of(self.seed).fold_in("relabel")
        few = replace(self.config.inference, episodes=2, context_episodes=1)
        config, policy = replace(self.config, inference=few), networks.policy if selecting else None
        everyone = torch.arange(data.train.num_nodes, device=data.targets.device)
        train = select(policy, aggregators, data.train, everyone, config, stream, data.fold_model)
        whole = select(policy, aggregators, data.whole, data.validation, config, stream)
        nodes, validation = predict_by_folds(aggregators, data, train, whole, config)
        quality, settings = data.task.quality(validation, data.validation_labels), config.self_training
        if self.taught is not None:  # two that err in different places err less together
            nodes = nodes.lerp(self.taught.nodes, settings.teacher_weight)
            validation = validation.lerp(self.taught.validation, settings.teacher_weight)
        return confident_labels(data, nodes, validation, share_of_nodes(data, settings), settings), quality

    def applied(
        self, data: TrainingData, networks: Networks | TrainingState, pseudo: Int[Tensor, "nodes"]
    ) -> TrainingData:
        """Return training data with the pseudo-labels by the networks as they are now."""
        return with_pseudo_labels(data, self.relabelled(networks, pseudo))
