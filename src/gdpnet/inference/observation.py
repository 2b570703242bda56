"""The observation of the policy: nodes and candidates as the aggregators see them."""

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
def project_nodes(aggregators: Aggregators, prepared: Prepared, fold_models: slice = slice(0, 1)) -> NodeRows:
    """Project all nodes; tables share memory where they can."""
    features, neighbourhood = prepared.features, prepared.neighbourhood
    if prepared.mean_weight is None:
        own = message = _fold_model_rows(aggregators.project_own, features, fold_models)
        if aggregators.self_weight is not None:
            message = _fold_model_rows(aggregators.project_message, features, fold_models)
        return NodeRows(fold_models, own, message)
    count = prepared.num_nodes * len(range(aggregators.fold_models)[fold_models])
    message = aggregators.bias.new_empty(2 * count, aggregators.width)
    _fold_model_rows(aggregators.project_message, neighbourhood, fold_models, message[:count])
    own = _fold_model_rows(aggregators.project_message, features, fold_models, message[count:])
    if aggregators.self_weight is not None:
        own = _fold_model_rows(aggregators.project_own, features, fold_models)
    return NodeRows(fold_models, own, message)


@torch.no_grad()
def make_view(
    aggregators: Aggregators,
    prepared: Prepared,
    fold_models: slice = slice(0, 1),
    rows: NodeRows | None = None,
) -> View:
    """Return the view of a graph by some fold models; projections are reused if ``rows`` has them."""
    observer = _Observer(aggregators, prepared, rows or project_nodes(aggregators, prepared, fold_models))
    return View(observer.encode, observer.observe, observer.tables())


class _Observer:
    """Observes nodes and the edges of a block by some fold models."""

    def __init__(self, aggregators: Aggregators, prepared: Prepared, rows: NodeRows) -> None:
        self.aggregators, self.prepared = aggregators, prepared
        self.own, self.message, self.picked = rows.own, rows.message, rows.fold_models
        fold_models = rows.fold_models
        self.fold_models = rows.own.shape[0] // prepared.num_nodes
        self.share = _share_of_each(prepared)
        self.learned = prepared.learned_pairs
        self.reverse_share = _reverse_share(prepared) if self.learned else None
        self.trusted = _trusted(prepared) if self.learned > _COMPARED else None
        self.bias = aggregators.bias[fold_models]
        heads = aggregators.head_weight[fold_models].transpose(1, 2).flatten(0, 1)  # models * classes, width
        # products with few rows are slow: pad with zeros to a round number
        self.heads = F.pad(heads, (0, 0, 0, -heads.shape[0] % _ROUND))
        self.head_bias = aggregators.head_bias[fold_models].t()  # classes, fold_models

    def tables(self) -> Tables | None:
        """Return the tables that `observe` reads; None if class probabilities are not a softmax."""
        aggregators, fold_models = self.aggregators, self.picked
        if not aggregators.exclusive:
            return None
        return Tables(
            self.own,
            aggregators.bias[fold_models].detach(),
            aggregators.head_weight[fold_models].detach(),
            aggregators.head_bias[fold_models].detach(),
            self.prepared.num_nodes,
            aggregators.self_weight is not None,
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
            message[part] = self._give(row, target_row[part], edge[part])
            torch.add(message[part], self._offset_of(row), out=embedded[part]).relu_()
            probabilities[part] = self._probabilities(embedded[part], row)
            if self.reverse_share is not None:
                neighbourhood = self._mix(
                    target_row[part], row, self.reverse_share.index_select(0, edge[part])
                )
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

    def _give(
        self, row: Int[Tensor, "n"], target_row: Int[Tensor, "n"], edge: Int[Tensor, "n"]
    ) -> Float[Tensor, "n width"]:
        if self.share is None:
            return self.message.index_select(0, row)
        return self._mix(row, target_row, self.share.index_select(0, edge))

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
        return (
            self.bias[0]
            if self.fold_models == 1
            else self.bias.index_select(0, row // self.prepared.num_nodes)
        )

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


def _reverse_share(prepared: Prepared) -> Float[Tensor, "block 2"] | None:
    """Return the weights that take the neighbour out of the target's neighbourhood mean."""
    if prepared.mean_weight is None or prepared.neighbourhood_weight is None:
        return None
    weight = prepared.mean_weight[prepared.block]
    whole = prepared.neighbourhood_weight[prepared.block_target]
    return torch.stack([whole, -weight], dim=1) / (whole - weight).clamp(min=0.5)[:, None]


def _trusted(prepared: Prepared) -> Float[Tensor, "block 2"] | None:
    """Return the logarithm of the weight of all other edges of each edge's target, and of its neighbour.

    If a node has no other edge with weight this one is probably genuine, as few nodes have no genuine edge.
    """
    share = _share_of_block(prepared)
    if share is None or prepared.mean_weight is None or prepared.neighbourhood_weight is None:
        return None
    own, whole = share
    of_target = prepared.neighbourhood_weight[prepared.block_target] - prepared.mean_weight[prepared.block]
    return torch.stack([of_target, whole - own], dim=1).clamp(min=1.0).log()


def _share_of_each(prepared: Prepared) -> Float[Tensor, "block 2"] | None:
    """Return W / (W - k) and -k / (W - k), which take the target out of a mean as in `message_to_target`."""
    share = _share_of_block(prepared)
    if share is None:
        return None
    own, whole = share
    return torch.stack([whole, -own], dim=1) / (whole - own).clamp(min=0.5)[:, None]


def _share_of_block(prepared: Prepared) -> tuple[Float[Tensor, "block"], Float[Tensor, "block"]] | None:
    """Return the weight of each edge's target in its neighbour's mean, and the whole weight of the mean."""
    edges = prepared.block
    numbers = torch.arange(edges.start, edges.stop, device=prepared.device)
    return prepared.share_of_target(numbers, prepared.neighbour[edges])


def _fold_model_rows(
    project: Callable[[Features, slice], Tensor],
    features: Features,
    fold_models: slice,
    out: Tensor | None = None,
) -> Float[Tensor, "rows width"]:
    """Project nodes, a range at a time, into one row per fold model and node, in this order."""
    nodes = features.shape[0]
    for start in range(0, nodes, _PROJECT_ROWS):
        rows = slice(start, min(start + _PROJECT_ROWS, nodes))
        part = project(slice_rows(features, rows), fold_models)  # rows, fold_models, width
        if out is None:
            out = part.new_empty(part.shape[1] * nodes, part.shape[2])
        out.unflatten(0, (-1, nodes))[:, rows] = part.transpose(0, 1)
    assert out is not None
    return out
