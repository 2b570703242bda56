"""The GCN head's probabilities of a node with some of its edges, without convolving the whole graph again.

Without some edges of a node, in both directions, only the degrees of the node and of those neighbours change. So a
layer's output changes only near them, and the node's own output depends only on what is near it. The rows that are
both are recomputed, all others are those of the whole graph; the result is the same, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, owners_of, place_in, ranges, sum_by_owner
from gdpnet.data.features import add_up
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import cleaned_weight
from gdpnet.inference.select import Selected
from gdpnet.inference.states import Prefixes
from gdpnet.representation.all_edges import SharedNetwork
from gdpnet.representation.gcn import GCN, NormalisedAdjacency
from gdpnet.representation.sparse import times

_WORK_AT_ONCE = 1 << 19
"""Neighbours' edges of the states that are evaluated together, which bounds the memory."""

Keys = Int[Tensor, "_"]
"""A row of a state: the number of the state times the number of nodes, plus the node; ascending."""


@dataclass(frozen=True)
class Convolved:
    """The GCN head over the whole cleaned graph, or the all-edges head of sparse features over all edges."""

    gcn: GCN | SharedNetwork
    row_ptr: Int[Tensor, "offsets"]
    """Where the edges of each node begin; here are only edges of the cleaned graph."""
    edge: Int[Tensor, "edges"]
    """The number of each edge in the prepared graph."""
    neighbour: Int[Tensor, "edges"]
    weight: Float[Tensor, "edges"]
    whole: Float[Tensor, "nodes"]
    """One plus the weights of the node's edges."""
    messages: list[Float[Tensor, "nodes _"]]
    """What every layer adds up."""
    probabilities: Float[Tensor, "nodes classes"]

    @classmethod
    @torch.no_grad()
    def of(cls, gcn: GCN | SharedNetwork, selected: Selected, threshold: float) -> Convolved:
        """Convolve the cleaned graph of some decisions."""
        prepared, weight = selected.prepared, cleaned_weight(selected, threshold)
        edge = weight.nonzero().flatten()
        owner = owners_of(prepared.row_ptr.diff())[edge]
        adjacency = NormalisedAdjacency.of(prepared.row_ptr, prepared.neighbour, weight)
        messages, scores = gcn.layers(times(prepared.features, gcn.weight), adjacency)
        return cls(
            gcn,
            offsets_of(torch.bincount(owner, minlength=prepared.num_nodes)),
            edge,
            prepared.neighbour[edge].long(),
            weight[edge],
            1.0 + sum_by_owner(weight[edge].double(), owner, prepared.num_nodes),
            messages,
            gcn.normalised(scores),
        )

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return self.whole.numel()

    @cached_property
    def scale(self) -> Float[Tensor, "nodes"]:
        """Return by what the messages of each node, and their sum, are multiplied."""
        return self.whole.rsqrt().float()

    @cached_property
    def readers(self) -> tuple[Int[Tensor, "offsets"], Int[Tensor, "edges"]]:
        """Return for each node, as offsets and values, the nodes that have it as a neighbour."""
        order = torch.argsort(self.neighbour, stable=True)
        count = torch.bincount(self.neighbour, minlength=self.nodes)
        return offsets_of(count), owners_of(self.row_ptr.diff())[order]

    def with_readers(self, keys: Keys) -> Keys:
        """Add the rows that read some rows of the same state."""
        offsets, reader = self.readers
        state, node = keys // self.nodes, keys % self.nodes
        owner, place = ranges(offsets[node], offsets[node + 1] - offsets[node])
        return torch.unique(torch.cat([keys, state[owner] * self.nodes + reader[place]]))


@torch.no_grad()
def gcn_states(
    convolved: Convolved, prepared: Prepared, prefixes: Prefixes
) -> Float[Tensor, "states classes"]:
    """Return the GCN's probabilities of every state: its target with the first of its edges, in both directions."""
    found = convolved.probabilities[prefixes.node[prefixes.target]]
    partial = (prefixes.length < prefixes.degree[prefixes.target]).nonzero().flatten()
    around = 1.0 + convolved.row_ptr.diff()[prepared.neighbour[prefixes.edge].long()].double()
    cost = sum_by_owner(around, prefixes.owner, prefixes.node.numel())[prefixes.target[partial]]
    part = cost.cumsum(0).div(_WORK_AT_ONCE, rounding_mode="floor")
    sizes = torch.unique_consecutive(part, return_counts=True)[1].tolist() if partial.numel() else []
    ranks = _ranks(convolved, prepared, prefixes)
    for some in partial.split(sizes):
        found[some] = _Part(convolved, prepared, prefixes, some, ranks).probabilities()
    return found


def _ranks(
    convolved: Convolved, prepared: Prepared, prefixes: Prefixes
) -> tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]]:
    """Return the place of each edge in its target's order, and that of its reverse edge; -1 if it has none."""
    edge = prefixes.edge
    rank = torch.full((2, prepared.neighbour.numel()), -1, device=edge.device)
    place = torch.arange(edge.numel(), device=edge.device) - prefixes.first[prefixes.owner]
    reverse = prepared.reverse_edge[edge]
    rank[0, edge] = place
    rank[1, reverse[reverse >= 0]] = place[reverse >= 0]
    return rank[0, convolved.edge], rank[1, convolved.edge]


