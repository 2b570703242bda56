"""Train PPO of stable-baselines3 to select neighbours in a noisy graph, and evaluate it on test nodes.

    pip install 'gdpnet[gym]' stable-baselines3
    python examples/reinforcement_learning.py            # --steps 30000 for more

The environment shows the neighbours of a target one at a time; PPO keeps or drops each. The return is the change of
log p(y_v), for the target's true class y_v, from the node alone to the node with the kept neighbours. Half of the
edges of the synthetic graph are noise, so keeping everything has a lower return than a good selection.
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
    """Run one episode per test node, all in parallel, and return the mean return."""
    context = gdpnet.envs.NeighbourSelection(split="test").context
    targets = context.graph.node_ids[context.targets.numpy()]
    envs = gymnasium.make_vec(gdpnet.envs.ENVIRONMENT, num_envs=len(targets), context=context, order="random")
    observation, _ = envs.reset(seed=0, options={"target": targets})
    total, running = np.zeros(len(targets)), np.ones(len(targets), dtype=bool)
    while running.any():
        observation, reward, terminated, _, _ = envs.step(act(observation))
        total += reward * running  # an environment that ended starts another episode, which is ignored
        running &= ~terminated
    return float(total.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4096, help="training steps (default: 4096)")
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
