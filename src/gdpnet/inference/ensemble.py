"""The ensemble of heads, each with its weight: those of selected neighbours, of all edges, and of a node alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges, sum_by_owner
from gdpnet._core.device import at_once
from gdpnet.data.features import Features, add_up, take_rows
from gdpnet.data.neighbour_sums import mix_dense, mix_into
from gdpnet.data.prepare import Prepared
from gdpnet.data.sums_in_parts import mix_in_parts
from gdpnet.inference.networks import Networks
from gdpnet.inference.select import Selected, edges_of, with_neighbours
from gdpnet.inference.threshold import KEEP_ALL, edge_weights
from gdpnet.representation.aggregator import Aggregators, HopwiseNetwork
from gdpnet.representation.all_edges import adjacency_of
from gdpnet.representation.gcn import NormalisedAdjacency
from gdpnet.representation.sparse import times

_EDGES_AT_ONCE, _MOST_EDGES_ON_DEVICE = 1 << 17, 1 << 20
"""Edges whose messages are added up at a time, which bounds the memory."""
_TARGETS_AT_ONCE = 1 << 14


HEAD_NAMES = {
    "aggregator": "aggregator",
    "hopwise": "hop-wise head",
    "gcn": "GCN head",
    "all_edges": "all-edges head",
    "trees": "trees head",
    "linear": "linear head",
}
"""The heads as they are called in text."""


class HeadWeights(NamedTuple):
    """The weight of each head in the ensemble; they add up to one."""

    aggregator: float = 1.0
    hopwise: float = 0.0
    gcn: float = 0.0
    all_edges: float = 0.0
    trees: float = 0.0
    linear: float = 0.0

    def __str__(self) -> str:
        named = {HEAD_NAMES[name]: weight for name, weight in self._asdict().items() if weight > 0}
        return ", ".join(f"{name} {weight:.2f}" for name, weight in named.items())

    def with_hopwise(self, share: float) -> HeadWeights:
        """Give the hop-wise head a share of the aggregator's weight."""
        return self._replace(aggregator=self.aggregator * (1.0 - share), hopwise=self.aggregator * share)

    def with_gcn(self, weight: float) -> HeadWeights:
        """Give the GCN head a weight, taken from the others in proportion."""
        return self.with_head("gcn", weight)

    def with_head(self, name: str, weight: float) -> HeadWeights:
        """Give a head a weight, taken from the others in proportion."""
        rest = {other: own * (1.0 - weight) for other, own in self._asdict().items()}
        return HeadWeights(**rest | {name: weight})