class _Entries(NamedTuple):
    """The edges of some rows, without those that their state lacks."""

    row: Int[Tensor, "entries"]
    """The place of the row among those asked for."""
    key: Int[Tensor, "entries"]
    """The row of the neighbour in the same state."""
    weight: Float[Tensor, "entries"]


class _Part:
    """Some states that are evaluated together."""

    def __init__(
        self,
        convolved: Convolved,
        prepared: Prepared,
        prefixes: Prefixes,
        states: Int[Tensor, "states"],
        ranks: tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]],
    ) -> None:
        self.convolved, self.ranks = convolved, ranks
        target, self.length = prefixes.target[states], prefixes.length[states]
        self.node = prefixes.node[target]
        self.own = torch.arange(states.numel(), device=states.device) * convolved.nodes + self.node
        self.changed, self.scale = self._degrees(prepared, prefixes, target)

    def _degrees(
        self, prepared: Prepared, prefixes: Prefixes, target: Int[Tensor, "states"]
    ) -> tuple[Keys, Float[Tensor, "rows"]]:
        """Return the rows whose degree changes, and their scale: the targets, and neighbours that are missing."""
        convolved = self.convolved
        weight = torch.zeros(prepared.neighbour.numel(), dtype=torch.double, device=target.device)
        weight[convolved.edge] = convolved.weight.double()
        missing = prefixes.degree[target] - self.length
        state, place = ranges(prefixes.first[target] + self.length, missing)
        edge = prefixes.edge[place]
        reverse, other = prepared.reverse_edge[edge], prepared.neighbour[edge].long()
        back = torch.where(reverse >= 0, weight[reverse.clamp(min=0)], 0.0)
        lost = sum_by_owner(weight[edge], state, target.numel())
        key = torch.cat([self.own, state * convolved.nodes + other])
        whole = torch.cat([convolved.whole[self.node] - lost, convolved.whole[other] - back])
        real = torch.cat([lost != 0, back != 0])
        order = torch.argsort(key[real])
        return key[real][order], whole[real][order].clamp(min=1.0).rsqrt().float()

    def probabilities(self) -> Float[Tensor, "states classes"]:
        """Return the probabilities of the states' targets."""
        gcn, rows = self.convolved.gcn, self._rows()
        known, message = self.changed[:0], self.convolved.messages[0][:0]
        for layer, (keys, entries) in enumerate(rows):
            added = self._add_up(layer, keys, entries, known, message) + gcn.biases[layer]
            if layer + 1 == len(rows):
                return gcn.normalised(added)
            known, message = keys, gcn.next_message(layer, added)
        raise AssertionError("a GCN has layers")

    def _rows(self) -> list[tuple[Keys, _Entries]]:
        """Return, layer by layer, the rows to recompute and their edges.

        The last layer needs the targets, each layer before it also their neighbours. Where not all of them can have
        changed, those that have not are left out.
        """
        count = len(self.convolved.gcn.biases)
        touched = [self.changed]
        for _ in range(count - 2):
            touched.append(self.convolved.with_readers(touched[-1]))
        needed, found = self.own, list[tuple[Keys, _Entries]]()
        for layer in range(count, 0, -1):
            if layer <= count - 2:
                needed = needed[place_in(touched[layer], needed) >= 0]
            entries = self._entries(needed)
            found.append((needed, entries))
            needed = torch.unique(torch.cat([needed, entries.key]))
        return found[::-1]

    def _entries(self, keys: Keys) -> _Entries:
        """Return the edges of some rows that their states have."""
        convolved, nodes = self.convolved, self.convolved.nodes
        state, node = keys // nodes, keys % nodes
        start = convolved.row_ptr[node]
        row, place = ranges(start, convolved.row_ptr[node + 1] - start)
        of = state[row]
        target, length, neighbour = self.node[of], self.length[of], convolved.neighbour[place]
        missing: Bool[Tensor, "entries"] = (node[row] == target) & (self.ranks[0][place] >= length)
        missing |= (neighbour == target) & (self.ranks[1][place] >= length)
        there = (~missing).nonzero().flatten()
        key = (of * nodes + neighbour)[there]
        return _Entries(row[there], key, convolved.weight[place[there]])

    def _scale_of(self, keys: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        place = place_in(self.changed, keys)
        usual = self.convolved.scale[keys % self.convolved.nodes]
        if not self.changed.numel():
            return usual
        return torch.where(place >= 0, self.scale[place.clamp(min=0)], usual)

    def _add_up(
        self, layer: int, keys: Keys, entries: _Entries, known: Keys, message: Float[Tensor, "known width"]
    ) -> Float[Tensor, "rows width"]:
        """Return the normalised sums of some rows; messages that are ``known`` replace those of the whole graph."""
        nodes, mine, usual = self.convolved.nodes, self._scale_of(keys), self.convolved.messages[layer]
        own, there = usual[keys % nodes], place_in(known, keys)
        own[there >= 0] = message[there[there >= 0]]
        total = own * mine.square()[:, None]
        value = entries.weight * self._scale_of(entries.key) * mine[entries.row]
        place = place_in(known, entries.key)
        for table, column, some in (
            (usual, entries.key % nodes, place < 0),
            (message, place, place >= 0),
        ):
            offsets = offsets_of(torch.bincount(entries.row[some], minlength=keys.numel()))
            if bool(some.any()):
                total += add_up(table, offsets, column[some], value[some])
        return total
