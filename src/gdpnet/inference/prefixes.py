"""The ensemble's probabilities of one node as its neighbours are added one after the other.

The first state is the node alone, the last one the node with all its neighbours: what the model predicts. All states
are evaluated together: the aggregator and the hop-wise head see copies of the node, each with a prefix of its
neighbours; the GCN head sees copies of the cleaned graph around the node, and the all-edges head of the graph as it
is. The trees and the linear head read the node's own features, which no neighbour changes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges
from gdpnet.data.features import take_rows
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import Ensemble, cleaned_weight, receptive_field
from gdpnet.inference.select import Selected, edges_of
from gdpnet.representation.all_edges import AllEdgesNetwork
from gdpnet.representation.gcn import GCN, NormalisedAdjacency
from gdpnet.representation.sparse import times

MOST_STATES = 256
"""States that are evaluated after the first; a node with more neighbours has them added in groups."""

_EDGES_AT_ONCE = 1 << 20


def prefix_lengths(degree: int, device: torch.device) -> Int[Tensor, "states"]:
    """Return how many neighbours each state has: from none to all, one more each, or groups if there are many."""
    steps = min(degree, MOST_STATES)
    return torch.arange(steps + 1, device=device) * degree // max(steps, 1)


@torch.no_grad()
def prefix_probabilities(
    ensemble: Ensemble,
    selected: Selected,
    node: int,
    edge: Int[Tensor, "degree"],
    length: Int[Tensor, "states"],
    mode: str,
) -> Float[Tensor, "states classes"]:
    """Return the class probabilities of a node with the first ``length`` of its edges, in the order of ``edge``."""
    star, weight = _star(selected.prepared, node, edge, length, selected.weight(mode))
    copies = edge.numel() + torch.arange(length.numel(), device=edge.device)
    found = ensemble.local(star, copies, weight)[1]
    given, others = (node, edge, length), {}
    gcn, network = ensemble.networks.gcn, ensemble.networks.all_edges
    if gcn is not None and ensemble.uses_gcn:
        cleaned = cleaned_weight(selected, ensemble.threshold)
        others["gcn"] = _gcn_states(gcn, selected.prepared, cleaned, *given)
    if network is not None and ensemble.weights.all_edges > 0:
        everything = selected.prepared.weighed(selected.prepared.linked)
        others["all_edges"] = _gcn_states(network, selected.prepared, everything, *given)
    alone = ensemble.alone(selected.prepared, torch.tensor([node], device=edge.device))
    others |= {name: one.expand_as(found) for name, one in alone.items()}  # no neighbour changes these
    return ensemble.add_others(found, others)


def _star(
    prepared: Prepared,
    node: int,
    edge: Int[Tensor, "degree"],
    length: Int[Tensor, "states"],
    share: Float[Tensor, "edges"],
) -> tuple[Prepared, Float[Tensor, "new_edges"]]:
    """Return a graph of a node's neighbours and one copy of the node per state, and the shares of its edges.

    Each neighbour has one edge, from the node, which says how much of its neighbourhood mean is the node's.
    """
    degree, place = edge.numel(), ranges(torch.zeros_like(length), length)[1]
    nodes = torch.cat([prepared.neighbour[edge].long(), torch.full_like(length, node)])
    reverse = prepared.reverse_edge[edge - prepared.first_edge]
    rows = torch.full_like(edge, degree)

    def both(back: Tensor, value: Tensor) -> Tensor:
        return torch.cat([back, value[edge][place]])

    mean, whole, own = prepared.mean_weight, prepared.neighbourhood_weight, prepared.graph_weight
    if mean is not None:
        mean = both(torch.where(reverse >= 0, mean[reverse.clamp(min=0)], 0.0), mean)
    star = replace(
        prepared,
        row_ptr=offsets_of(torch.cat([torch.ones_like(edge), length])),
        neighbour=torch.cat([rows, place]),
        reverse_edge=torch.cat([torch.full_like(edge, -1), place]),
        features=take_rows(prepared.features, nodes),
        pairs=prepared.pairs.new_zeros(degree + place.numel(), 0),
        neighbourhood=take_rows(prepared.neighbourhood, nodes),
        mean_weight=mean,
        neighbourhood_weight=None if whole is None else whole[nodes],
        first_edge=0,
        edge=None,
        graph_weight=None if own is None else both(torch.ones(degree, device=edge.device), own),
    )
    return star, both(torch.zeros(degree, device=edge.device), share)


def _gcn_states(
    gcn: GCN | AllEdgesNetwork,
    prepared: Prepared,
    weight: Float[Tensor, "edges"],
    node: int,
    edge: Int[Tensor, "degree"],
    length: Int[Tensor, "states"],
) -> Float[Tensor, "states classes"]:
    """Return a network's probabilities of a node with a prefix of its edges, in both directions, per state."""
    around = receptive_field(prepared, torch.tensor([node], device=edge.device), len(gcn.weights))
    owner, inside = edges_of(prepared, around)
    number = torch.full((prepared.num_nodes,), -1, device=edge.device)
    number[around] = torch.arange(around.numel(), device=edge.device)
    used = (number[prepared.neighbour[inside]] >= 0) & (weight[inside] != 0)
    owner, inside = owner[used], inside[used]
    neighbour, weight = number[prepared.neighbour[inside]], weight[inside]
    rank = _ranks(prepared, edge)[inside]
    message = times(take_rows(prepared.features, around), gcn.weights[0])
    degree, nodes, place, parts = (
        torch.bincount(owner, minlength=around.numel()),
        around.numel(),
        number[node],
        [],
    )
    for some in length.split(max(1, _EDGES_AT_ONCE // max(1, inside.numel(), nodes))):
        shift = torch.arange(some.numel(), device=edge.device)[:, None] * nodes
        kept = torch.where(rank < some[:, None], weight, 0.0)
        adjacency = NormalisedAdjacency.of(
            offsets_of(degree.repeat(some.numel())), (neighbour + shift).flatten(), kept.flatten()
        )
        parts.append(gcn.from_messages(message.repeat(some.numel(), 1), adjacency)[place + shift[:, 0]])
    return torch.cat(parts)


def _ranks(prepared: Prepared, edge: Int[Tensor, "degree"]) -> Int[Tensor, "edges"]:
    """Return the place of each edge, or of its reverse edge, in an order; -1 for all others."""
    rank = torch.full((prepared.neighbour.numel(),), -1, device=edge.device)
    reverse, place = prepared.reverse_edge[edge], torch.arange(edge.numel(), device=edge.device)
    rank[reverse[reverse >= 0]] = place[reverse >= 0]
    rank[edge] = place
    return rank
