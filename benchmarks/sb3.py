"""Rolling out and updating, in decisions a second: GDPNet against stable-baselines3's PPO on the same MDP.

The peer plays a plain Gymnasium environment, one target at a time, as a practitioner would write it: the observation
is [h_v, h_u] of the next neighbour in a random order, the action keep or drop, the reward the change of
log p(y_v) under the same fixed classifier. Ours plays and updates on the same targets with the same classifier, once
on that same MDP (random order, the paper's state; `same`), and once as it ships (learned order, pair features and
early stop, so that every open neighbour is scored in every state; `learned_order`).

The peer's environment is not `gdpnet.envs.NeighbourSelection`, though that plays the same MDP: for one episode at a
time tensors cost far more than these few lines of NumPy, and the peer must not be slower for it. With `--device cuda`
ours plays and updates on the GPU; the peer stays on the CPU beside it, where its small networks are fastest.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from records import make_parser, median_ratio, write_record
from stable_baselines3 import PPO

from gdpnet._core.random import Key
from gdpnet.config import Config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.graph import Graph
from gdpnet.inference.observation import make_view
from gdpnet.inference.select import play_of
from gdpnet.selection.episodes import begin_episodes
from gdpnet.selection.rollout import roll_out
from gdpnet.selection.update import update_policy
from gdpnet.training.data import TrainingData, make_training_data
from gdpnet.training.selection_phase import reward_if_kept
from gdpnet.training.state import TrainingState, begin_training
from gdpnet.training.trainer import train_epochs


class NeighbourSelection(gymnasium.Env[np.ndarray, np.int64]):
    """Decide on the neighbours of one target after another."""

    def __init__(self, data: TrainingData, state: TrainingState) -> None:
        aggregators = state.aggregators
        with torch.no_grad():
            self.rows = _host(aggregators.project_own(data.train.features)[:, 0])
        self.bias, self.head = _host(aggregators.bias[0]), _host(aggregators.head_weight[0])
        self.head_bias = _host(aggregators.head_bias[0])
        self.row_ptr, self.neighbour = _host(data.train.row_ptr), _host(data.train.neighbour)
        self.labels, targets = _host(data.labels), _host(data.targets)
        self.targets = targets[np.diff(self.row_ptr)[targets] > 0]
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, (2 * aggregators.width,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.target = int(self.np_random.choice(self.targets))
        start, end = self.row_ptr[self.target], self.row_ptr[self.target + 1]
        self.order = self.np_random.permutation(self.neighbour[start:end])
        self.step_number, self.kept, self.total = 0, 0, self.rows[self.target].copy()
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward = 0.0
        if action == 1:
            before = self._log_chance()
            self.total += self.rows[self.order[self.step_number]]
            self.kept += 1
            reward = float(np.clip(self._log_chance() - before, -2.0, 2.0))
        self.step_number += 1
        ended = self.step_number == len(self.order)
        observation = np.zeros(self.observation_space.shape, np.float32) if ended else self._observation()
        return observation, reward, ended, False, {}

    def _state(self) -> np.ndarray:
        return np.maximum(self.total / (1 + self.kept) + self.bias, 0.0)

    def _observation(self) -> np.ndarray:
        other = np.maximum(self.rows[self.order[self.step_number]] + self.bias, 0.0)
        return np.concatenate([self._state(), other]).astype(np.float32)

    def _log_chance(self) -> float:
        logits = self._state() @ self.head + self.head_bias
        top = logits.max()
        return float(logits[self.labels[self.target]] - top - np.log(np.exp(logits - top).sum()))


def _host(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()


def peer_speed(data: TrainingData, state: TrainingState, steps: int, seed: int) -> float:
    """Return the decisions a second of stable-baselines3, rolling out and updating."""
    settings = {"net_arch": [64, 36]}
    peer = PPO(
        "MlpPolicy", NeighbourSelection(data, state), n_steps=2048, batch_size=256, n_epochs=4,
        policy_kwargs=settings, seed=seed, device="cpu", verbose=0,
    )  # fmt: skip
    peer.learn(2048)
    start = time.perf_counter()
    peer.learn(steps, reset_num_timesteps=False)
    return steps / (time.perf_counter() - start)


def our_speed(data: TrainingData, state: TrainingState, config: Config, seed: int) -> float:
    """Return the decisions a second of one pass of ours over all targets, rolling out and updating."""
    host = torch.Generator().manual_seed(seed)
    decisions, start = 0, time.perf_counter()
    view = make_view(state.aggregators, data.train)
    for targets in torch.split(data.targets, config.ppo.rollout_targets):
        episodes = begin_episodes(
            data.train.row_ptr, data.train.neighbour, targets,
            max_candidates=config.policy.max_candidates, seed=seed,
        )  # fmt: skip
        rollout = roll_out(state.policy, view, episodes, play_of(config, greedy=False))
        gain = reward_if_kept(rollout, view, data.labels, config)
        update_policy(state.policy, state.policy_optimiser, rollout, view, gain, config.ppo, host)
        decisions += rollout.decisions
    return decisions / (time.perf_counter() - start)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--steps", type=int, default=8192, help="decisions of the peer in a turn (default: 8192)"
    )
    parser.add_argument("--turns", type=int, default=3, help="turns of both (default: 3)")
    parser.add_argument("--device", default="cpu", help="where ours computes: cpu or cuda (default: cpu)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    graph = load_dataset("pubmed", arguments.data_dir, download=False)
    # One hop and one classifier, so that both play on the same representations.
    base = Config().with_overrides(
        ["representation.hops=1", "reward.folds=1", "training.epochs=1", "training.injected=0.0"]
    )
    settings = {
        "same": base.with_overrides(["policy.order=random", "policy.state=paper"]),
        "learned_order": base,
    }
    made = {name: begin(graph, config, arguments.seed, device) for name, config in settings.items()}
    ours: dict[str, list[float]] = {name: [] for name in settings}
    peer: list[float] = []
    for turn in range(arguments.turns):
        for name, config in settings.items():
            ours[name].append(our_speed(*made[name], config, arguments.seed + turn))
        peer.append(peer_speed(*made["same"], arguments.steps, arguments.seed + turn))
    metrics: dict[str, Any] = {
        "device": arguments.device,
        "peer_decisions_a_second": statistics.median(peer),
    }
    for name, speeds in ours.items():
        metrics[f"{name}_ratio"] = median_ratio(speeds, peer)
        metrics[f"{name}_decisions_a_second"] = statistics.median(speeds)
    write_record(arguments.results, "stable-baselines3", metrics, settings["same"].to_dict())


def begin(
    graph: Graph, config: Config, seed: int, device: torch.device
) -> tuple[TrainingData, TrainingState]:
    """Train for one epoch, so that classifier and policy are not fresh."""
    data = make_training_data(graph, config, seed, device)
    state = begin_training(data, graph.num_classes, config, Key.of(seed), device)
    train_epochs(state, data, config, Key.of(seed))
    return data, state


if __name__ == "__main__":
    main()