class Ensemble:
    """Class probabilities are the weighted mean over the heads; embeddings are those of one head.

    The aggregator and the hop-wise head see the selected neighbours of a target (`local`). The GCN head sees the
    cleaned graph, the all-edges head the graph as it is, and the trees and the linear head the target's own features.
    """

    def __init__(self, networks: Networks, weights: HeadWeights, threshold: float) -> None:
        self.networks, self.weights, self.threshold = networks, weights, threshold

    @property
    def uses_gcn(self) -> bool:
        """Return whether the GCN head has a part in predictions."""
        return self.weights.gcn > 0

    def receptive_field(self, prepared: Prepared, nodes: Int[Tensor, "nodes"]) -> Int[Tensor, "needed"]:
        """Return the nodes whose decisions affect the probabilities of some nodes.

        If the cleaned graph keeps every edge, the GCN head reads all edges alike, whatever was decided.
        """
        if self.networks.gcn is None or not self.uses_gcn or self.threshold == KEEP_ALL:
            return nodes
        return receptive_field(prepared, nodes, len(self.networks.gcn.weights))

    def cleaned_weight(self, chosen: Selected) -> Float[Tensor, "edges"]:
        """Return the weight of each edge in the cleaned graph that the GCN head reads."""
        return cleaned_weight(chosen, self.threshold)

    def gcn_of(self, prepared: Prepared, weight: Float[Tensor, "edges"]) -> Float[Tensor, "nodes classes"]:
        """Return the GCN head's class probabilities of all nodes, given the weights of the cleaned graph's edges."""
        assert self.networks.gcn is not None
        adjacency = NormalisedAdjacency.of(prepared.row_ptr, prepared.neighbour, weight)
        return self.networks.gcn.to_probabilities(prepared.features, adjacency)

    @torch.no_grad()
    def local(
        self, prepared: Prepared, targets: Int[Tensor, "targets"], edge_weight: Float[Tensor, "block"]
    ) -> tuple[Float[Tensor, "targets width"], Float[Tensor, "targets classes"]]:
        """Return embeddings of some targets, and class probabilities without the GCN head.

        Embeddings are those of the first aggregator, or of the hop-wise network where that replaced it.
        """
        aggregators, hopwise = self.networks.aggregators, self.networks.hopwise
        weight, other = self.weights.aggregator, self.weights.hopwise
        found = []
        if weight > 0 or other == 0 or hopwise is None:
            found.append(aggregate(aggregators, prepared, targets, edge_weight))
        if other > 0 and hopwise is not None:
            found.append(aggregate(hopwise, prepared, targets, edge_weight))
        embedded, probabilities = found[0]
        if len(found) == 2:
            probabilities = torch.lerp(probabilities, found[1][1], other / (weight + other))
        return embedded, probabilities

    def probabilities(
        self,
        selected: Selected,
        targets: Int[Tensor, "targets"],
        mode: str,
        known: dict[str, Float[Tensor, "targets classes"]] | None = None,
    ) -> Float[Tensor, "targets classes"]:
        """Return the class probabilities of some targets whose edges are decided on.

        ``known`` has those of some of the further heads.
        """
        return self.add_others(self._locally(selected, targets, mode), self._others(selected, targets, known))

    def _locally(
        self, selected: Selected, targets: Int[Tensor, "targets"], mode: str
    ) -> Float[Tensor, "targets classes"]:
        return self.local(selected.prepared, targets, selected.weight(mode))[1]

    def add_others(
        self,
        local: Float[Tensor, "targets classes"],
        others: dict[str, Float[Tensor, "targets classes"]],
    ) -> Float[Tensor, "targets classes"]:
        """Mix the probabilities of further heads, under their names, into those of `local`."""
        found, weight = local, self.weights.aggregator + self.weights.hopwise
        for name, one in others.items():
            weight += getattr(self.weights, name)
            found = torch.lerp(found, one, getattr(self.weights, name) / weight)
        return found

    @torch.no_grad()
    def _others(
        self,
        selected: Selected,
        targets: Int[Tensor, "targets"],
        known: dict[str, Float[Tensor, "targets classes"]] | None = None,
    ) -> dict[str, Float[Tensor, "targets classes"]]:
        """Return the probabilities by each further head that has a weight; ``known`` ones are not computed."""
        found = dict(known or {})
        prepared = selected.prepared
        if "gcn" not in found and self.networks.gcn is not None and self.uses_gcn:
            found["gcn"] = self.gcn_of(prepared, self.cleaned_weight(selected))[targets]
        network = self.networks.all_edges
        if "all_edges" not in found and network is not None and self.weights.all_edges > 0:
            message = times(prepared.features, network.weight)
            found["all_edges"] = network.from_messages(message, adjacency_of(prepared))[targets]
        return found | self.alone(prepared, targets)

    @torch.no_grad()
    def alone(
        self, prepared: Prepared, targets: Int[Tensor, "targets"]
    ) -> dict[str, Float[Tensor, "targets classes"]]:
        """Return the probabilities by each head that reads a node's own features and has a weight."""
        heads = {"trees": self.networks.trees, "linear": self.networks.linear}
        return {
            name: head.to_probabilities(own_columns(prepared, targets))
            for name, head in heads.items()
            if head is not None and getattr(self.weights, name) > 0
        }

    def by_head(
        self,
        selected: Selected,
        targets: Int[Tensor, "targets"],
        mode: str,
        known: dict[str, Float[Tensor, "nodes classes"]] | None = None,
    ) -> dict[str, Float[Tensor, "targets classes"]]:
        """Return the class probabilities of some targets by each head that has a weight, under the head's name.

        ``known`` has those of some heads for all nodes.
        """
        heads = {"aggregator": self.networks.aggregators, "hopwise": self.networks.hopwise}
        found = {
            name: aggregate(head, selected.prepared, targets, selected.weight(mode))[1]
            for name, head in heads.items()
            if head is not None and getattr(self.weights, name) > 0
        }
        return found | self._others(
            selected, targets, {name: one[targets] for name, one in (known or {}).items()}
        )

    def mix(self, heads: dict[str, Float[Tensor, "targets classes"]]) -> Float[Tensor, "targets classes"]:
        """Return `probabilities` from what `by_head` returned."""
        weights, first = self.weights, [heads[name] for name in ("aggregator", "hopwise") if name in heads]
        others = {name: one for name, one in heads.items() if name not in ("aggregator", "hopwise")}
        found = first[0] if first else next(iter(others.values()))
        if len(first) == 2:
            found = torch.lerp(found, first[1], weights.hopwise / (weights.aggregator + weights.hopwise))
        return self.add_others(found, others)


