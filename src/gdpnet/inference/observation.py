"""The observation of the policy: nodes and candidates as the aggregators see them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.data.features import Features, slice_rows
from gdpnet.data.neighbour_sums import mix_dense_rows
from gdpnet.data.prepare import Prepared
from gdpnet.representation.aggregator import Aggregators
from gdpnet.selection.episodes import Encoded, Episodes, Tables, View
from gdpnet.selection.policy import agreement

_ENCODE_CHUNK = 1 << 12
_ENCODE_CHUNK_ON_DEVICE = 1 << 20
_PROJECT_ROWS = 1 << 17
_ROUND = 16
_COMPARED = 3
"""Number of columns of `_compare`."""


@dataclass(frozen=True)
class NodeRows:
    """All nodes projected by some fold models: one row per fold model and node, in this order."""

    fold_models: slice
    own: Float[Tensor, "rows width"]
    message: Float[Tensor, "table width"]
    """Messages of the nodes; with two hops, of their neighbourhood means, then of the nodes alone."""


@torch.no_grad()
def project_nodes(
    aggregators: Aggregators,
    prepared: Prepared,
    fold_models: slice = slice(0, 1),
    alone: Float[Tensor, "rows width"] | None = None,
) -> NodeRows:
    """Project all nodes; tables share memory where they can.

    ``alone`` are the messages of the nodes without their neighbours, if they are known (`project_alone`).
    """
    count = prepared.num_nodes * len(range(aggregators.fold_models)[fold_models])
    two_hops = prepared.mean_weight is not None
    message = aggregators.bias.new_empty((1 + two_hops) * count, aggregators.width)
    own = message[-count:]
    if alone is None:
        _project_into(own, aggregators.project_message, prepared.features, fold_models)
    else:
        own.copy_(alone)
    if two_hops and prepared.neighbourhood_rows is not None:
        _project_into(message[:count], aggregators.project_message, prepared.neighbourhood_rows, fold_models)
    elif two_hops:  # a mean of projected rows is the projection of the mean
        assert prepared.mean_weight is not None
        links = (prepared.row_ptr, prepared.neighbour, prepared.mean_weight)
        for rows, mixed in zip(
            own.split(prepared.num_nodes), message.split(prepared.num_nodes), strict=False
        ):
            mix_dense_rows(mixed, rows, *links)
    if aggregators.self_weight is not None:
        own = torch.empty_like(own)
        _project_into(own, aggregators.project_own, prepared.features, fold_models)
    return NodeRows(fold_models, own, message)


@torch.no_grad()
def project_alone(
    aggregators: Aggregators, features: Features, fold_models: slice = slice(0, 1)
) -> Float[Tensor, "rows width"]:
    """Return the messages of all nodes without their neighbours, which graphs with equal features share."""
    count = features.shape[0] * len(range(aggregators.fold_models)[fold_models])
    rows = aggregators.bias.new_empty(count, aggregators.width)
    _project_into(rows, aggregators.project_message, features, fold_models)
    return rows


@torch.no_grad()
def make_view(
    aggregators: Aggregators,
    prepared: Prepared,
    fold_models: slice = slice(0, 1),
    rows: NodeRows | None = None,
) -> View:
    """Return the view of a graph by some fold models; projections are reused if ``rows`` has them."""
    observer = _Observer(aggregators, prepared, rows or project_nodes(aggregators, prepared, fold_models))
    return observer.view()


@torch.no_grad()
def make_views(aggregators: Aggregators, prepared: Prepared) -> Callable[[NodeRows], View]:
    """Return a function that makes the view of a graph by one fold model from the rows of some nodes alone.

    Episodes must then name the places of these rows.
    """
    nothing = aggregators.bias.new_zeros(prepared.num_nodes, 0)
    observer = _Observer(aggregators, prepared, NodeRows(slice(0, 1), nothing, nothing))
    return lambda rows: observer.with_rows(rows).view()


class _Observer:
    """Observes nodes and the edges of a block by some fold models."""

    def __init__(self, aggregators: Aggregators, prepared: Prepared, rows: NodeRows) -> None:
        self.aggregators, self.prepared = aggregators, prepared
        self.own, self.message, picked = rows.own, rows.message, rows.fold_models
        self.fold_models = rows.own.shape[0] // prepared.num_nodes
        self.bias, self.head_weight = aggregators.bias[picked], aggregators.head_weight[picked]
        heads = self.head_weight.transpose(1, 2).flatten(0, 1)  # models * classes, width
        # products with few rows are slow: pad with zeros to a round number
        self.heads = F.pad(heads, (0, 0, 0, -heads.shape[0] % _ROUND))
        self.head_bias = aggregators.head_bias[picked].t()  # classes, fold_models
        edges, self.learned = prepared.block, prepared.learned_pairs
        self.share = self.reverse_share = self.trusted = None
        if prepared.mean_weight is not None and prepared.neighbourhood_weight is not None:
            numbers = torch.arange(edges.start, edges.stop, device=prepared.device)
            given = prepared.share_of_target(numbers, prepared.neighbour[edges])
            assert given is not None
            self.share = _without(*given)
            if self.learned:
                weight = prepared.mean_weight[edges]
                whole = prepared.neighbourhood_weight[prepared.block_target]
                self.reverse_share = _without(weight, whole)
                if self.learned > _COMPARED:
                    # the weight of all other edges of each edge's target, and of its neighbour: if a node has no
                    # other edge with weight this one is probably genuine, as few nodes have no genuine edge
                    others = torch.stack([whole - weight, given[1] - given[0]], dim=1)
                    self.trusted = others.clamp(min=1.0).log()

    def view(self) -> View:
        """Return what selection may see."""
        return View(self.encode, self.observe, self.tables())

    def with_rows(self, rows: NodeRows) -> _Observer:
        """Return an observer of the same edges with other rows of nodes."""
        other = copy.copy(self)
        other.own, other.message = rows.own, rows.message
        return other

    def tables(self) -> Tables | None:
        """Return the tables that `observe` reads; None if class probabilities are not a softmax."""
        if not self.aggregators.exclusive:
            return None
        return Tables(
            self.own,
            self.bias.detach(),
            self.head_weight.detach(),
            self.head_bias.t().detach(),
            self.prepared.num_nodes,
            self.aggregators.self_weight is not None,
        )

    @torch.no_grad()
    def observe(
        self, row: Int[Tensor, "n"], total: Float[Tensor, "n width"], kept: Float[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n width"], Float[Tensor, "n classes"]]:
        """Return h of some rows with their kept neighbours, and the class probabilities."""
        state = self.aggregators.embed(self.own.index_select(0, row), total, kept, self._bias_of(row))
        return state, self._probabilities(state, row)

    @torch.no_grad()
    def encode(self, episodes: Episodes) -> Encoded:
        """Encode the candidates of all episodes, in chunks that fit into the cache, or a GPU's memory."""
        count = episodes.row.numel()
        message = self.own.new_empty(count, self.own.shape[1])
        embedded, probabilities = torch.empty_like(message), message.new_empty(count, self.head_bias.shape[0])
        target_row = episodes.target_row.index_select(0, episodes.owner)
        edge = episodes.edge - self.prepared.first_edge
        pairs = self.prepared.pairs.index_select(0, edge)
        chunk = _ENCODE_CHUNK if message.device.type == "cpu" else _ENCODE_CHUNK_ON_DEVICE
        for start in range(0, count, chunk):
            part = slice(start, min(start + chunk, count))
            row = episodes.row[part]
            if self.share is None:
                message[part] = self.message.index_select(0, row)
            else:
                message[part] = self._mix(row, target_row[part], self.share.index_select(0, edge[part]))
            torch.add(message[part], self._offset_of(row), out=embedded[part]).relu_()
            probabilities[part] = self._probabilities(embedded[part], row)
            if self.reverse_share is not None:
                share = self.reverse_share.index_select(0, edge[part])
                neighbourhood = self._mix(target_row[part], row, share)
                neighbourhood = neighbourhood.add_(self._offset_of(target_row[part])).relu_()
                target_probabilities = self._probabilities(neighbourhood, row)
                found = _compare(neighbourhood, target_probabilities, embedded[part], probabilities[part])
                if self.trusted is not None:
                    found = torch.cat([found, self.trusted.index_select(0, edge[part])], dim=1)
                pairs[part, -self.learned :] = found
        if self.prepared.graph_weight is None:
            return Encoded(message, embedded, probabilities, pairs)
        weight = self.prepared.graph_weight.index_select(0, episodes.edge)
        return Encoded(message.mul_(weight[:, None]), embedded, probabilities, pairs, weight)

    def _mix(
        self, row: Int[Tensor, "n"], other: Int[Tensor, "n"], share: Float[Tensor, "n 2"]
    ) -> Float[Tensor, "n width"]:
        """Return a share of each row's neighbourhood plus a share of the other node alone."""
        both = torch.stack([row, other + self.own.shape[0]], dim=1)
        # embedding_bag gathers, weights and adds up in one pass over memory
        return F.embedding_bag(both, self.message, mode="sum", per_sample_weights=share)

    def _offset_of(self, row: Int[Tensor, "n"]) -> Float[Tensor, "*any width"]:
        """Return what is added to a node's neighbourhood: the bias and, with self weights, the node."""
        bias = self._bias_of(row)
        return bias if self.aggregators.self_weight is None else bias + self.own.index_select(0, row)

    def _bias_of(self, row: Int[Tensor, "n"]) -> Float[Tensor, "*any width"]:
        if self.fold_models == 1:
            return self.bias[0]
        return self.bias.index_select(0, row // self.prepared.num_nodes)

    def _probabilities(
        self, state: Float[Tensor, "n width"], row: Int[Tensor, "n"]
    ) -> Float[Tensor, "n classes"]:
        """Return class probabilities, computed class by class since short rows are slow."""
        bias = self.head_bias
        scores = (self.heads @ state.t())[: self.fold_models * bias.shape[0]]  # fold_models * classes, n
        if self.fold_models > 1:
            fold_model = row // self.prepared.num_nodes
            bias = bias.index_select(1, fold_model)
            place = fold_model.expand(1, bias.shape[0], -1)
            scores = scores.unflatten(0, (self.fold_models, -1)).gather(0, place)[0]
        return self.aggregators.to_probabilities(scores + bias, dim=0).t()


def _compare(
    neighbourhood: Float[Tensor, "n width"],
    target_probabilities: Float[Tensor, "n classes"],
    embedded: Float[Tensor, "n width"],
    probabilities: Float[Tensor, "n classes"],
) -> Float[Tensor, "n learned"]:
    """Compare the target's neighbourhood without this neighbour, which is overwritten, with the neighbour.

    Columns: agreement of class probabilities, cosine similarity, the neighbourhood's largest probability.
    """
    # torch's cosine_similarity divides every row first: three times the memory traffic
    lengths = torch.linalg.vector_norm(neighbourhood, dim=1) * torch.linalg.vector_norm(embedded, dim=1)
    cosine = neighbourhood.mul_(embedded).sum(dim=1) / lengths.clamp(min=1e-8)
    return torch.stack(
        [agreement(target_probabilities, probabilities), cosine, target_probabilities.amax(dim=1)], dim=1
    )


def _without(own: Float[Tensor, "block"], whole: Float[Tensor, "block"]) -> Float[Tensor, "block 2"]:
    """Return W / (W - k) and -k / (W - k), which take a node out of a mean as in `Prepared.share_of_target`."""
    return torch.stack([whole, -own], dim=1) / (whole - own).clamp(min=0.5)[:, None]


def _project_into(
    out: Float[Tensor, "rows width"],
    project: Callable[[Features, slice], Tensor],
    features: Features,
    fold_models: slice,
) -> None:
    """Project nodes, a range at a time, into one row per fold model and node, in this order."""
    nodes = features.shape[0]
    for start in range(0, nodes, _PROJECT_ROWS):
        rows = slice(start, min(start + _PROJECT_ROWS, nodes))
        part = project(slice_rows(features, rows), fold_models)  # rows, fold_models, width
        out.unflatten(0, (-1, nodes))[:, rows] = part.transpose(0, 1)
