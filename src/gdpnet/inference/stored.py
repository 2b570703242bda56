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
from gdpnet.inference.engines.engine import store_sum
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.near import Near, NearTables
from gdpnet.inference.near_pairs import NearPairs
from gdpnet.inference.passes.job import Job
from gdpnet.inference.threshold import KEEP_ALL, edge_weights

Nodes = Int[Tensor, "_"]
Edges = Float[Tensor, "_"]


def reads_decisions(model: TrainedModel) -> bool:
    """Return whether predictions depend on decisions on other nodes' edges: the GCN head reads the cleaned graph."""
    ensemble, networks = model.ensemble, model.networks
    reads = networks.gcn is not None and ensemble.uses_gcn
    return reads and networks.policy is not None and ensemble.threshold != KEEP_ALL


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

    @classmethod
    def open(cls, model: TrainedModel, graph: Graph, folder: Path) -> StoredDecisions:
        """Open the tables of a model and a store in a folder of their own below a folder; make them if need be."""
        store = store_of(graph)
        if store is None:
            raise ConfigError("decisions are stored for a graph in a store: write one with 'gdpnet store'")
        place = folder / f"{model.fingerprint()}-{store_sum(store)[:16]}"
        return cls(make_tables(model, graph, place), graph)

    def weights(self, extended: ExtendedGraph, part: Part, most: int | None = None) -> Edges:
        """Return the weights in the cleaned graph of all edges of a part of the graph, with what is added to it.

        If nodes with more than ``most`` edges would have to decide anew, that is refused.
        """
        graph, node = part.graph, part.node
        ends = node[graph.target], node[graph.neighbour.long()]
        changed = ChangedDecisions(self.job, extended, torch.unique(torch.cat(ends)), most)
        own, other = (changed.decision(*some) for some in (ends, ends[::-1]))
        share = edge_weights(own / 2 + other / 2, self.job.model.threshold.threshold)
        return share if graph.edge_weight is None else share * graph.edge_weight.float()


class ChangedDecisions:
    """What is decided on the edges of some nodes, with what is added to the stored graph."""

    def __init__(
        self, job: Job, extended: ExtendedGraph, needed: Nodes, most_edges: int | None = None
    ) -> None:
        self.job, self.extended, self.needed, self.most = job, extended, needed, most_edges
        self.tables = NearTables(job, extended)
        self.pairs = NearPairs(self.tables)

    @cached_property
    def _around(self) -> tuple[Nodes, Nodes]:
        """Return the touched nodes and their neighbours, and all nodes within two hops."""
        first = Near.of(self.extended, self.tables.touched, self.most).nodes
        return first, Near.of(self.extended, first, self.most).nodes

    @cached_property
    def deciding(self) -> Near:
        """Return the needed nodes that decide anew."""
        return Near.of(self.extended, _both(self.needed, self._around[1]))

    @cached_property
    def context(self) -> Near:
        """Return the nodes whose context decisions have a part in these, and are new."""
        return Near.of(self.extended, _both(self.deciding.nodes, self._around[0]))

    @cached_property
    def _pairs(self) -> Float[Tensor, "_ columns"]:
        """Return the pair features of the edges of `context`."""
        return self.pairs.of(self.context)

    @cached_property
    def _context_weight(self) -> Edges:
        """Return the weights of the edges of `context` in neighbourhood means, after the context pass."""
        near, tables, config = self.context, self.tables, self.job.model.config
        weight = tables.graph_weight(near.rows.place)
        other = tables.graph_weight(tables.places(near.rows.neighbour, near.target))
        rows = tables.rows_before(near.nodes)
        prepared = near.prepared(self._pairs, weight, other, tables.whole_before(near.nodes), tables)
        chosen = tables.play(prepared, near, rows, "context", config.inference.context_episodes)
        return tables.weighed(chosen.weight(config.inference.mode), near.rows.place)

    @cached_property
    def _probability(self) -> Edges:
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
        return tables.play(
            near.prepared(pairs, own, other, whole, tables), near, rows, "decide", None
        ).probability

    def decision(self, target: Nodes, neighbour: Nodes) -> Edges:
        """Return the decisions of some targets on some neighbours."""
        if not self.deciding.targets.numel():
            return self._stored("decision", target, neighbour)
        return self._value("decision", self.deciding, self._probability, target, neighbour)

    def _value(self, name: str, near: Near, values: Edges, target: Nodes, neighbour: Nodes) -> Edges:
        """Return the value of some edges: as given for the targets of ``near``, else from a table."""
        row, found = place_in(near.targets, target), torch.zeros(target.numel())
        mine = row >= 0
        found[mine] = values[find_in_rows(near.offsets, near.rows.neighbour, row[mine], neighbour[mine])]
        found[~mine] = self._stored(name, target[~mine], neighbour[~mine])
        return found

    def _stored(self, name: str, target: Nodes, neighbour: Nodes) -> Edges:
        edge = find_in_rows(*self.job.source.links_around(target), target, neighbour)
        return self.job.files.of_edges(name, edge)


def _both(some: Nodes, other: Nodes) -> Nodes:
    """Return the nodes that are among some, which ascend, and among others."""
    return some[place_in(other, some) >= 0]
