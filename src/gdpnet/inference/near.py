"""Some nodes with all their edges as a graph of their own, and the rows of all nodes in it.

Rows are those of the tables that passes over a stored graph wrote, but for nodes that added edges end at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, place_in
from gdpnet.data.extended import ExtendedGraph, Rows
from gdpnet.data.features import Features, add_up, normalise, stack_rows, take_rows
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.data.prepare import Prepared
from gdpnet.inference.observation import NodeRows
from gdpnet.inference.passes.job import Job
from gdpnet.inference.passes.nodes import padded, row_sums
from gdpnet.inference.select import Selected, decide

Nodes = Int[Tensor, "_"]
Edges = Float[Tensor, "_"]
Table = Float[Tensor, "_ width"]


@dataclass(frozen=True)
class Near:
    """Some targets with all their edges, and the nodes that these lead to."""

    targets: Int[Tensor, "targets"]
    rows: Rows
    nodes: Nodes
    """The targets and their neighbours, ascending."""

    @classmethod
    def of(cls, extended: ExtendedGraph, targets: Int[Tensor, "targets"], most: int | None = None) -> Near:
        """Return the surroundings of some targets, which ascend; refuse more than ``most`` edges."""
        rows = extended.rows_of(targets, most)
        return cls(targets, rows, torch.unique(torch.cat([targets, rows.neighbour])))

    @cached_property
    def length(self) -> Int[Tensor, "targets"]:
        """Return the degree of each target."""
        return torch.bincount(self.rows.owner, minlength=self.targets.numel())

    @cached_property
    def offsets(self) -> Int[Tensor, "offsets"]:
        """Return where the edges of each target begin."""
        return offsets_of(self.length)

    @cached_property
    def target(self) -> Int[Tensor, "edges"]:
        """Return the target of each edge."""
        return self.targets[self.rows.owner]

    @cached_property
    def here(self) -> Int[Tensor, "targets"]:
        """Return the places of the targets among the nodes."""
        return torch.searchsorted(self.nodes, self.targets)

    @cached_property
    def place(self) -> Int[Tensor, "edges"]:
        """Return the places of the edges' neighbours among the nodes."""
        return torch.searchsorted(self.nodes, self.rows.neighbour)

    @cached_property
    def row_ptr(self) -> Int[Tensor, "offsets"]:
        """Return where the edges of each node begin; only targets have some."""
        return offsets_of(torch.zeros_like(self.nodes).index_copy_(0, self.here, self.length))

    def prepared(
        self,
        pairs: Float[Tensor, "_ columns"],
        own: Edges,
        reverse: Edges,
        whole: Float[Tensor, "nodes"],
        tables: NearTables,
    ) -> Prepared:
        """Return the targets as a graph; their reverse edges come after all others, and have a weight alone."""
        count = self.rows.owner.numel()
        weight = None if tables.extended.graph.edge_weight is None else tables.graph_weight(self.rows.place)
        return Prepared(
            self.row_ptr,
            torch.cat([self.place, torch.zeros(count, dtype=torch.long)]),
            torch.arange(count) + count,
            torch.zeros(self.nodes.numel(), 0),
            F.pad(pairs, (0, len(PAIR_NAMES[tables.job.state]) - pairs.shape[1])),
            mean_weight=torch.cat([own, reverse]),
            neighbourhood_weight=whole,
            graph_weight=None if weight is None else torch.cat([weight, torch.zeros(count)]),
            numbers=(self.nodes, torch.cat([self.rows.number, torch.full((count,), -1)])),
        )


