"""Phase one: run episodes on the training graph, reward their decisions, and improve the policy."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gdpnet._core.csr import running_sum_before
from gdpnet._core.profiling import phase
from gdpnet._core.random import Key
from gdpnet._core.ranks import Ranks
from gdpnet.config import Config, RewardSettings
from gdpnet.data.prepare import Prepared, with_neighbourhoods
from gdpnet.inference.observation import make_view, project_nodes
from gdpnet.inference.select import play_of, roll_outs, with_neighbours
from gdpnet.representation.tasks import CLASSIFICATION, Task, reward_weight
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.rewards import counterfactual_reward, marginal_reward, paper_reward
from gdpnet.selection.rollout import Rollout, roll_out
from gdpnet.selection.update import update_policy
from gdpnet.training.data import TrainingData
from gdpnet.training.state import TrainingState


def selection_phase(
    state: TrainingState,
    data: TrainingData,
    config: Config,
    key: Key,
    targets: Int[Tensor, "targets"] | None = None,
) -> tuple[float | Tensor, float, int]:
    """Run episodes and update the policy; return mean reward, largest KL and the number of decisions.

    The targets are those of `epoch_targets`, if none are given.
    """
    host, seed = key.fold_in("order").generator(), key.fold_in("episodes").seed32
    view = _view_of(state, data.train)
    rewards: float | Tensor = 0.0
    divergence, decisions = 0.0, 0
    every = epoch_targets(data, config, key, state.ranks) if targets is None else targets
    for some in torch.split(every, config.ppo.rollout_targets):
        episodes = begin_episodes(
            data.train.row_ptr,
            data.train.neighbour,
            some,
            row_shift=data.fold_model[some] * data.train.num_nodes,
            max_candidates=config.policy.max_candidates,
            seed=seed,
        )
        with phase("playing"):
            rollout = roll_out(state.policy, view, episodes, play_of(config, greedy=False))
        with phase("rewards"):
            gain = reward_if_kept(rollout, view, data.labels, config, data.task)
        with phase("updating"):
            update = update_policy(
                state.policy,
                state.policy_optimiser,
                rollout,
                view,
                gain,
                config.ppo,
                host,
                state.replays,
                state.ranks,
            )
        rewards = rewards + (gain * rollout.kept).sum().double()
        decisions += rollout.decisions
        divergence = max(divergence, update.kl)
    return rewards / max(decisions, 1), divergence, decisions


def epoch_targets(
    data: TrainingData, config: Config, key: Key, ranks: Ranks | None = None
) -> Int[Tensor, "some"]:
    """Return the targets of a selection phase, in random order; every rank has as many."""
    order = torch.randperm(data.targets.numel(), generator=key.fold_in("targets").generator())
    count = min(order.numel(), config.ppo.max_targets)
    count = count if ranks is None else ranks.least(count)
    return data.targets[order[:count].to(data.targets.device)]


def _view_of(state: TrainingState, prepared: Prepared) -> View:
    """Return the view of a graph by every fold model."""
    with phase("projecting"):
        alone = state.project_alone(prepared.features)
        rows = project_nodes(state.aggregators, prepared, slice(None), alone)
        return make_view(state.aggregators, prepared, slice(None), rows)


@torch.no_grad()
def reward_if_kept(
    rollout: Rollout,
    view: View,
    labels: Shaped[Tensor, "nodes *any"],
    config: Config,
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "decisions"]:
    """Return the reward of keeping the drawn neighbour at each decision, kept or not; zero for ending."""
    settings, episodes = config.reward, rollout.episodes
    row = episodes.target_row[rollout.episode]
    label = labels[episodes.target[rollout.episode]]
    drawn = rollout.candidate.clamp(min=0)
    message = rollout.encoded.message.index_select(0, drawn)
    counted = rollout.encoded.counted.index_select(0, drawn)
    asked = (view, settings, row, label, message, counted)
    sums, counts = rollout.states
    score = score_alone(*asked, task)
    marginal = settings.kind == "marginal"
    kept_scores = score if marginal else running_sum_before(score * rollout.kept, rollout.episode)
    before = rollout.observe(view)[1] if marginal else None
    gain = gain_if_kept(
        *asked, sums=sums, counts=counts, score=score, kept_scores=kept_scores, before=before, task=task
    )
    return torch.where(rollout.is_ending, 0.0, gain * reward_weight(task, label))


@torch.no_grad()
def score_alone(
    view: View,
    settings: RewardSettings,
    row: Int[Tensor, "n"],
    label: Shaped[Tensor, "n *any"],
    message: Float[Tensor, "n width"],
    counted: Float[Tensor, "n"],
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "n"]:
    """Return f_c of each target with one neighbour alone; zeros for the marginal reward, which needs none."""
    if settings.kind == "marginal":
        return torch.zeros_like(counted)
    return task.score(view.observe(row, message, counted)[1], label, settings.score)


@torch.no_grad()
def gain_if_kept(
    view: View,
    settings: RewardSettings,
    row: Int[Tensor, "n"],
    label: Shaped[Tensor, "n *any"],
    message: Float[Tensor, "n width"],
    counted: Float[Tensor, "n"],
    *,
    sums: Float[Tensor, "n width"],
    counts: Float[Tensor, "n"],
    score: Float[Tensor, "n"],
    kept_scores: Float[Tensor, "n"],
    before: Float[Tensor, "n classes"] | None = None,
    task: Task = CLASSIFICATION,
) -> Float[Tensor, "n"]:
    """Return the reward of keeping a neighbour, given those that the target, a ``row`` of the view, has kept before.

    The neighbour would add its ``message`` to ``sums`` and its weight, or one, ``counted``, to ``counts``; ``score``
    is its `score_alone`, and ``kept_scores`` the sum of those kept before. ``before`` are the class probabilities
    without the neighbour, if they are known.
    """
    if settings.kind == "marginal":
        before = view.observe(row, sums, counts)[1] if before is None else before
        after = task.score(view.observe(row, sums + message, counts + counted)[1], label, "probability")
        return marginal_reward(task.score(before, label, "probability"), after, settings.clip)
    if settings.kind == "paper":
        return paper_reward(score, kept_scores)
    none_kept = view.observe(row, torch.zeros_like(message), torch.zeros_like(counts))[1]
    return counterfactual_reward(score, task.score(none_kept, label, settings.score), kept_scores)


def with_selected_neighbourhoods(
    state: TrainingState,
    data: TrainingData,
    config: Config,
    key: Key,
    targets: Int[Tensor, "targets"] | None = None,
) -> TrainingData:
    """With two hops, replace the neighbourhood means of ``train`` by means over selected neighbours.

    If only some ``targets`` will be played, only they and their neighbours select.
    """
    if config.representation.hops == 1:
        return data
    nodes = torch.arange(data.train.num_nodes, device=data.train.device)
    if targets is not None and 4 * targets.numel() < nodes.numel() and not config.inference.symmetrise:
        nodes = with_neighbours(data.train, targets)
    weight, _ = play_once(state, data, config, nodes, key.fold_in("neighbourhoods"))
    weight = data.train.symmetrise(weight) if config.inference.symmetrise else weight
    return replace(data, train=with_neighbourhoods(data.train, weight))


def play_once(
    state: TrainingState, data: TrainingData, config: Config, targets: Int[Tensor, "targets"], key: Key
) -> tuple[Float[Tensor, "edges"], Bool[Tensor, "edges"]]:
    """Run one sampled episode per target; return each edge's keep probability and whether it was kept."""
    edges = data.train.neighbour.numel()
    probability = torch.ones(edges, device=data.train.device)
    kept = torch.zeros(edges, dtype=torch.bool, device=data.train.device)
    view = _view_of(state, data.train)
    shift = data.fold_model[targets] * data.train.num_nodes
    play = play_of(config, greedy=False)
    with phase("playing"):
        for rollout in roll_outs(state.policy, view, data.train, targets, config, play, key.seed32, shift):
            probability[rollout.episodes.edge] = rollout.keep_probability
            kept[rollout.episodes.edge] = rollout.selected
    return probability, kept
