"""Alternate the two phases; the only module that trains both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gdpnet._core.csr import ranges, running_sum_before
from gdpnet.config import Config
from gdpnet.data.features import drop_inputs, drop_values, take_rows
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import given_to_target
from gdpnet.inference.networks import make_policy
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of
from gdpnet.representation.aggregator import Aggregators, add_neighbours
from gdpnet.representation.tasks import CLASSIFICATION, Task, may_learn
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.policy import Policy
from gdpnet.selection.rollout import Rollout, roll_out
from gdpnet.selection.update import update_policy
from gdpnet.training.best_epoch import is_best, is_over, settled
from gdpnet.training.data import Scene
from gdpnet.training.label_noise import doubt_labels, is_time_to_doubt, without_doubted
from gdpnet.training.playing import play_once, with_selected_circle
from gdpnet.training.rewards import gain_if_kept, score_alone
from gdpnet.training.validation import tell_apart, validate


@dataclass(frozen=True)
class Epoch:
    """What one epoch did."""

    epoch: int
    loss: float
    validation_f1: float
    reward: float
    kept_share: float
    kl: float
    decisions: int
    told: float | None = None
    """How well self-injected links are told from the graph's own: ROC AUC of keep probabilities, if there are any."""


@dataclass
class TrainingState:
    """Everything that changes while training; saved whole, so that a stopped run goes on as if it had not."""

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
    """What the model itself found to be true of the training nodes, where no label says it."""
    believed: Tensor | None = None
    """What is believed of the targets whose labels are doubted, if any are."""
    best_believed: Tensor | None = None
    """The same in the best epoch."""

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of both phases, by name."""
        policy = {f"policy.{name}": value for name, value in self.policy.state_dict().items()}
        return policy | {
            f"aggregators.{name}": value for name, value in self.aggregators.state_dict().items()
        }

    def remember_best(self, score: float) -> None:
        """Keep a copy of the weights."""
        self.best_f1, self.best_epoch = score, self.epoch
        self.best_believed = None if self.believed is None else self.believed.clone()
        self.best = {name: value.detach().clone() for name, value in self.weights().items()}


def begin_training(
    graph: Graph, scene: Scene, config: Config, seed: int, device: torch.device
) -> TrainingState:
    """Make fresh networks and optimisers."""
    generator = torch.Generator().manual_seed(seed)
    members = int(scene.fold.max()) + 2 if scene.fold.numel() else 1
    aggregators = Aggregators(
        scene.train.features.shape[1],
        config.representation.width,
        scene.task.outputs(graph),
        members,
        self_weight=config.representation.self_weight,
        exclusive=scene.task.exclusive,
    )
    aggregators.initialise(generator)
    policy = make_policy(config, scene.train.pairs.shape[1])
    policy.initialise(generator)
    policy.fit_pairs(scene.train.pairs.cpu())
    aggregators, policy = aggregators.to(device), policy.to(device)
    return TrainingState(policy, aggregators, *make_optimisers(policy, aggregators, config))


def make_optimisers(
    policy: Policy, aggregators: Aggregators, config: Config
) -> tuple[torch.optim.Adam, torch.optim.Adam]:
    """Make the optimisers of both phases; biases and heads are not decayed."""
    matrices = (aggregators.weight, aggregators.self_weight)
    decayed = [weight for weight in matrices if weight is not None]
    plain = [aggregators.bias, aggregators.head_weight, aggregators.head_bias]
    settings = config.representation
    return (
        torch.optim.Adam(
            policy.parameters(),
            lr=config.ppo.learning_rate,
            weight_decay=config.ppo.weight_decay,
            fused=True,
        ),
        torch.optim.Adam(
            [
                {"params": decayed, "weight_decay": settings.weight_decay},
                {"params": plain, "weight_decay": 0.0},
            ],
            lr=settings.learning_rate,
        ),
    )


def train_epochs(
    state: TrainingState,
    scene: Scene,
    config: Config,
    seed: int,
    on_epoch: Callable[[Epoch], None],
    renew: Callable[[TrainingState], Tensor] | None = None,
) -> None:
    """Train until the last epoch, or until validation has not improved for the configured patience.

    An epoch's random numbers depend on the seed and its number alone. The best weights, by validation F1 and by how
    well self-injected links are told, are in ``state.best`` at the end; without validation nodes, the last ones.
    Where no label says what is true of the targets, ``renew`` is asked every few epochs.
    """
    total = config.training.warmup + config.training.epochs
    while state.epoch < total and not is_over(state.history, state.best_epoch, config):
        state.epoch += 1
        selecting = state.epoch - config.training.warmup
        if renew is not None and selecting > 1 and (selecting - 1) % config.task.refresh == 0:
            state.truth = renew(state)
        if state.truth is not None:
            scene = replace(scene, labels=state.truth)
        if is_time_to_doubt(state.epoch, state.believed, config):
            found = doubt_labels(state.aggregators, scene, config)
            state.believed = state.believed if found is None else found
        trusted = without_doubted(scene, state.believed)
        epoch = _one_epoch(state, trusted, config, seed * 1_000_003 + state.epoch)
        state.history.append(asdict(epoch))
        if state.epoch > settled(config) and (
            scene.validation.numel() == 0 or is_best(state.history, config)
        ):
            state.remember_best(epoch.validation_f1)
        on_epoch(epoch)


def _one_epoch(state: TrainingState, scene: Scene, config: Config, seed: int) -> Epoch:
    """Run both phases once and look at the validation nodes."""
    generator = torch.Generator(device=scene.targets.device).manual_seed(seed)
    selecting = config.training.selection and state.epoch > config.training.warmup
    reward, divergence, decisions = 0.0, 0.0, 0
    if selecting:
        scene = with_selected_circle(state.policy, state.aggregators, scene, config, seed)
        reward, divergence, decisions = _selection_phase(state, scene, config, seed)
        if scene.injected:
            world = replace(scene, train=scene.injected[state.epoch % len(scene.injected)])
            world = with_selected_circle(state.policy, state.aggregators, world, config, seed + 5)
            _selection_phase(state, world, config, seed + 5)
    batches = list(_shuffled_batches(scene.targets, config, generator))
    selected, share = _selected_edges(state, scene, config, seed, torch.cat(batches), selecting)
    loss = _representation_phase(state, scene, config, generator, batches, selected)
    score = validate(state.policy if selecting else None, state.aggregators, scene, config)
    told = tell_apart(state.policy, state.aggregators, scene, config) if selecting else None
    return Epoch(state.epoch, loss, score, reward, share, divergence, decisions, told)


def _selection_phase(
    state: TrainingState, scene: Scene, config: Config, seed: int
) -> tuple[float, float, int]:
    """Play and improve the policy on all targets; return mean reward, largest KL and the number of decisions."""
    host = torch.Generator().manual_seed(seed)
    view = make_view(state.aggregators, scene.train, slice(None))
    order = torch.randperm(scene.targets.numel(), generator=host).to(scene.targets.device)
    rewards, divergence, decisions = 0.0, 0.0, 0
    for targets in torch.split(scene.targets[order[: config.ppo.max_targets]], config.ppo.rollout_targets):
        episodes = begin_episodes(
            scene.train.row_ptr,
            scene.train.neighbour,
            targets,
            row_shift=scene.member[targets] * scene.train.num_nodes,
            max_candidates=config.policy.max_candidates,
            seed=seed,
        )
        rollout = roll_out(state.policy, view, episodes, play_of(config, greedy=False))
        gain = reward_if_kept(rollout, view, scene.labels, config, scene.task)
        update = update_policy(state.policy, state.policy_optimiser, rollout, view, gain, config.ppo, host)
        rewards += float((gain * rollout.kept).sum())
        decisions += rollout.decisions
        divergence = max(divergence, update.kl)
    return rewards / max(decisions, 1), divergence, decisions


@torch.no_grad()
def reward_if_kept(
    rollout: Rollout,
    view: View,
    labels: Shaped[Tensor, "nodes *any"],
    config: Config,
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "decisions"]:
    """Return what keeping the drawn neighbour earns at each decision, kept or not; ending earns nothing."""
    settings, episodes = config.reward, rollout.episodes
    row = episodes.target_row[rollout.episode]
    label = labels[episodes.target[rollout.episode]]
    drawn = rollout.candidate.clamp(min=0)
    given, counted = rollout.met.given[drawn], rollout.met.counted[drawn]
    sums, counts = rollout.states
    score = score_alone(view, settings, row, label, given, counted, task)
    kept_scores = running_sum_before(score * rollout.kept, rollout.episode)
    gain = gain_if_kept(
        view,
        settings,
        row,
        label,
        given,
        counted,
        sums=sums,
        counts=counts,
        score=score,
        kept_scores=kept_scores,
        task=task,
    )
    return torch.where(rollout.is_ending, 0.0, gain)


def _shuffled_batches(
    targets: Int[Tensor, "targets"], config: Config, generator: torch.Generator
) -> Iterator[Int[Tensor, "batch"]]:
    """Cut the targets into random batches, pass after pass, up to the epoch's largest number of steps."""
    settings, steps = config.representation, 0
    for _ in range(settings.passes):
        order = torch.randperm(targets.numel(), generator=generator, device=generator.device)
        for part in torch.split(order, settings.batch_size)[: settings.max_steps - steps]:
            steps += 1
            yield targets[part]


