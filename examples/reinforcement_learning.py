"""Train stable-baselines3's PPO on the neighbours of a noisy graph, and see what it earns on nodes it never met.

    pip install 'gdpnet[gym]' stable-baselines3
    python examples/reinforcement_learning.py            # --steps 30000 for more

The environment shows the neighbours of a target one by one; PPO keeps or drops each. A return is the change of
log p(y_v), the target's true class, from the node alone to the node with what was kept. Half of the links of the
generated graph are noise, so that keeping everything earns less than choosing well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import gdpnet.envs

Act = Callable[[np.ndarray], np.ndarray]


def mean_return(act: Act) -> float:
    """Play every test node once, all of them side by side, and return the mean of what they earned."""
    world = gdpnet.envs.NeighbourSelection(split="test").world
    targets = world.graph.node_ids[world.targets.numpy()]
    envs = gymnasium.make_vec(gdpnet.envs.ENVIRONMENT, num_envs=len(targets), world=world, order="random")
    observation, _ = envs.reset(seed=0, options={"target": targets})
    earned, running = np.zeros(len(targets)), np.ones(len(targets), dtype=bool)
    while running.any():
        observation, reward, terminated, _, _ = envs.step(act(observation))
        earned += reward * running  # an environment that ended begins another episode, which does not count
        running &= ~terminated
    return float(earned.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4096, help="decisions to learn from (default: 4096)")
    parser.add_argument("--seed", type=int, default=0, help="seed of PPO (default: 0)")
    arguments = parser.parse_args()
    environment = gymnasium.make(gdpnet.envs.ENVIRONMENT, order="random")
    agent = PPO(
        "MlpPolicy", environment, n_steps=1024, batch_size=128, n_epochs=8, learning_rate=1e-3, gamma=0.95,
        ent_coef=0.005, policy_kwargs={"net_arch": [64, 36]}, seed=arguments.seed, device="cpu",
    )  # fmt: skip
    rng = np.random.default_rng(arguments.seed)

    def learned(observation: np.ndarray) -> np.ndarray:
        return agent.predict(observation, deterministic=True)[0]

    returns = {
        "keep or drop at random": mean_return(lambda seen: rng.integers(2, size=len(seen))),
        "keep everything": mean_return(lambda seen: np.ones(len(seen), dtype=int)),
        "PPO before": mean_return(learned),
    }
    agent.learn(arguments.steps)
    returns["PPO after"] = mean_return(learned)
    for name, value in returns.items():
        print(f"{name:24s}{value:+.3f}")


if __name__ == "__main__":
    main()
