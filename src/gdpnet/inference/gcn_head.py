"""Predictions of the GCN head, which convolves over the cleaned graph."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet.data.prepare import Prepared
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import edge_weights
from gdpnet.representation.gcn import GCN, NormalisedAdjacency


def cleaned_adjacency(chosen: Selected, threshold: float, isolated: int | None = None) -> NormalisedAdjacency:
    """Return the adjacency matrix of the cleaned graph, normalised; candidates beyond neighbours are not in it.

    The edges of a node that is ``isolated`` are left out.
    """
    prepared = chosen.prepared
    probability = prepared.symmetrise(chosen.probability)
    weight = prepared.weighed(edge_weights(probability, threshold)) * prepared.linked
    if isolated is not None:
        weight = torch.where(
            (prepared.block_target == isolated) | (prepared.neighbour == isolated), 0.0, weight
        )
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
        start = prepared.row_ptr[around]
        near = prepared.neighbour[ranges(start, prepared.row_ptr[around + 1] - start)[1]]
        around = torch.unique(torch.cat([around, near]))
    return around


@torch.no_grad()
def gcn_probabilities(
    network: GCN,
    chosen: Selected,
    threshold: float,
    targets: Int[Tensor, "targets"],
    isolated: int | None = None,
) -> Float[Tensor, "targets classes"]:
    """Return class probabilities of some targets; their `receptive_field` must be decided on."""
    return network.to_probabilities(chosen.prepared.features, cleaned_adjacency(chosen, threshold, isolated))[
        targets
    ]