def own_columns(prepared: Prepared, nodes: Int[Tensor, "nodes"]) -> Float[Tensor, "nodes features"]:
    """Return the features of some nodes as they were before they were normalised."""
    own = prepared.features if prepared.own is None else prepared.own
    assert isinstance(own, Tensor), "these heads read dense features"
    return own[nodes.to(own.device)].to(prepared.device, torch.float32)


def cleaned_weight(chosen: Selected, threshold: float) -> Float[Tensor, "edges"]:
    """Return the weight of each edge in the cleaned graph; candidates beyond neighbours are not in it."""
    prepared = chosen.prepared
    probability = prepared.symmetrise(chosen.probability)
    return prepared.weighed(edge_weights(probability, threshold)) * prepared.linked


def cleaned_adjacency(chosen: Selected, threshold: float) -> NormalisedAdjacency:
    """Return the adjacency matrix of the cleaned graph, normalised."""
    prepared, weight = chosen.prepared, cleaned_weight(chosen, threshold)
    return NormalisedAdjacency.of(prepared.row_ptr, prepared.neighbour, weight)


def receptive_field(
    prepared: Prepared, targets: Int[Tensor, "targets"], layers: int
) -> Int[Tensor, "around"]:
    """Return the nodes whose decisions affect the GCN's output for some targets.

    One hop per layer, and one more: messages are scaled by the degree, which depends on both ends of every edge.
    """
    around = torch.unique(targets)
    for _ in range(layers + 1):
        if around.numel() == prepared.num_nodes:
            break
        around = with_neighbours(prepared, around)
    return around


@torch.no_grad()
def aggregate(
    network: Aggregators | HopwiseNetwork,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "block"],
) -> tuple[Float[Tensor, "targets width"], Float[Tensor, "targets classes"]]:
    """Return the first fold model's embeddings of some targets, and the mean of all fold models' probabilities."""
    embedded, probabilities = [], []
    for part in torch.split(targets, _TARGETS_AT_ONCE):
        if isinstance(network, Aggregators):
            hidden, found = embed_fold_models(network, prepared, part, edge_weight)
        else:
            hidden = network.embed(hop_features(prepared, part, edge_weight))
            found = network.fold_probabilities(hidden)
        embedded.append(hidden[:, 0])
        probabilities.append(found.mean(dim=1))
    return torch.cat(embedded), torch.cat(probabilities)


def hop_features(
    prepared: Prepared, targets: Int[Tensor, "targets"], edge_weight: Float[Tensor, "block"]
) -> list[Features]:
    """Return the input of the hop-wise network: features of the targets, and their means over each hop.

    With two-hop neighbourhoods the last entry is the mean over the first hop and the neighbours' own means.
    """
    edge, owner, weight = _weighed_edges(prepared, targets, edge_weight)
    row_ptr = offsets_of(torch.bincount(owner, minlength=targets.numel()))
    links = (row_ptr, prepared.neighbour[edge], weight)
    own = prepared.features_of(targets)
    if prepared.readers is not None:
        first = mix_in_parts(own, prepared.features_of, *links)
    else:
        first = mix_into(own, prepared.features, *links)
    if prepared.mean_weight is None:
        return [own, first]
    if prepared.readers is not None:
        return [own, first, mix_in_parts(first, prepared.neighbourhood_of, *links)]
    return [own, first, mix_into(first, *_messages(prepared, links[1], row_ptr), weight)]


