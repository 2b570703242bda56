"""Pair features of edges near what is added to a stored graph: from the tables of its nodes and edges, or anew."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, place_in
from gdpnet.data.features import Features, normalise, stack_rows, take_rows
from gdpnet.data.neighbour_sums import add_rows
from gdpnet.data.pair_features import PairTables, pairs_of_edges, rarity_of
from gdpnet.inference.evidence import COLUMNS
from gdpnet.inference.near import Near, NearTables

Nodes = Int[Tensor, "_"]


class NearPairs:
    """Pair features of a stored graph with what is added to it, those that do not depend on what was learned."""

    def __init__(self, tables: NearTables) -> None:
        self.tables = tables

    def _unit(self, nodes: Nodes) -> Features:
        return normalise(self.tables.features(nodes), "l2")

    def of(self, near: Near, changed: Nodes) -> Float[Tensor, "_ columns"]:
        """Return the pair features of all edges of some targets, which are touched nodes and neighbours of such.

        Given all of these, they change for edges between two of them: a touched node changes as an end of an edge,
        and as a neighbour that both ends have.
        """
        anew = place_in(changed, near.rows.neighbour) >= 0
        ends = near.target[anew], near.rows.neighbour[anew]
        around = Near.of(self.tables.extended, torch.unique(torch.cat(ends)))
        target, neighbour = (torch.searchsorted(around.nodes, end) for end in ends)
        computed = pairs_of_edges(self._tables(around), target, neighbour)[0][:, :COLUMNS]
        found = computed.new_empty(anew.numel(), computed.shape[1])
        found[anew], found[~anew] = computed, self._stored(near, ~anew)
        return found

    def _stored(self, near: Near, edges: Bool[Tensor, "edges"]) -> Float[Tensor, "_ columns"]:
        return self.tables.job.files.edge_rows("pairs", near.rows.place[edges])

    def _tables(self, around: Near) -> PairTables:
        state, links = self.tables.job.state, (around.row_ptr, around.place)
        if state == "paper":
            return PairTables(state, *links, None, None)
        unit = self._unit(around.targets)
        if state == "pairs":
            return PairTables(state, *links, unit, None, nodes=around.here)
        return PairTables(
            state,
            *links,
            unit,
            self._sums(around.targets),
            nodes=around.here,
            rarity=rarity_of(self.tables.extended.degree_of(around.nodes)),
        )

    def _sums(self, nodes: Nodes) -> Features:
        """Return the sums of the unit rows of the neighbours of some nodes."""
        near = self.tables.touched_in(nodes)
        place = place_in(near.targets, nodes)
        stored = self.tables.job.files.rows("sums", nodes[place < 0])
        if not near.targets.numel():
            return stored
        total = take_rows(add_rows(self._unit(near.nodes), near.row_ptr, near.place), near.here)
        row = torch.where(place < 0, (place < 0).cumsum(0) - 1, place + stored.shape[0])
        return take_rows(stack_rows([stored, total]), row)

    def after(
        self, near: Near, context: Near, pairs: Float[Tensor, "_ columns"]
    ) -> Float[Tensor, "_ columns"]:
        """Return the pair features of all edges of some targets: those given for changed nodes, else the table's."""
        row = place_in(context.targets, near.target)
        mine = row >= 0
        found = pairs.new_empty(mine.numel(), pairs.shape[1])
        neighbour = near.rows.neighbour[mine]
        found[mine] = pairs[find_in_rows(context.offsets, context.rows.neighbour, row[mine], neighbour)]
        found[~mine] = self._stored(near, ~mine)
        return found