def _selected_edges(
    state: TrainingState,
    scene: Scene,
    config: Config,
    seed: int,
    targets: Int[Tensor, "targets"],
    selecting: bool,
) -> tuple[Bool[Tensor, "edges"], float]:
    """Say which edges of some targets the current policy selects, and their share of all that it saw."""
    train = scene.train
    if not selecting:
        return train.linked > 0, 1.0
    targets = torch.unique(targets)
    kept = play_once(state.policy, state.aggregators, scene, config, targets, seed + 17)[1]
    seen = int((train.row_ptr[targets + 1] - train.row_ptr[targets]).sum())
    return kept, float(kept.sum()) / max(seen, 1)


def _representation_phase(
    state: TrainingState,
    scene: Scene,
    config: Config,
    generator: torch.Generator,
    batches: list[Int[Tensor, "_"]],
    selected: Bool[Tensor, "edges"],
) -> float:
    """Train the aggregators on the selected sets; return the mean loss of a member."""
    losses = []
    for targets in batches:
        start = scene.train.row_ptr[targets]
        owner, edge = ranges(start, scene.train.row_ptr[targets + 1] - start)
        kept = selected[edge]
        loss = _batch_loss(state.aggregators, scene, config, generator, targets, owner[kept], edge[kept])
        state.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        state.optimiser.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean()) / state.aggregators.members


