"""Neighbour selection as a Gymnasium environment: an episode is one target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from gdpnet.config import RewardSettings
from gdpnet.data.graph import Graph
from gdpnet.envs.context import World, open_world, wanted_target
from gdpnet.envs.engine import Engine
from gdpnet.estimator import GDPNet


class NeighbourSelection(gymnasium.Env):
    """Keep or drop the neighbours of one target after another.

    With ``order="learned"`` an action names a slot and what to do with its candidate: below ``max_candidates`` keep
    that slot, then drop that slot, the last action ends. An action on a slot that is not open ends the episode as
    well, and ``info["invalid"]`` says so. With ``order="random"`` the environment shows the neighbours one by one,
    and the action is 0 to drop or 1 to keep. Rewards are those of training.

    Args:
        world: what to play on; or else
        model: a fitted model or the path of one; by default a classifier that is fitted in two seconds.
        graph: the graph, its name or its path; by default the generated one.
        split: whose nodes are targets, ``train``, ``validation`` or ``test``.
        reward: what a decision earns, by default as the model was trained.
        order: who draws the next neighbour: the action (``learned``), or the environment (``random``).
        max_candidates: slots of an episode; of a target with more neighbours a random part is played.
        render_mode: nothing is drawn; there for Gymnasium's sake.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        world: World | None = None,
        *,
        model: GDPNet | str | Path | None = None,
        graph: Graph | str | Path | None = None,
        split: str = "train",
        reward: RewardSettings | None = None,
        order: str = "learned",
        max_candidates: int = 16,
        render_mode: str | None = None,
    ) -> None:
        self.world = open_world(world, model, graph, split, reward)
        self.render_mode = render_mode
        self._engine = Engine(self.world, order, max_candidates, 1)
        self._seeded = False
        self.observation_space, self.action_space = self._engine.spaces()

    @property
    def target_columns(self) -> int:
        """Return the size of an observation's first part, the target's."""
        return self._engine.target_columns

    @property
    def candidate_columns(self) -> int:
        """Return the size of what an observation says of one candidate."""
        return self._engine.candidate_columns

    @property
    def candidates(self) -> tuple[Any, ...]:
        """Return the id of the candidate in each slot, nothing where it is not open."""
        return tuple(
            node if is_open else None
            for node, is_open in zip(self._ids(), self._engine.open[0].tolist(), strict=True)
        )

    @property
    def selected(self) -> tuple[Any, ...]:
        """Return the ids of the neighbours that were kept in this episode."""
        return tuple(
            node for node, kept in zip(self._ids(), self._engine.kept[0].tolist(), strict=True) if kept
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode on a target that is drawn, or on the one that ``options={"target": id}`` names."""
        super().reset(seed=seed)
        engine, wanted = self._engine, wanted_target(options)
        target = None if wanted is None else engine.everyone.new_tensor([self.world.number_of(wanted)])
        if seed is not None or not self._seeded:
            engine.reseed([self.np_random_seed])
            self._seeded = True
        engine.begin(engine.everyone, target)
        return self._observation(), self._info(False)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Decide on one neighbour, or end."""
        engine = self._engine
        if bool(engine.over[0]):
            raise gymnasium.error.ResetNeeded(
                "an episode must be begun with reset before a step, found none running"
            )
        result = engine.act(engine.everyone.new_tensor([int(action)]))
        info = self._info(bool(result.invalid[0]))
        return self._observation(), float(result.reward[0]), bool(engine.over[0]), False, info

    def action_masks(self) -> np.ndarray:
        """Say which actions name something open, as sb3-contrib's MaskablePPO asks for it."""
        return self._engine.action_mask()[0].cpu().numpy()

    def _observation(self) -> np.ndarray:
        return self._engine.observe()[0].cpu().numpy()

    def _info(self, invalid: bool) -> dict[str, Any]:
        target = self.world.graph.node_ids[self._engine.target.cpu().numpy()].tolist()[0]
        return {"target": target, "action_mask": self.action_masks(), "invalid": invalid}

    def _ids(self) -> list[Any]:
        """Return the node id in each slot."""
        neighbour = self.world.prepared.neighbour[self._engine.edge[0].clamp(min=0)]
        ids: list[Any] = self.world.graph.node_ids[neighbour.cpu().numpy()].tolist()
        return ids
