"""What the policy is shown of representation: nodes as the aggregators see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.data.features import Features, slice_rows
from gdpnet.data.prepare import Prepared
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.episodes import Episodes, Met, Tables, View
from gdpnet.selection.policy import agreement

_MEET_CHUNK = 1 << 12
_MEET_CHUNK_ON_DEVICE = 1 << 20
_PROJECT_ROWS = 1 << 17
_ROUND = 16
_COMPARED = 3
"""Columns that `_compare` fills."""


@dataclass(frozen=True)
class NodeRows:
    """All nodes as some members see them, projected once: a row for each node and member, member by member."""

    members: slice
    own: Float[Tensor, "rows width"]
    given: Float[Tensor, "table width"]
    """What nodes give; with two hops what their circles give, and below that the nodes by themselves."""


@torch.no_grad()
def project_nodes(aggregators: Aggregators, prepared: Prepared, members: slice = slice(0, 1)) -> NodeRows:
    """Project all nodes; tables lie in one another where they can, so that a node takes as little as it may."""
    features, circle = prepared.features, prepared.circle
    if prepared.edge_weight is None:
        own = given = _member_rows(aggregators.project_own, features, members)
        if aggregators.self_weight is not None:
            given = _member_rows(aggregators.project_given, features, members)
        return NodeRows(members, own, given)
    count = prepared.num_nodes * len(range(aggregators.members)[members])
    given = aggregators.bias.new_empty(2 * count, aggregators.width)
    _member_rows(aggregators.project_given, circle, members, given[:count])
    own = _member_rows(aggregators.project_given, features, members, given[count:])
    if aggregators.self_weight is not None:
        own = _member_rows(aggregators.project_own, features, members)
    return NodeRows(members, own, given)


@torch.no_grad()
def make_view(
    aggregators: Aggregators,
    prepared: Prepared,
    members: slice = slice(0, 1),
    rows: NodeRows | None = None,
) -> View:
    """Lay out what the policy sees of the members asked for; nodes that are projected already are taken over."""
    sight = _Sight(aggregators, prepared, rows or project_nodes(aggregators, prepared, members))
    return View(sight.meet, sight.observe, sight.tables())


class _Sight:
    """Nodes as some members see them, and the edges of a block."""

    def __init__(self, aggregators: Aggregators, prepared: Prepared, rows: NodeRows) -> None:
        self.aggregators, self.prepared = aggregators, prepared
        self.own, self.given, self.picked = rows.own, rows.given, rows.members
        members = rows.members
        self.members = rows.own.shape[0] // prepared.num_nodes
        self.share = _share_of_each(prepared)
        self.learned = prepared.learned_pairs
        self.share_back = _share_back(prepared) if self.learned else None
        self.trusted = _trusted(prepared) if self.learned > _COMPARED else None
        self.bias = aggregators.bias[members]
        heads = aggregators.head_weight[members].transpose(1, 2).flatten(0, 1)  # members * classes, width
        # products with a few rows are slow: zeros fill them up to a round number
        self.heads = F.pad(heads, (0, 0, 0, -heads.shape[0] % _ROUND))
        self.head_bias = aggregators.head_bias[members].t()  # classes, members

    def tables(self) -> Tables | None:
        """Return what `observe` computes with; nothing where beliefs are not a softmax, which tables stand for."""
        bank, members = self.aggregators, self.picked
        if not bank.exclusive:
            return None
        return Tables(
            self.own,
            bank.bias[members].detach(),
            bank.head_weight[members].detach(),
            bank.head_bias[members].detach(),
            self.prepared.num_nodes,
            bank.self_weight is not None,
        )

    @torch.no_grad()
    def observe(
        self, row: Int[Tensor, "n"], total: Float[Tensor, "n width"], kept: Float[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n width"], Float[Tensor, "n classes"]]:
        """Return h of some rows with what they kept, and the class probabilities that follow."""
        state = self.aggregators.embed(self.own.index_select(0, row), total, kept, self._bias_of(row))
        return state, self._believe(state, row)

    @torch.no_grad()
    def meet(self, episodes: Episodes) -> Met:
        """Return the candidates as their targets meet them, in chunks that fit the cache, or a GPU's memory."""
        count = episodes.row.numel()
        given = self.own.new_empty(count, self.own.shape[1])
        embedded, beliefs = torch.empty_like(given), given.new_empty(count, self.head_bias.shape[0])
        target_row = episodes.target_row.index_select(0, episodes.owner)
        edge = episodes.edge - self.prepared.first_edge
        pairs = self.prepared.pairs.index_select(0, edge)
        chunk = _MEET_CHUNK if given.device.type == "cpu" else _MEET_CHUNK_ON_DEVICE
        for start in range(0, count, chunk):
            part = slice(start, min(start + chunk, count))
            row = episodes.row[part]
            given[part] = self._give(row, target_row[part], edge[part])
            torch.add(given[part], self._offset_of(row), out=embedded[part]).relu_()
            beliefs[part] = self._believe(embedded[part], row)
            if self.share_back is not None:
                circle = self._mix(target_row[part], row, self.share_back.index_select(0, edge[part]))
                circle = circle.add_(self._offset_of(target_row[part])).relu_()
                belief = self._believe(circle, row)
                found = _compare(circle, belief, embedded[part], beliefs[part])
                if self.trusted is not None:
                    found = torch.cat([found, self.trusted.index_select(0, edge[part])], dim=1)
                pairs[part, -self.learned :] = found
        if self.prepared.given_weight is None:
            return Met(given, embedded, beliefs, pairs)
        weight = self.prepared.given_weight.index_select(0, episodes.edge)
        return Met(given.mul_(weight[:, None]), embedded, beliefs, pairs, weight)

    def _give(
        self, row: Int[Tensor, "n"], target_row: Int[Tensor, "n"], edge: Int[Tensor, "n"]
    ) -> Float[Tensor, "n width"]:
        if self.share is None:
            return self.given.index_select(0, row)
        return self._mix(row, target_row, self.share.index_select(0, edge))

    def _mix(
        self, row: Int[Tensor, "n"], other: Int[Tensor, "n"], share: Float[Tensor, "n 2"]
    ) -> Float[Tensor, "n width"]:
        """Return a share of each row's circle plus a share of the other node by itself."""
        both = torch.stack([row, other + self.own.shape[0]], dim=1)
        # a bag of embeddings: gather, weight and add up in one pass over memory
        return F.embedding_bag(both, self.given, mode="sum", per_sample_weights=share)

    def _offset_of(self, row: Int[Tensor, "n"]) -> Float[Tensor, "*any width"]:
        """Return what is added to the circle of a node to see it as its classifier does."""
        bias = self._bias_of(row)
        return bias if self.aggregators.self_weight is None else bias + self.own.index_select(0, row)

    def _bias_of(self, row: Int[Tensor, "n"]) -> Float[Tensor, "*any width"]:
        return (
            self.bias[0] if self.members == 1 else self.bias.index_select(0, row // self.prepared.num_nodes)
        )

    def _believe(self, state: Float[Tensor, "n width"], row: Int[Tensor, "n"]) -> Float[Tensor, "n classes"]:
        """Return class probabilities; classes lie first on the way, since rows of a few numbers are slow."""
        bias = self.head_bias
        scores = (self.heads @ state.t())[: self.members * bias.shape[0]]  # members * classes, n
        if self.members > 1:
            member = row // self.prepared.num_nodes
            bias = bias.index_select(1, member)
            place = member.expand(1, bias.shape[0], -1)
            scores = scores.unflatten(0, (self.members, -1)).gather(0, place)[0]
        return self.aggregators.believe(scores + bias, dim=0).t()


def _compare(
    circle: Float[Tensor, "n width"],
    belief: Float[Tensor, "n classes"],
    embedded: Float[Tensor, "n width"],
    beliefs: Float[Tensor, "n classes"],
) -> Float[Tensor, "n learned"]:
    """Compare what the target's circle says, without this neighbour, with what the neighbour gives.

    The circle's rows are overwritten.
    """
    # torch's own cosine divides every row before it multiplies: three times the traffic
    lengths = torch.linalg.vector_norm(circle, dim=1) * torch.linalg.vector_norm(embedded, dim=1)
    cosine = circle.mul_(embedded).sum(dim=1) / lengths.clamp(min=1e-8)
    return torch.stack([agreement(belief, beliefs), cosine, belief.amax(dim=1)], dim=1)


def _share_back(prepared: Prepared) -> Float[Tensor, "block 2"] | None:
    """Return the weights of the target's circle and of the neighbour in that circle without the neighbour."""
    if prepared.edge_weight is None or prepared.circle_weight is None:
        return None
    weight = prepared.edge_weight[prepared.block]
    whole = prepared.circle_weight[prepared.block_target]
    return torch.stack([whole, -weight], dim=1) / (whole - weight).clamp(min=0.5)[:, None]


def _trusted(prepared: Prepared) -> Float[Tensor, "block 2"] | None:
    """Return how much weight the other links of each edge's target, and of its neighbour, have; in logarithms.

    A node none of whose other links is trusted likely has this one for its own: hardly any node has no true link.
    """
    share = _share_of_block(prepared)
    if share is None or prepared.edge_weight is None or prepared.circle_weight is None:
        return None
    own, whole = share
    of_target = prepared.circle_weight[prepared.block_target] - prepared.edge_weight[prepared.block]
    return torch.stack([of_target, whole - own], dim=1).clamp(min=1.0).log()


def _share_of_each(prepared: Prepared) -> Float[Tensor, "block 2"] | None:
    """Return the weights of the neighbour's circle and of the target in what an edge gives.

    They are W / (W - k) and -k / (W - k), as in `given_to_target`.
    """
    share = _share_of_block(prepared)
    if share is None:
        return None
    own, whole = share
    return torch.stack([whole, -own], dim=1) / (whole - own).clamp(min=0.5)[:, None]


def _share_of_block(prepared: Prepared) -> tuple[Float[Tensor, "block"], Float[Tensor, "block"]] | None:
    """Return for each edge the target's weight in its neighbour's circle, and the circle's whole weight."""
    edges = prepared.block
    everything = torch.arange(edges.start, edges.stop, device=prepared.device)
    return prepared.share_of_target(everything, prepared.neighbour[edges])


def _member_rows(
    project: Callable[[Features, slice], Tensor],
    features: Features,
    members: slice,
    out: Tensor | None = None,
) -> Float[Tensor, "rows width"]:
    """Project nodes, a range at a time, into a table of one row for each node and member, member by member."""
    nodes = features.shape[0]
    for start in range(0, nodes, _PROJECT_ROWS):
        rows = slice(start, min(start + _PROJECT_ROWS, nodes))
        part = project(slice_rows(features, rows), members)  # rows, members, width
        if out is None:
            out = part.new_empty(part.shape[1] * nodes, part.shape[2])
        out.unflatten(0, (-1, nodes))[:, rows] = part.transpose(0, 1)
    assert out is not None
    return out