def _batch_loss(
    aggregators: Aggregators,
    scene: Scene,
    config: Config,
    generator: torch.Generator,
    targets: Int[Tensor, "batch"],
    owner: Int[Tensor, "kept"],
    edge: Int[Tensor, "kept"],
) -> Float[Tensor, ""]:
    """Return the loss of one batch; only the rows that it needs are projected."""
    dropout, train = config.representation.dropout, scene.train
    own_rows = take_rows(train.features, targets)
    own = aggregators.project_own(drop_inputs(own_rows, dropout, generator))
    nodes, place = torch.unique(train.neighbour[edge], return_inverse=True)
    # indexing with brackets adds up its gradients in no fixed order; index_select does
    given = aggregators.project_given(take_rows(train.circle, nodes)).index_select(0, place)
    if train.edge_weight is not None:
        share = train.share_of_target(edge, train.neighbour[edge])
        given = given_to_target(given, aggregators.project_given(own_rows).index_select(0, owner), share)
    weight = None if train.given_weight is None else train.given_weight[edge]
    total, weight = add_neighbours(given, owner, weight, targets.numel())
    hidden = aggregators.embed(own, total, weight, aggregators.bias)
    hidden = drop_values(hidden, dropout, generator)
    learns = may_learn(scene.member[targets], aggregators.members)
    return scene.task.loss(aggregators.logits(hidden), scene.labels[targets], learns)