def _messages(
    prepared: Prepared, neighbour: Int[Tensor, "edges"], row_ptr: Int[Tensor, "offsets"]
) -> tuple[Features, Int[Tensor, "offsets"], Int[Tensor, "edges"]]:
    """Return the neighbourhood means of some neighbours, the offsets, and the neighbours' places among the means.

    The means of all nodes are not computed for a few targets.
    """
    nodes = torch.unique(neighbour)
    if prepared.has_neighbourhood or 2 * nodes.numel() > prepared.num_nodes:
        return prepared.neighbourhood, row_ptr, neighbour
    return prepared.neighbourhood_of(nodes), row_ptr, torch.searchsorted(nodes, neighbour)


def _weighed_edges(
    prepared: Prepared, targets: Int[Tensor, "targets"], edge_weight: Float[Tensor, "block"]
) -> tuple[Int[Tensor, "edges"], Int[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Return the targets' edges with a positive weight, their owners, and their weights in a mean."""
    owner, edge = edges_of(prepared, targets)
    share = edge_weight[edge - prepared.first_edge]
    kept = share > 0
    edge, owner, weight = edge[kept], owner[kept], share[kept]
    return edge, owner, weight if prepared.graph_weight is None else weight * prepared.graph_weight[edge]


def embed_fold_models(
    aggregators: Aggregators,
    prepared: Prepared,
    targets: Int[Tensor, "targets"],
    edge_weight: Float[Tensor, "block"],
) -> tuple[Float[Tensor, "targets fold_models width"], Float[Tensor, "targets fold_models classes"]]:
    """Return the embeddings and class probabilities of every fold model."""
    edge, owner, weight = _weighed_edges(prepared, targets, edge_weight)
    own_rows = prepared.features_of(targets)
    own = aggregators.project_own(own_rows)
    single = own if aggregators.self_weight is None else aggregators.project_message(own_rows)
    total, whole = torch.zeros_like(own), own.new_zeros(targets.numel())
    most = edges_at_once(aggregators, prepared, _EDGES_AT_ONCE)
    for some, of, by in zip(*(part.split(most) for part in (edge, owner, weight)), strict=True):
        nodes, place = torch.unique(prepared.neighbour[some], return_inverse=True)
        neighbourhood = _project_neighbourhoods(aggregators, prepared, nodes).flatten(1)
        row_ptr = offsets_of(torch.bincount(of, minlength=targets.numel()))
        whole = whole + sum_by_owner(by, of, targets.numel())
        share = prepared.share_of_target(some, prepared.neighbour[some])
        if share is not None:  # the target is taken out of all its messages at once, as in `share_of_target`
            part = by / (share[1] - share[0]).clamp(min=0.5)
            taken_out = sum_by_owner(part * share[0], of, targets.numel())
            total.addcmul_(taken_out[:, None, None], single, value=-1.0)
        counted = by if share is None else part * share[1]
        total.add_(add_up(neighbourhood, row_ptr, place, counted).view_as(total))
    embedded = aggregators.embed(own, total, whole, aggregators.bias)
    return embedded, aggregators.to_probabilities(aggregators.logits(embedded), dim=2)


def edges_at_once(aggregators: Aggregators, prepared: Prepared, on_cpu: int) -> int:
    """Return how many edges are computed at a time.

    For each of them every fold model has a message, a mean, and a row of each neighbour that the mean is over.
    """
    around = prepared.neighbour.numel() / max(1, prepared.num_nodes)
    each = 4 * aggregators.fold_models * aggregators.width * (2 + around)
    return at_once(prepared.device, on_cpu, _MOST_EDGES_ON_DEVICE, each)


def _project_neighbourhoods(
    aggregators: Aggregators, prepared: Prepared, nodes: Int[Tensor, "nodes"]
) -> Float[Tensor, "nodes fold_models width"]:
    """Return the messages of some nodes by every fold model, as means of projected rows."""
    if prepared.is_neighbourhood_given:
        return aggregators.project_message(prepared.neighbourhood_of(nodes))
    assert prepared.mean_weight is not None
    start, end = prepared.row_ptr[nodes], prepared.row_ptr[nodes + 1]
    edge = ranges(start, end - start)[1]
    around, place = torch.unique(torch.cat([nodes, prepared.neighbour[edge]]), return_inverse=True)
    rows = aggregators.project_message(take_rows(prepared.features, around)).flatten(1)
    links = (offsets_of(end - start), place[nodes.numel() :], prepared.mean_weight[edge])
    mixed = mix_dense(rows[place[: nodes.numel()]], rows, *links)
    return mixed.unflatten(1, (aggregators.fold_models, aggregators.width))
