"""Decisions on a stored graph, and on it with some nodes and edges more, from tables of the stored graph.

Added edges change what is decided near their ends alone. With the nodes that they end at as touched:

| what | changes for |
|---|---|
| sums and means over neighbours, before anything is decided | touched nodes |
| pair features, context decisions, and means after these | touched nodes and their neighbours |
| decisions | nodes within two hops of touched ones |

These are computed anew, row by row as the passes over the stored graph compute them, so that every bit is that of
the passes over the larger graph. All else is read from what the passes wrote.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, place_in
from gdpnet.data.extended import ExtendedGraph
from gdpnet.data.graph import Graph, Part
from gdpnet.data.io.store import store_of
from gdpnet.data.schema import STRUCTURAL
from gdpnet.errors import ConfigError
from gdpnet.inference.by_blocks import make_tables
from gdpnet.inference.kept_tables import held, own_folder
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.near import Near, NearTables
from gdpnet.inference.near_pairs import NearPairs
from gdpnet.inference.passes.job import Job
from gdpnet.inference.reach import reads_decisions
from gdpnet.inference.select import PartDecisions, Selected
from gdpnet.inference.threshold import edge_weights

Nodes = Int[Tensor, "_"]
Edges = Float[Tensor, "_"]


def can_store(model: TrainedModel, graph: Graph, *, directed: bool) -> bool:
    """Return whether tables of a graph shorten predictions, and added nodes change what this module says."""
    config = model.config
    return (
        reads_decisions(model)
        and not directed
        and model.device.type == "cpu"
        and config.representation.hops == 2
        and not config.inference.symmetrise
        and model.edge_columns is None
        and model.columns.kind != STRUCTURAL
    )


class StoredDecisions:
    """The decisions on the edges of a stored graph."""

    def __init__(self, job: Job, graph: Graph) -> None:
        self.job, self.graph = job, graph

    @property
    def folder(self) -> Path:
        """Return the folder of the tables."""
        assert isinstance(self.job.folder, Path)
        return self.job.folder

    @classmethod
    def open(cls, model: TrainedModel, graph: Graph, folder: Path) -> StoredDecisions:
        """Open the tables of a model and a store in a folder of their own below a folder; make them if need be."""
        store = store_of(graph)
        if store is None:
            raise ConfigError("decisions are stored for a graph in a store: write one with 'gdpnet store'")
        place = own_folder(folder, model, store)
        with ExitStack() as stack:
            stack.enter_context(held(place))
            found = cls(make_tables(model, graph, place), graph)
            weakref.finalize(found, stack.pop_all().close)
        return found

    def around(
        self, extended: ExtendedGraph, part: Part, targets: Nodes, most: int | None = None
    ) -> PartDecisions:
        """Return what is decided on a part of the graph around some targets, with what is added to it.

        If nodes with more than ``most`` edges would have to decide anew, that is refused.
        """
        graph, node = part.graph, part.node
        ends = node[graph.target], node[graph.neighbour.long()]
        changed = ChangedDecisions(self.job, extended, targets, torch.unique(torch.cat(ends)), most)
        own, other = (changed.decision(*some) for some in (ends, ends[::-1]))
        cleaned = edge_weights(own / 2 + other / 2, self.job.model.threshold.threshold)
        if graph.edge_weight is not None:
            cleaned = cleaned * graph.edge_weight.float()
        return PartDecisions(cleaned, changed.share(own, *ends), changed.mean_weight(*ends))


class ChangedDecisions:
    """What is decided on the edges of some nodes, with what is added to the stored graph."""

    def __init__(
        self, job: Job, extended: ExtendedGraph, targets: Nodes, needed: Nodes, most_edges: int | None = None
    ) -> None:
        self.job, self.extended, self.targets, self.needed = job, extended, torch.unique(targets), needed
        self.most, self.greedy = most_edges, job.model.config.inference.mode == "greedy"
        self.tables = NearTables(job, extended)
        self.pairs = NearPairs(self.tables)

    @cached_property
    def _around(self) -> tuple[Nodes, Nodes]:
        """Return the touched nodes and their neighbours, and all nodes within two hops."""
        first = Near.of(self.extended, self.tables.touched, self.most).nodes
        return first, Near.of(self.extended, first, self.most).nodes

    @cached_property
    def deciding(self) -> Near:
        """Return the needed nodes that decide anew, with greedy decisions all targets: tables have probabilities."""
        changed = _both(self.needed, self._around[1])
        return Near.of(
            self.extended, torch.unique(torch.cat([changed, self.targets])) if self.greedy else changed
        )

    @cached_property
    def context(self) -> Near:
        """Return the nodes whose context decisions have a part in these, and are new."""
        return Near.of(self.extended, _both(self.deciding.nodes, self._around[0]))

    @cached_property
    def _pairs(self) -> Float[Tensor, "_ columns"]:
        """Return the pair features of the edges of `context`."""
        return self.pairs.of(self.context, self._around[0])

    @cached_property
    def _context_weight(self) -> Edges:
        """Return the weights of the edges of `context` in neighbourhood means, after the context pass."""
        near, tables, config = self.context, self.tables, self.job.model.config
        if not near.targets.numel():
            return torch.zeros(0)
        weight = tables.graph_weight(near.rows.place)
        other = tables.graph_weight(tables.places(near.rows.neighbour, near.target))
        rows = tables.rows_before(near.nodes)
        prepared = near.prepared(self._pairs, weight, other, tables.whole_before(near.nodes), tables)
        chosen = tables.play(prepared, near, rows, "context", config.inference.context_episodes)
        return tables.weighed(chosen.weight(config.inference.mode), near.rows.place)

    @cached_property
    def _chosen(self) -> Selected:
        """Return the decisions on the edges of `deciding`."""
        near, context, tables = self.deciding, self.context, self.tables
        after = self._context_weight
        own, other = (
            self._value("weight", context, after, *ends)
            for ends in ((near.target, near.rows.neighbour), (near.rows.neighbour, near.target))
        )
        rows = tables.rows_after(near.nodes, context, after)
        whole = tables.whole_after(near.nodes, context, after)
        pairs = self.pairs.after(near, context, self._pairs)
        return tables.play(near.prepared(pairs, own, other, whole, tables), near, rows, "decide", None)

    def decision(self, target: Nodes, neighbour: Nodes) -> Edges:
        """Return the decisions of some nodes on some neighbours."""
        if not self.deciding.targets.numel():
            return self._stored("decision", target, neighbour)
        return self._value("decision", self.deciding, self._chosen.probability, target, neighbour)

    def share(self, decision: Edges, target: Nodes, neighbour: Nodes) -> Edges:
        """Return the share of edges of `targets` that is kept, given their decisions."""
        if not self.greedy:
            return decision
        mine, found = place_in(self.targets, target) >= 0, torch.zeros(target.numel())
        kept = self._chosen.weight("greedy")
        found[mine] = kept[self._places(self.deciding, target[mine], neighbour[mine])]
        return found

    def mean_weight(self, target: Nodes, neighbour: Nodes) -> Edges:
        """Return the weights of edges in the means of `targets` and their neighbours, zero for those of others."""
        around = Near.of(self.extended, self.targets).nodes
        mine, found = place_in(around, target) >= 0, torch.zeros(target.numel())
        ends = target[mine], neighbour[mine]
        found[mine] = self._value("weight", self.context, self._context_weight, *ends)
        return found

    def _value(self, name: str, near: Near, values: Edges, target: Nodes, neighbour: Nodes) -> Edges:
        """Return the value of some edges: as given for the targets of ``near``, else from a table."""
        mine, found = place_in(near.targets, target) >= 0, torch.zeros(target.numel())
        found[mine] = values[self._places(near, target[mine], neighbour[mine])]
        found[~mine] = self._stored(name, target[~mine], neighbour[~mine])
        return found

    def _places(self, near: Near, target: Nodes, neighbour: Nodes) -> Int[Tensor, "_"]:
        """Return where the edges of some targets of ``near`` are among its edges."""
        return find_in_rows(near.offsets, near.rows.neighbour, place_in(near.targets, target), neighbour)

    def _stored(self, name: str, target: Nodes, neighbour: Nodes) -> Edges:
        edge = find_in_rows(*self.job.source.links_around(target), target, neighbour)
        return self.job.files.of_edges(name, edge)


def _both(some: Nodes, other: Nodes) -> Nodes:
    """Return the nodes that are among some, which ascend, and among others."""
    return some[place_in(other, some) >= 0]
