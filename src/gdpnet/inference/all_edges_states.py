"""The all-edges head's probabilities of nodes with some of their edges.

This is the head of dense features. The graphs of tables are small: each node's states are evaluated on copies of the
graph around it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.data.features import take_rows
from gdpnet.data.prepare import Prepared
from gdpnet.inference.ensemble import receptive_field
from gdpnet.inference.select import edges_of
from gdpnet.inference.states import Prefixes
from gdpnet.representation.all_edges import AllEdgesNetwork
from gdpnet.representation.gcn import NormalisedAdjacency
from gdpnet.representation.sparse import times

_EDGES_AT_ONCE = 1 << 20


@torch.no_grad()
def all_edges_states(
    network: AllEdgesNetwork, prepared: Prepared, prefixes: Prefixes
) -> Float[Tensor, "states classes"]:
    """Return the head's probabilities of every state: its target with the first of its edges, in both directions."""
    edges = prefixes.edge.split(prefixes.degree.tolist())
    lengths = prefixes.length.split(prefixes.first_state.diff().tolist())
    parts = [
        _states_of(network, prepared, int(node), edge, length)
        for node, edge, length in zip(prefixes.node, edges, lengths, strict=True)
    ]
    return torch.cat(parts)


def _states_of(
    network: AllEdgesNetwork,
    prepared: Prepared,
    node: int,
    edge: Int[Tensor, "degree"],
    length: Int[Tensor, "states"],
) -> Float[Tensor, "states classes"]:
    """Return the probabilities of one node with a prefix of its edges per state."""
    around = receptive_field(prepared, torch.tensor([node], device=edge.device), len(network.weights))
    owner, inside = edges_of(prepared, around)
    number = torch.full((prepared.num_nodes,), -1, device=edge.device)
    number[around] = torch.arange(around.numel(), device=edge.device)
    weight = prepared.weighed(prepared.linked)
    used = (number[prepared.neighbour[inside]] >= 0) & (weight[inside] != 0)
    owner, inside = owner[used], inside[used]
    neighbour, weight = number[prepared.neighbour[inside]], weight[inside]
    rank = _ranks(prepared, edge)[inside]
    message = times(take_rows(prepared.features, around), network.weight)
    degree, nodes = torch.bincount(owner, minlength=around.numel()), around.numel()
    place, parts = number[node], []
    for some in length.split(max(1, _EDGES_AT_ONCE // max(1, inside.numel(), nodes))):
        shift = torch.arange(some.numel(), device=edge.device)[:, None] * nodes
        kept = torch.where(rank < some[:, None], weight, 0.0)
        adjacency = NormalisedAdjacency.of(
            offsets_of(degree.repeat(some.numel())), (neighbour + shift).flatten(), kept.flatten()
        )
        parts.append(network.from_messages(message.repeat(some.numel(), 1), adjacency)[place + shift[:, 0]])
    return torch.cat(parts)


def _ranks(prepared: Prepared, edge: Int[Tensor, "degree"]) -> Int[Tensor, "edges"]:
    """Return the place of each edge, or of its reverse edge, in an order; -1 for all others."""
    rank = torch.full((prepared.neighbour.numel(),), -1, device=edge.device)
    reverse, place = prepared.reverse_edge[edge], torch.arange(edge.numel(), device=edge.device)
    rank[reverse[reverse >= 0]] = place[reverse >= 0]
    rank[edge] = place
    return rank
