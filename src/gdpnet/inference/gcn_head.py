"""What graph convolutions over the cleaned graph say of some nodes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges
from gdpnet.data.prepare import Prepared
from gdpnet.inference.select import Selected
from gdpnet.inference.threshold import edge_weights
from gdpnet.representation.gcn import LAYERS, Convolutions, Mixing

SHARE = 0.5
"""The weight of their vote."""


def mixing_of(chosen: Selected, threshold: float, apart: int | None = None) -> Mixing:
    """Return how nodes hear one another in the cleaned graph, which has the graph's own links alone.

    A node that is set ``apart`` hears nobody and is not heard.
    """
    prepared = chosen.prepared
    probability = prepared.both_ways(chosen.probability)
    weight = prepared.weighed(edge_weights(probability, threshold)) * prepared.linked
    if apart is not None:
        weight = torch.where((prepared.block_target == apart) | (prepared.neighbour == apart), 0.0, weight)
    return Mixing.of(prepared.row_ptr, prepared.neighbour, weight)


def within_hearing(prepared: Prepared, targets: Int[Tensor, "targets"]) -> Int[Tensor, "around"]:
    """Return the nodes whose decisions have a part in what convolutions say of some targets.

    A hop a layer, and one more: what a node gives is scaled by all its edges, each with both its nodes' opinions.
    """
    around = torch.unique(targets)
    for _ in range(LAYERS + 1):
        if around.numel() == prepared.num_nodes:
            break
        start = prepared.row_ptr[around]
        near = prepared.neighbour[ranges(start, prepared.row_ptr[around + 1] - start)[1]]
        around = torch.unique(torch.cat([around, near]))
    return around


@torch.no_grad()
def read_deeply(
    network: Convolutions,
    chosen: Selected,
    threshold: float,
    targets: Int[Tensor, "targets"],
    apart: int | None = None,
) -> Float[Tensor, "targets classes"]:
    """Return what convolutions believe of some targets; what is `within_hearing` of them must be decided on."""
    return network.believe(chosen.prepared.features, mixing_of(chosen, threshold, apart))[targets]
