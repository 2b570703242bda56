"""Phase one: run episodes on the training graph and improve the policy."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gdpnet._core.csr import running_sum_before
from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of
from gdpnet.representation.tasks import CLASSIFICATION, Task
from gdpnet.selection.episodes import View, begin_episodes
from gdpnet.selection.rollout import Rollout, roll_out
from gdpnet.selection.update import update_policy
from gdpnet.training.data import TrainingData
from gdpnet.training.gains import gain_if_kept, score_alone
from gdpnet.training.state import TrainingState


def selection_phase(
    state: TrainingState, data: TrainingData, config: Config, key: Key
) -> tuple[float, float, int]:
    """Run episodes and update the policy; return mean reward, largest KL and the number of decisions."""
    host, seed = key.fold_in("order").generator(), key.fold_in("episodes").seed32
    view = make_view(state.aggregators, data.train, slice(None))
    order = torch.randperm(data.targets.numel(), generator=host).to(data.targets.device)
    rewards, divergence, decisions = 0.0, 0.0, 0
    for targets in torch.split(data.targets[order[: config.ppo.max_targets]], config.ppo.rollout_targets):
        episodes = begin_episodes(
            data.train.row_ptr,
            data.train.neighbour,
            targets,
            row_shift=data.fold_model[targets] * data.train.num_nodes,
            max_candidates=config.policy.max_candidates,
            seed=seed,
        )
        rollout = roll_out(state.policy, view, episodes, play_of(config, greedy=False))
        gain = reward_if_kept(rollout, view, data.labels, config, data.task)
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
    """Return the reward of keeping the drawn neighbour at each decision, kept or not; zero for ending."""
    settings, episodes = config.reward, rollout.episodes
    row = episodes.target_row[rollout.episode]
    label = labels[episodes.target[rollout.episode]]
    drawn = rollout.candidate.clamp(min=0)
    message, counted = rollout.encoded.message[drawn], rollout.encoded.counted[drawn]
    sums, counts = rollout.states
    score = score_alone(view, settings, row, label, message, counted, task)
    kept_scores = running_sum_before(score * rollout.kept, rollout.episode)
    gain = gain_if_kept(
        view,
        settings,
        row,
        label,
        message,
        counted,
        sums=sums,
        counts=counts,
        score=score,
        kept_scores=kept_scores,
        task=task,
    )
    return torch.where(rollout.is_ending, 0.0, gain)
