"""Neighbour selection as a Gymnasium environment: one episode per target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from gdpnet.config import RewardSettings
from gdpnet.data.graph import Graph
from gdpnet.envs.context import Context, open_context, target_option
from gdpnet.envs.engine import Engine
from gdpnet.estimator import GDPNet


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
        self.context = open_context(context, model, graph, split, reward)
        self.render_mode = render_mode
        self._engine = Engine(self.context, order, max_candidates, 1)
        self._seeded = False
        self.observation_space, self.action_space = self._engine.spaces()

    @property
    def target_columns(self) -> int:
        """Return the number of columns of the target, the first in an observation."""
        return self._engine.target_columns

    @property
    def candidate_columns(self) -> int:
        """Return the number of columns of one candidate."""
        return self._engine.candidate_columns

    @property
    def candidates(self) -> tuple[Any, ...]:
        """Return the id of the candidate in each slot, None if the slot is not open."""
        return tuple(
            node if is_open else None
            for node, is_open in zip(self._ids(), self._engine.open[0].tolist(), strict=True)
        )

    @property
    def selected(self) -> tuple[Any, ...]:
        """Return the ids of the neighbours kept in this episode."""
        return tuple(
            node for node, kept in zip(self._ids(), self._engine.kept[0].tolist(), strict=True) if kept
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode on a random target, or on that of ``options={"target": id}``."""
        super().reset(seed=seed)
        engine, wanted = self._engine, target_option(options)
        target = None if wanted is None else engine.rows.new_tensor([self.context.number_of(wanted)])
        if seed is not None or not self._seeded:
            engine.reseed([self.np_random_seed])
            self._seeded = True
        engine.begin(engine.rows, target)
        return self._observation(), self._info(False)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Decide on one neighbour, or end the episode."""
        engine = self._engine
        if bool(engine.over[0]):
            raise gymnasium.error.ResetNeeded("reset must begin an episode before a step, found none running")
        result = engine.act(engine.rows.new_tensor([int(action)]))
        info = self._info(bool(result.invalid[0]))
        return self._observation(), float(result.reward[0]), bool(engine.over[0]), False, info

    def action_masks(self) -> np.ndarray:
        """Return which actions are valid, in the form that MaskablePPO of sb3-contrib expects."""
        return self._engine.action_mask()[0].cpu().numpy()

    def _observation(self) -> np.ndarray:
        return self._engine.observe()[0].cpu().numpy()

    def _info(self, invalid: bool) -> dict[str, Any]:
        target = self.context.graph.node_ids[self._engine.target.cpu().numpy()].tolist()[0]
        return {"target": target, "action_mask": self.action_masks(), "invalid": invalid}

    def _ids(self) -> list[Any]:
        """Return the node id in each slot."""
        neighbour = self.context.prepared.neighbour[self._engine.edge[0].clamp(min=0)]
        ids: list[Any] = self.context.graph.node_ids[neighbour.cpu().numpy()].tolist()
        return ids
