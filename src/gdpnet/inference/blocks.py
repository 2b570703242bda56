"""Decide on a graph one block of targets at a time, in bounded memory.

Held for the whole graph are tables of nodes (features, sums over neighbours, projections) and two numbers per
edge: the keep probability from the context pass, and the weight in the target's neighbourhood mean. Decisions
are those of `gdpnet.inference.select` for all nodes: random draws are keyed by target and neighbour, so the
division into blocks does not matter.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import cut_rows, symmetrise
from gdpnet._core.random import Key
from gdpnet._core.stopwatch import Stopwatch
from gdpnet.data.graph import Graph
from gdpnet.data.pair_features import PAIR_NAMES, pairs_of
from gdpnet.data.prepare import (
    Prepared,
    bring_dense,
    prepare_nodes,
    with_block,
    with_full_neighbourhoods,
    with_neighbourhoods,
)
from gdpnet.inference.evidence import COLUMNS, EvidencePasses, Links
from gdpnet.inference.genuine import local_classes
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.observation import NodeRows, project_nodes
from gdpnet.inference.select import Selected, decide, keep_all

_EDGES_AT_ONCE = 1 << 15
"""Edges whose targets are embedded at once, by every fold model."""

Block = tuple[int, int]
"""The targets from the first number up to the second."""


class Blockwise:
    """A model on a graph: `decide_context` on all blocks, `finish_context`, then `decide` on all blocks."""

    def __init__(self, model: TrainedModel, graph: Graph, stopwatch: Stopwatch | None = None) -> None:
        self.model, self.config, self.key = model, model.config, Key.of(model.seed).fold_in("predict")
        self.policy, self.aggregators = model.networks.policy, model.networks.aggregators
        self.device, self.stopwatch = model.device, stopwatch or Stopwatch()
        graph = bring_dense(model.as_read(graph), self.device)
        self.mark("read")
        self.prepared, self.tables = prepare_nodes(graph, self.config, self.device)
        self.mark("node tables")
        self.rows: NodeRows | None = None
        self.first: Float[Tensor, "edges"] | None = None

    @property
    def needs_context(self) -> bool:
        """Return whether there is a context pass before the final decisions."""
        return self.policy is not None and (
            self.config.representation.hops == 2 or self.config.inference.symmetrise
        )

    def decide_context(self, block: Block) -> Selected:
        """Let the targets of a block decide while every neighbourhood still holds all neighbours."""
        if self.rows is None:
            self._project(with_full_neighbourhoods(self.prepared, self.config), keep_neighbourhoods=False)
            self.mark("neighbourhoods")
        chosen = self._play(block, "context", self.config.inference.context_episodes)
        self.mark("context")
        return chosen

    def finish_context(self, found: Float[Tensor, "rows edges"] | None, *, embeds: bool) -> None:
        """Use the context decisions of all nodes: with two hops, as weights of the neighbourhood means.

        The first row of ``found`` are probabilities, the last one weights; None without a context pass. Tables that
        only embedding needs are dropped unless ``embeds``.
        """
        self.rows = None
        self.first = found[0] if found is not None and self.config.inference.symmetrise else None
        prepared = replace(self.prepared, neighbourhood_rows=None)
        if found is None:  # without a policy everything is kept
            prepared = with_full_neighbourhoods(prepared, self.config)
        elif self.config.representation.hops == 2:
            weight = found[-1]
            if self.first is not None:
                blocks = cut_rows(prepared.row_ptr, 1 << 20)
                weight = torch.cat([self.symmetrise(weight, block) for block in blocks])
            prepared = with_neighbourhoods(prepared, weight)
        self._project(prepared, keep_neighbourhoods=embeds)
        self.mark("neighbourhoods")

    def decide(self, block: Block) -> Selected:
        """Let the targets of a block make the final decisions."""
        if self.policy is None:
            return keep_all(self._block(block))
        chosen = self._play(block, "decide")
        chosen = chosen.averaged_with_reverse(self.first) if self.first is not None else chosen
        self.mark("decide")
        return chosen

    def embed(self, chosen: Selected, block: Block) -> Float[Tensor, "targets width"]:
        """Return the embeddings of a block's targets with their selected neighbours."""
        weight = chosen.weight(self.config.inference.mode)
        bounds = self.prepared.row_ptr[block[0] : block[1] + 1]
        parts = []
        for first, last in cut_rows(bounds, _EDGES_AT_ONCE):
            targets = torch.arange(block[0] + first, block[0] + last, device=self.prepared.device)
            parts.append(self.model.ensemble.local(chosen.prepared, targets, weight)[0])
        return torch.cat(parts)

    def evidence_passes(self) -> EvidencePasses | None:
        """Return the evidence model on this graph; None if there is none."""
        evidence, first = self.model.networks.evidence, self.prepared.edge_columns
        if evidence is None:
            return None
        links, tables = Links.of(self.prepared, self.config), self.tables
        if len(PAIR_NAMES[tables.state]) < COLUMNS:  # the policy observes no structure
            tables, first = links.tables(), 0
        columns = slice(first, first + COLUMNS)
        return EvidencePasses(evidence, links, lambda block: pairs_of(tables, *block)[0][:, columns])

    def classes(self, chosen: Selected, block: Block) -> Float[Tensor, "targets classes"]:
        """Return the aggregators' class probabilities of a block's targets with their selected neighbours."""
        return local_classes(self.aggregators, chosen, self.config.inference.mode, *block)

    def symmetrise(self, value: Float[Tensor, "edges"], block: Block) -> Float[Tensor, "block"]:
        """Return the mean of the values of each edge of a block and of its reverse edge."""
        return symmetrise(value, self.tables.reverse_edges_of(*block), self.tables.edges_of(*block).start)

    def mark(self, phase: str) -> None:
        """End a phase of the stopwatch."""
        self.stopwatch.mark(phase, self.device)

    def _play(self, block: Block, stream: str, most_episodes: int | None = None) -> Selected:
        assert self.policy is not None
        prepared, seed = self._block(block), self.key.fold_in(stream).seed32
        targets, given = torch.arange(*block, device=prepared.device), (None, most_episodes, self.rows)
        return decide(self.policy, self.aggregators, prepared, targets, self.config, seed, *given)

    def _block(self, block: Block) -> Prepared:
        self.mark("write")  # the time since the last block
        prepared = with_block(self.prepared, self.tables, *block)
        self.mark("pair features")
        return prepared

    def _project(self, prepared: Prepared, *, keep_neighbourhoods: bool) -> None:
        """Project all nodes; compute the neighbourhood means once if embedding needs them."""
        if self.policy is not None:
            self.rows = project_nodes(self.aggregators, prepared)
        if keep_neighbourhoods and prepared.mean_weight is not None:
            prepared = replace(prepared, neighbourhood_rows=prepared.neighbourhood)
        self.prepared = prepared
