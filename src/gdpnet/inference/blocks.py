"""Decide on a graph a block of targets at a time: nothing wider than a few bytes is held for every edge.

Held whole are tables of nodes (features, sums over neighbours, projections) and, of each edge, the keep probability
that its target first gave it and its weight in its target's circle, four bytes each. Decisions are those of
`inference.select` for all nodes: random draws are keyed by seed, target and neighbour, so that blocks do not matter.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import both_ways, cut_rows
from gdpnet._core.stopwatch import Phases
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import (
    Prepared,
    bring_dense,
    in_first_circles,
    prepare_nodes,
    with_block,
    with_circle,
)
from gdpnet.inference.ensemble import represent
from gdpnet.inference.observation import NodeRows, project_nodes
from gdpnet.inference.select import CIRCLE_EPISODES, Selected, decide, keep_all
from gdpnet.representation.aggregator import Aggregators
from gdpnet.representation.hopwise import Reader
from gdpnet.selection.policy import Policy

_EDGES_AT_ONCE = 1 << 15
"""Edges whose targets are represented at once; every member of the bank takes part."""

Block = tuple[int, int]
"""The targets from the first number up to the second."""


class Blockwise:
    """A trained policy and bank on a graph; `look` at every block, then `enter` its circles, then `decide`."""

    def __init__(
        self,
        policy: Policy | None,
        aggregators: Aggregators,
        graph: Graph,
        config: Config,
        seed: int,
        device: torch.device,
        phases: Phases | None = None,
    ) -> None:
        self.policy, self.aggregators, self.config, self.seed = policy, aggregators, config, seed
        self.device, self.phases = device, phases or Phases()
        graph = bring_dense(graph, device)
        self._mark("read")
        self.prepared, self.tables = prepare_nodes(graph, config, device)
        self._mark("node tables")
        self.rows: NodeRows | None = None
        self.first: Float[Tensor, "edges"] | None = None

    @property
    def looks_first(self) -> bool:
        """Return whether all nodes decide once before the decisions that count."""
        return self.policy is not None and (
            self.config.representation.hops == 2 or self.config.inference.both_ways
        )

    def look(self, block: Block) -> Selected:
        """Let the targets of a block decide while every node still gives all its neighbours."""
        assert self.policy is not None
        if self.rows is None:
            self._project(in_first_circles(self.prepared, self.config), keep_circle=False)
            self._mark("circles")
        chosen = self._play(block, self.seed + 1, CIRCLE_EPISODES)
        self._mark("first look")
        return chosen

    def enter(
        self,
        probability: Float[Tensor, "edges"] | None,
        weight: Float[Tensor, "edges"] | None,
        *,
        represents: bool,
    ) -> None:
        """Take in what all nodes decided on first; with two hops, let every node give what was selected for it.

        Tables that only representing needs are dropped unless asked for.
        """
        device = self.prepared.device
        self.first, self.rows = None if probability is None else probability.to(device), None
        prepared = replace(self.prepared, circle=self.prepared.features)
        if self.config.representation.hops == 2:
            if weight is None:  # there is no policy, and everything is kept
                prepared = in_first_circles(prepared, self.config)
            else:
                prepared = with_circle(prepared, self._mutual(weight.to(device)))
        self._project(prepared, keep_circle=represents)
        self._mark("circles")

    def decide(self, block: Block) -> Selected:
        """Let the targets of a block decide for good."""
        if self.policy is None:
            return keep_all(self._block(block))
        chosen = self._play(block, self.seed)
        chosen = chosen.hearing(self.first) if self.first is not None else chosen
        self._mark("decide")
        return chosen

    def represent(
        self, chosen: Selected, block: Block, reader: Reader | None
    ) -> Float[Tensor, "targets width"]:
        """Return the representations of a block's targets from what was decided."""
        weight = chosen.weight(self.config.inference.mode)
        bounds = self.prepared.row_ptr[block[0] : block[1] + 1]
        parts = []
        for first, last in cut_rows(bounds, _EDGES_AT_ONCE):
            targets = torch.arange(block[0] + first, block[0] + last, device=self.prepared.device)
            parts.append(represent(self.aggregators, chosen.prepared, targets, weight, reader)[0])
        return torch.cat(parts)

    def both_ways(self, value: Float[Tensor, "edges"], block: Block) -> Float[Tensor, "block"]:
        """Give each edge of a block the mean of its value and of that of the edge the other way."""
        return both_ways(value, self.tables.back_of(*block), self.tables.edges_of(*block).start)

    def _play(self, block: Block, seed: int, most_episodes: int | None = None) -> Selected:
        assert self.policy is not None
        prepared = self._block(block)
        targets = torch.arange(*block, device=prepared.device)
        return decide(
            self.policy,
            self.aggregators,
            prepared,
            targets,
            self.config,
            seed,
            most_episodes=most_episodes,
            rows=self.rows,
        )

    def _block(self, block: Block) -> Prepared:
        self._mark("write")  # whatever lies between two blocks
        prepared = with_block(self.prepared, self.tables, *block)
        self._mark("pair features")
        return prepared

    def _mark(self, phase: str) -> None:
        self.phases.mark(phase, self.device)

    def _mutual(self, weight: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
        if not self.config.inference.both_ways:
            return weight
        blocks = cut_rows(self.prepared.row_ptr, 1 << 20)
        return torch.cat([self.both_ways(weight, block) for block in blocks])

    def _project(self, prepared: Prepared, *, keep_circle: bool) -> None:
        """Project all nodes; the circles themselves can go then, unless they are represented from."""
        if self.policy is not None:
            self.rows = project_nodes(self.aggregators, prepared)
        self.prepared = prepared if keep_circle else replace(prepared, circle=prepared.features)
