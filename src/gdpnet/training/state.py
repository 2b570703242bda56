"""The state of training: networks, optimisers, history, the best weights so far, and what is chosen at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet._core.replay import Replays
from gdpnet.config import Config
from gdpnet.data.features import Features
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.networks import make_policy
from gdpnet.inference.observation import project_alone
from gdpnet.inference.threshold import Choice
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.policy import Policy
from gdpnet.training.data import TrainingData, folds_asked


@dataclass(frozen=True)
class Epoch:
    """Metrics of one epoch."""

    epoch: int
    loss: float
    validation_f1: float
    reward: float
    kept_share: float
    kl: float
    decisions: int
    injected_auc: float | None = None
    """ROC AUC of keep probabilities against injected edges; None without a held-out perturbed graph."""
    metric: str = "micro_f1"
    """What ``validation_f1`` is: the task's metric, of which larger is better."""


@dataclass
class TrainingState:
    """All that changes during training. It is saved whole, so that a resumed run continues exactly."""

    policy: Policy
    aggregators: Aggregators
    policy_optimiser: torch.optim.Adam
    optimiser: torch.optim.Adam
    epoch: int = 0
    best_f1: float = -1.0
    best_epoch: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    truth: Tensor | None = None
    """Labels found by the model itself, for tasks without labels."""
    suggested: Tensor | None = None
    """Output of `suggested_labels` for the targets; None if no label error is suspected."""
    pseudo: Tensor | None = None
    """The pseudo-labels of the training graph's nodes, UNKNOWN where there is none; None without self-training."""
    stopped: bool = False
    """Set by a callback to end training after this epoch."""
    best_suggested: Tensor | None = None
    """``suggested`` in the best epoch."""
    part: int = 0
    """The number of the part of a large graph whose nodes ``suggested`` and ``pseudo`` belong to."""
    ranks: Ranks = field(default_factory=Ranks, repr=False, compare=False)
    """The processes that are trained together."""
    has_own_part: bool = False
    """Whether the graph is trained on in parts, so that every rank has its own."""
    found_by_ranks: list[dict[str, Tensor]] = field(default_factory=list, repr=False, compare=False)
    """``suggested`` and ``pseudo`` of every rank that has a part of its own; empty if all have the same."""
    projected: tuple[Features, int, Tensor] | None = field(default=None, repr=False, compare=False)
    """Features, the version of the weights that projected them, and `project_alone` of both."""
    seconds: float = 0.0
    """Time until the last epoch ended, with that of the runs before it was resumed."""
    replays: Replays | None = field(default=None, repr=False, compare=False)
    """On a GPU, the steps of fixed shapes that epochs replay; None elsewhere. They are not saved."""

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of policy and aggregators, by name."""
        both = {"policy": self.policy, "aggregators": self.aggregators}
        return {
            f"{whose}.{name}": value for whose in both for name, value in both[whose].state_dict().items()
        }

    def project_alone(self, features: Features) -> Tensor:
        """Return `project_alone` of some features by every fold model; computed once until the weights change."""
        version, known = self.aggregators.weight._version, self.projected
        if known is None or known[0] is not features or known[1] != version:
            self.projected = (features, version, project_alone(self.aggregators, features, slice(None)))
        assert self.projected is not None
        return self.projected[2]

    def forget_best(self) -> None:
        """Drop the best weights: no epoch so far may be the best."""
        self.best_f1, self.best_epoch, self.best, self.best_suggested = -1.0, 0, {}, None

    def remember_best(self, score: float) -> None:
        """Store a copy of the current weights as the best."""
        self.best_f1, self.best_epoch = score, self.epoch
        self.best_suggested = None if self.suggested is None else self.suggested.clone()
        self.best = {name: value.detach().clone() for name, value in self.weights().items()}


@dataclass(frozen=True)
class Finalised:
    """What was chosen after training. Networks that were fitted are part of the module that was handed over."""

    threshold: Choice
    weights: HeadWeights = field(default_factory=HeadWeights)
    selects: bool = True
    """Whether link prediction weights edges by their keep probability, rather than all alike."""
    score: float | None = None
    """The validation score of the final model, if it differs from that of the best epoch."""


@phase("networks")
def begin_training(
    data: TrainingData,
    outputs: int,
    config: Config,
    key: Key,
    device: torch.device,
    ranks: Ranks | None = None,
) -> TrainingState:
    """Initialise networks and optimisers."""
    ranks = ranks or Ranks()
    generator = key.fold_in("weights").generator()
    fold_models = _fold_models(data, config)
    aggregators = Aggregators(
        data.train.features.shape[1],
        config.representation.width,
        outputs,
        fold_models,
        self_weight=config.representation.self_weight,
        exclusive=data.task.exclusive,
    )
    aggregators.initialise(generator)
    policy = make_policy(config, data.train.pairs.shape[1])
    policy.initialise(generator)
    policy.fit_pairs(data.train.pairs.cpu(), data.train.edge_features_in_pairs)
    aggregators, policy = aggregators.to(device), policy.to(device)
    ppo, settings = config.ppo, config.representation
    policy_optimiser = torch.optim.Adam(
        policy.parameters(), lr=ppo.learning_rate, weight_decay=ppo.weight_decay, fused=True
    )
    optimiser = aggregators.adam(settings.learning_rate, settings.weight_decay)
    # a captured step cannot wait for other processes
    replays = Replays() if device.type == "cuda" and ranks.size == 1 else None
    return TrainingState(
        policy,
        aggregators,
        policy_optimiser,
        optimiser,
        replays=replays,
        ranks=ranks,
        has_own_part=data.every_fold is not None,
    )


def _fold_models(data: TrainingData, config: Config) -> int:
    """Return one model per fold and one that learns from all; of a part, also for folds that it has no target of."""
    if data.every_fold is not None:
        folds = folds_asked(config)
        return folds + 1 if folds > 1 else 1
    return int(data.fold.max()) + 2 if data.fold.numel() else 1
