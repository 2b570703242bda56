"""The ensemble's probabilities of some nodes as their neighbours are added one after the other.

The first state of a node is the node alone, the last one the node with all its neighbours: what the model predicts.
All states are evaluated together: the aggregator and the hop-wise head see copies of a node, each with a prefix of
its neighbours; the GCN head recomputes the rows of the cleaned graph that a prefix changes; the all-edges head does
so on the whole graph or, for dense features, sees copies of the graph around the node. The trees and the linear head
read the node's own features alone.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges
from gdpnet.data.features import take_rows
from gdpnet.data.prepare import Prepared
from gdpnet.inference.all_edges_states import all_edges_states
from gdpnet.inference.ensemble import Ensemble
from gdpnet.inference.gcn_states import Convolved, gcn_states
from gdpnet.inference.select import Selected
from gdpnet.inference.states import Prefixes
from gdpnet.representation.all_edges import AllEdgesNetwork

MOST_STATES = 256
"""States that are evaluated after the first; a node with more neighbours has them added in groups."""


def prefix_lengths(degree: int, device: torch.device) -> Int[Tensor, "states"]:
    """Return how many neighbours each state has: from none to all, one more each, or groups if there are many."""
    steps = min(degree, MOST_STATES)
    return torch.arange(steps + 1, device=device) * degree // max(steps, 1)


def prefixes_of(
    node: Int[Tensor, "targets"], edge: Int[Tensor, "edges"], degree: Int[Tensor, "targets"]
) -> Prefixes:
    """Return the states of some targets, given all their edges, one target after the other, each in its order."""
    return Prefixes.of(node, edge, degree, [prefix_lengths(each, edge.device) for each in degree.tolist()])


@torch.no_grad()
def prefix_probabilities(
    ensemble: Ensemble, selected: Selected, prefixes: Prefixes, mode: str, convolved: dict[str, Convolved]
) -> Float[Tensor, "states classes"]:
    """Return the class probabilities of every state; ``convolved`` has the heads with convolutions and a weight."""
    star, weight = _star(selected.prepared, prefixes, selected.weight(mode))
    copies = prefixes.edge.numel() + torch.arange(prefixes.length.numel(), device=prefixes.edge.device)
    found = ensemble.local(star, copies, weight)[1]
    prepared, others, network = selected.prepared, {}, ensemble.networks.all_edges
    for name, one in convolved.items():
        others[name] = gcn_states(one, prepared, prefixes)
    if isinstance(network, AllEdgesNetwork) and ensemble.weights.all_edges > 0:
        others["all_edges"] = all_edges_states(network, prepared, prefixes)
    alone = ensemble.alone(prepared, prefixes.node)  # no neighbour changes these
    others |= {name: one[prefixes.target] for name, one in alone.items()}
    return ensemble.add_others(found, others)


def _star(
    prepared: Prepared, prefixes: Prefixes, share: Float[Tensor, "edges"]
) -> tuple[Prepared, Float[Tensor, "new_edges"]]:
    """Return a graph of the targets' neighbours and one copy of a target per state, and the shares of its edges.

    Each neighbour has one edge, from its target, which says how much of its neighbourhood mean is the target's.
    """
    edge, length = prefixes.edge, prefixes.length
    place = ranges(prefixes.first[prefixes.target], length)[1]
    nodes = torch.cat([prepared.neighbour[edge].long(), prefixes.node[prefixes.target]])
    reverse = prepared.reverse_edge[edge - prepared.first_edge]
    rows = edge.numel() + prefixes.first_state[prefixes.owner]

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
        pairs=prepared.pairs.new_zeros(edge.numel() + place.numel(), 0),
        neighbourhood_rows=take_rows(prepared.neighbourhood, nodes),
        mean_weight=mean,
        neighbourhood_weight=None if whole is None else whole[nodes],
        first_edge=0,
        edge=None,
        numbers=None,
        graph_weight=None if own is None else both(torch.ones(edge.numel(), device=edge.device), own),
    )
    return star, both(torch.zeros(edge.numel(), device=edge.device), share)
