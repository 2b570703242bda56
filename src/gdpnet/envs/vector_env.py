"""Neighbour selection as a Gymnasium vector environment: many targets at once, on whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from gdpnet.config import RewardSettings
from gdpnet.data.graph import Graph
from gdpnet.envs.context import Context, open_context, target_option
from gdpnet.envs.engine import Engine
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet


class NeighbourSelectionVector(VectorEnv):
    """Play ``num_envs`` episodes in parallel; the arguments are those of `NeighbourSelection`.

    After the end of an episode the next step ignores the action and begins a new one, with reward zero (Gymnasium's
    ``NEXT_STEP``). With the same seeds and actions, results equal those of single environments.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - as in Gymnasium

    def __init__(
        self,
        num_envs: int = 1,
        context: Context | None = None,
        *,
        model: GDPNet | str | Path | None = None,
        graph: Graph | str | Path | None = None,
        split: str = "train",
        reward: RewardSettings | None = None,
        order: str = "learned",
        max_candidates: int = 16,
        render_mode: str | None = None,
    ) -> None:
        self.context = open_context(context, model, graph, split, reward)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._engine = Engine(self.context, order, max_candidates, num_envs)
        self._seeded = False
        self.single_observation_space, self.single_action_space = self._engine.spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin all episodes; an integer seed s gives the environments s, s + 1, ..., a list one seed each.

        ``options={"target": ids}`` sets one target for all environments, or a list of one each.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        target = self._targets(target_option(options))
        self._engine.reseed(self._seeds(seed))
        self._seeded = True
        self._engine.begin(self._engine.rows, target)
        return self._observation(), self._infos(torch.zeros_like(self._engine.over))

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Decide on one neighbour in every environment; begin a new episode where the last step ended one."""
        engine = self._engine
        if not bool((engine.target >= 0).all()):
            raise ResetNeeded("reset must begin all episodes before a step, found none running")
        over, chosen = engine.over, np.asarray(actions)
        if chosen.shape != (self.num_envs,):
            raise ConfigError(
                f"there must be one action for each of {self.num_envs} environments, found an array of shape "
                f"{chosen.shape}"
            )
        result = engine.act(torch.as_tensor(chosen, device=over.device).long())
        if bool(over.any()):
            engine.begin(over.nonzero().flatten())
        infos = self._infos(result.invalid & ~over)
        terminated = engine.over.cpu().numpy()
        reward = result.reward.double().cpu().numpy()
        return self._observation(), reward, terminated, np.zeros_like(terminated), infos

    def action_masks(self) -> np.ndarray:
        """Return which actions of each environment are valid."""
        return self._engine.action_mask().cpu().numpy()

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """Return a seed per environment; None if its random numbers continue."""
        if isinstance(seed, int):
            return [seed + number for number in range(self.num_envs)]
        seeds: list[int | None] = [None] * self.num_envs if seed is None else list(seed)
        if len(seeds) != self.num_envs:
            raise ConfigError(
                f"there must be one seed for each of {self.num_envs} environments, found {len(seeds)}"
            )
        if self._seeded:
            return seeds
        fresh = self.np_random.integers(1 << 31, size=self.num_envs).tolist()
        return [new if seed is None else seed for seed, new in zip(seeds, fresh, strict=True)]

    def _targets(self, wanted: Any) -> Tensor | None:
        """Return the numbers of the named targets."""
        if wanted is None:
            return None
        each = list(wanted) if isinstance(wanted, list | tuple | np.ndarray) else [wanted] * self.num_envs
        if len(each) != self.num_envs:
            raise ConfigError(
                f"there must be one target for each of {self.num_envs} environments, found {len(each)}"
            )
        return self._engine.rows.new_tensor([self.context.number_of(node) for node in each])

    def _observation(self) -> np.ndarray:
        return self._engine.observe().cpu().numpy()

    def _infos(self, invalid: Tensor) -> dict[str, Any]:
        infos = {
            "target": self.context.graph.node_ids[self._engine.target.cpu().numpy()],
            "action_mask": self.action_masks(),
            "invalid": invalid.cpu().numpy(),
        }
        # by Gymnasium's convention, a second array tells which environments the first one is about
        return infos | {f"_{name}": np.ones(self.num_envs, dtype=np.bool_) for name in infos}
