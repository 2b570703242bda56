"""Soft median: a mean in which a neighbour far from the median weighs less (Geisler et al., 2021).

Neighbourhoods are padded to the next power of two, so at most twice the values of the edges lie in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.benchmark.baselines.fitting import Build, Inputs, Settings
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import normalised_adjacency
from gdpnet.data.graph import Graph

TEMPERATURES = (0.5, 3.0)
"""Softness of the median, tried on validation; near zero only the neighbour nearest to it counts."""


@dataclass(frozen=True)
class Neighbourhoods:
    """Neighbourhoods of similar size, one row per node: neighbours including itself, and GCN's weights.

    Padding has weight zero.
    """

    node: Int[Tensor, "rows"]
    neighbour: Int[Tensor, "rows size"]
    weight: Float[Tensor, "rows size"]


def neighbourhoods_of(graph: Graph, device: torch.device) -> list[Neighbourhoods]:
    """Group the nodes of a graph by the size of their neighbourhoods and pad these."""
    adjacency = normalised_adjacency(graph)
    length = np.diff(adjacency.indptr)
    power = np.ceil(np.log2(length)).astype(int)
    found = []
    for exponent in np.unique(power):
        node = np.flatnonzero(power == exponent)
        place = np.arange(2**exponent)[None, :]
        filled = place < length[node, None]
        position = np.where(filled, adjacency.indptr[node, None] + place, 0)
        neighbour = torch.from_numpy(adjacency.indices[position].astype(np.int64))
        weight = torch.from_numpy(np.where(filled, adjacency.data[position], 0.0).astype(np.float32))
        found.append(
            Neighbourhoods(torch.from_numpy(node).to(device), neighbour.to(device), weight.to(device))
        )
    return found


def soft_median(
    neighbourhoods: list[Neighbourhoods], message: Float[Tensor, "nodes width"], temperature: float = 1.0
) -> Float[Tensor, "nodes width"]:
    """Propagate with soft medians: Σa · Σ(s a h) / Σ(s a), with s = softmax(-|h - m| / (T √width)) and m the median.

    The weights a are GCN's and the median is taken dimension by dimension with them.
    """
    result = torch.empty_like(message)
    for near in neighbourhoods:
        rows = message[near.neighbour]  # rows size width
        median = _weighted_median(rows.detach(), near.weight)
        distance = (rows - median[:, None]).square().sum(dim=2).clamp(min=1e-12).sqrt()
        logits = -distance / (temperature * message.shape[1] ** 0.5)
        soft = logits.masked_fill(near.weight == 0.0, -torch.inf).softmax(dim=1) * near.weight
        share = soft / soft.sum(dim=1, keepdim=True) * near.weight.sum(dim=1, keepdim=True)
        result = result.index_copy(0, near.node, torch.einsum("rs,rsw->rw", share, rows))
    return result


def soft_median_gcn(temperature: float) -> Build:
    """Return the builder of a GCN with soft medians."""

    def build(inputs: Inputs, settings: Settings) -> Stack:
        return Stack(inputs, settings, partial(soft_median, temperature=temperature), own=False)

    return build


def _weighted_median(
    rows: Float[Tensor, "rows size width"], weight: Float[Tensor, "rows size"]
) -> Float[Tensor, "rows width"]:
    """Return in each dimension the first value, ascending, at which half of the weight is reached."""
    ordered, order = rows.transpose(1, 2).sort(dim=2)
    reached = weight[:, None, :].expand_as(ordered).gather(2, order).cumsum(dim=2)
    half = weight.sum(dim=1)[:, None, None] / 2
    first = (reached >= half * (1.0 - 1e-6)).to(torch.uint8).argmax(dim=2, keepdim=True)
    return ordered.gather(2, first)[:, :, 0]
