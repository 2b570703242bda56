"""Neighbour selection as Gymnasium environments: many targets at once on whole tensors, or one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from gdpnet.config import RewardSettings
from gdpnet.data.graph import Graph
from gdpnet.envs.context import Context, open_context
from gdpnet.envs.engine import LIMIT, Engine
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet


class NeighbourSelectionVector(VectorEnv):
    """Play ``num_envs`` episodes in parallel; the other arguments are those of `NeighbourSelection`.

    After the end of an episode the next step ignores the action and begins a new one, with reward zero (Gymnasium's
    ``NEXT_STEP``). With the same seeds and actions, results equal those of single environments.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - as in Gymnasium

    def __init__(
        self,
        num_envs: int = 1,
        context: Context | None = None,
        *,
        order: str = "learned",
        max_candidates: int = 16,
        render_mode: str | None = None,
        **setup: Any,
    ) -> None:
        self.context = open_context(context, **setup)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._engine = engine = Engine(self.context, order, max_candidates, num_envs)
        self._seeded = False
        size = engine.target_columns + (max_candidates if engine.learned else 1) * engine.candidate_columns
        self.single_observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (size,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(engine.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin all episodes; an integer seed s gives the environments s, s + 1, ..., a list one seed each.

        ``options={"target": ids}`` sets one target for all environments, or a list of one each.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        target = self._targets(options or {})
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
        reward, invalid = engine.act(torch.as_tensor(chosen, device=over.device).long())
        if bool(over.any()):
            engine.begin(over.nonzero().flatten())
        infos = self._infos(invalid & ~over)
        terminated = engine.over.cpu().numpy()
        return (
            self._observation(),
            reward.double().cpu().numpy(),
            terminated,
            np.zeros_like(terminated),
            infos,
        )

    def action_masks(self) -> np.ndarray:
        """Return which actions of each environment are valid."""
        return self._engine.action_mask().cpu().numpy()

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """Return a seed per environment; None if its random numbers continue."""
        if isinstance(seed, int):
            return [seed + number for number in range(self.num_envs)]
        seeds = self._one_each("seed", [None] * self.num_envs if seed is None else list(seed))
        if self._seeded:
            return seeds
        fresh = self.np_random.integers(1 << 31, size=self.num_envs).tolist()
        return [new if seed is None else seed for seed, new in zip(seeds, fresh, strict=True)]

    def _targets(self, options: dict[str, Any]) -> Tensor | None:
        """Return the numbers of the targets that the options of a reset name."""
        unknown = set(options) - {"target"}
        if unknown:
            raise ConfigError(f"reset takes the option 'target' only, found '{min(unknown, key=str)}'")
        wanted = options.get("target")
        if wanted is None:
            return None
        each = list(wanted) if isinstance(wanted, list | tuple | np.ndarray) else [wanted] * self.num_envs
        numbers = [self.context.number_of(node) for node in self._one_each("target", each)]
        return self._engine.rows.new_tensor(numbers)

    def _one_each(self, what: str, given: list[Any]) -> list[Any]:
        if len(given) != self.num_envs:
            raise ConfigError(
                f"there must be one {what} for each of {self.num_envs} environments, found {len(given)}"
            )
        return given

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


class NeighbourSelection(gymnasium.Env):
    """Keep or drop the neighbours of one target after another.

    With ``order="learned"`` an action is one of ``2 * max_candidates + 1``: keep the candidate in a slot, drop the
    candidate in a slot, or end the episode. An action on a slot that is not open also ends the episode and sets
    ``info["invalid"]``. With ``order="random"`` the environment presents the neighbours one by one, and the action is
    0 to drop or 1 to keep. Rewards are those of training.

    Args:
        context: the setup of the environment; alternatively
        model: a fitted model or its path; by default a classifier that is fitted in two seconds.
        graph: the graph, its name or its path; by default the synthetic graph.
        split: the split of the targets, ``train``, ``validation`` or ``test``.
        reward: settings of the reward, by default those that the model was trained with.
        order: whether the agent (``learned``) or the environment (``random``) chooses the next neighbour.
        max_candidates: slots of an episode; a random part of the neighbours is used if a target has more.
        render_mode: not supported, accepted for compatibility with Gymnasium.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as in Gymnasium

    def __init__(
        self,
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
        self.context = open_context(context, model=model, graph=graph, split=split, reward=reward)
        self.render_mode = render_mode
        self._envs = NeighbourSelectionVector(1, self.context, order=order, max_candidates=max_candidates)
        self._engine = self._envs._engine
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.target_columns = self._engine.target_columns
        """The number of columns of the target, the first in an observation."""
        self.candidate_columns = self._engine.candidate_columns
        """The number of columns of one candidate."""

    @property
    def candidates(self) -> tuple[Any, ...]:
        """Return the id of the candidate in each slot, None if the slot is not open."""
        slots = zip(self._ids(), self._engine.open[0].tolist(), strict=True)
        return tuple(node if is_open else None for node, is_open in slots)

    @property
    def selected(self) -> tuple[Any, ...]:
        """Return the ids of the neighbours kept in this episode."""
        slots = zip(self._ids(), self._engine.kept[0].tolist(), strict=True)
        return tuple(node for node, kept in slots if kept)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode on a random target, or on that of ``options={"target": id}``."""
        super().reset(seed=seed)
        observation, infos = self._envs.reset(seed=seed, options=options)
        return observation[0], _first(infos)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Decide on one neighbour, or end the episode."""
        if bool(self._engine.over[0]):
            raise ResetNeeded("reset must begin an episode before a step, found none running")
        observation, reward, terminated, _, infos = self._envs.step([int(action)])
        return observation[0], float(reward[0]), bool(terminated[0]), False, _first(infos)

    def action_masks(self) -> np.ndarray:
        """Return which actions are valid, in the form that MaskablePPO of sb3-contrib expects."""
        return self._envs.action_masks()[0]

    def _ids(self) -> list[Any]:
        """Return the node id in each slot."""
        neighbour = self.context.prepared.neighbour[self._engine.edge[0].clamp(min=0)]
        ids: list[Any] = self.context.graph.node_ids[neighbour.cpu().numpy()].tolist()
        return ids


def _first(infos: dict[str, Any]) -> dict[str, Any]:
    """Return what a vector of environments tells about its first."""
    target, invalid = (infos[name].tolist()[0] for name in ("target", "invalid"))
    return {"target": target, "action_mask": infos["action_mask"][0], "invalid": invalid}