class NearTables:
    """Rows of nodes and edges of a stored graph with what is added to it."""

    def __init__(self, job: Job, extended: ExtendedGraph) -> None:
        self.job, self.extended, self.touched = job, extended, extended.touched
        self.new = torch.arange(extended.first_new, extended.num_nodes)

    def graph_weight(self, place: Int[Tensor, "edges"]) -> Edges:
        """Return the weights of some edges in the graph, by their places."""
        found = self.extended.of_edges("edge_weight", place)
        return torch.ones(place.numel()) if found is None else found.float()

    def weighed(self, share: Edges, place: Int[Tensor, "edges"]) -> Edges:
        """Return the share of each edge that is kept times its weight in the graph."""
        return share if self.extended.graph.edge_weight is None else share * self.graph_weight(place)

    def places(self, target: Nodes, neighbour: Nodes) -> Int[Tensor, "edges"]:
        """Return the places of the edges from some targets to some neighbours."""
        return self.extended.places_of(target, neighbour)

    @cached_property
    def _new_features(self) -> Features:
        """Return the features of the added nodes, as the model reads them."""
        model, addition = self.job.model, self.extended.addition
        assert addition is not None
        read = model.as_read(model.matched(addition.as_graph(self.extended.graph)))
        return read.features

    def features(self, nodes: Nodes) -> Features:
        """Return the features of some nodes, which ascend."""
        known = int(torch.searchsorted(nodes, self.extended.first_new))
        stored = self.job.source.rows.take(nodes[:known])
        if known == nodes.numel():
            return stored
        new = take_rows(self._new_features, nodes[known:] - self.extended.first_new)
        return stack_rows([stored, new]) if known else new

    def _mixed(self, name: str, nodes: Nodes, changed: Nodes, values: Tensor) -> Tensor:
        """Return the rows of some nodes from a table, but those of changed nodes as given."""
        place = place_in(changed, nodes)
        stored = self.job.files.dense_rows(name, nodes[place < 0])
        found = stored.new_empty(nodes.numel(), *stored.shape[1:])
        found[place < 0], found[place >= 0] = stored, values[place[place >= 0]]
        return found

    @cached_property
    def _new_rows(self) -> dict[str, Table]:
        """Return the projections of the added nodes, by the names of their tables."""
        aggregators, kind = self.job.model.networks.aggregators, self.job.model.config.features.normalise
        found = {"own": aggregators.project_message}
        if aggregators.self_weight is not None:
            found["own_self"] = aggregators.project_own
        if not self.new.numel():
            return {name: torch.zeros(0, aggregators.width) for name in found}
        rows = normalise(self._new_features, kind)
        count = self.new.numel()
        return {name: project(padded(rows), slice(0, 1))[:count, 0] for name, project in found.items()}

    def _projected(self, name: str, nodes: Nodes) -> Table:
        return self._mixed(name, nodes, self.new, self._new_rows[name])

    def _means(self, near: Near, weight: Edges) -> Table:
        """Return the means of each target's projection and its neighbours', weighted."""
        rows = self._projected("own", near.nodes)
        received = add_up(rows, near.offsets, near.place, weight)
        return (rows[near.here] + received) / (1.0 + row_sums(weight, near.offsets))[:, None]

    def touched_in(self, nodes: Nodes) -> Near:
        """Return the touched nodes among some nodes."""
        return Near.of(self.extended, nodes[place_in(self.touched, nodes) >= 0])

    def whole_before(self, nodes: Nodes) -> Float[Tensor, "nodes"]:
        """Return the total weight of each node's mean before anything was decided."""
        near = self.touched_in(nodes)
        return self._mixed(
            "whole", nodes, near.targets, self._whole(near, self.graph_weight(near.rows.place))
        )

    def whole_after(self, nodes: Nodes, context: Near, weight: Edges) -> Float[Tensor, "nodes"]:
        """Return the same after the context pass, given the weights of the edges of changed nodes."""
        return self._mixed("whole_kept", nodes, context.targets, self._whole(context, weight))

    def _whole(self, near: Near, weight: Edges) -> Float[Tensor, "targets"]:
        return 1.0 + row_sums(weight, near.offsets)

    def rows_before(self, nodes: Nodes) -> NodeRows:
        """Return the projections of some nodes, and of their means before anything was decided."""
        near = self.touched_in(nodes)
        message = self._means(near, self.graph_weight(near.rows.place))
        return self._rows(nodes, self._mixed("message", nodes, near.targets, message))

    def rows_after(self, nodes: Nodes, context: Near, weight: Edges) -> NodeRows:
        """Return the same after the context pass, given the weights of the edges of changed nodes."""
        message = self._means(context, weight)
        return self._rows(nodes, self._mixed("message_kept", nodes, context.targets, message))

    def _rows(self, nodes: Nodes, message: Table) -> NodeRows:
        sent = torch.cat([message, self._projected("own", nodes)])
        if self.job.model.networks.aggregators.self_weight is not None:
            return NodeRows(slice(0, 1), self._projected("own_self", nodes), sent)
        return NodeRows(slice(0, 1), sent[-nodes.numel() :], sent)

    def play(
        self, prepared: Prepared, near: Near, rows: NodeRows, stream: str, most_episodes: int | None
    ) -> Selected:
        """Run the episodes of some targets."""
        networks, config = self.job.model.networks, self.job.model.config
        assert networks.policy is not None
        seed = self.job.key.fold_in(stream).seed32
        given = (prepared, near.here, config, seed, None, most_episodes, rows)
        return decide(networks.policy, networks.aggregators, *given)
