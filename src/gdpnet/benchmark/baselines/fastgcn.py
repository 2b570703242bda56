"""FastGCN: a GCN whose layers are nodes sampled by importance (Chen et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges, sum_by_owner
from gdpnet.benchmark.baselines.fitting import Inputs, Settings, Task
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import normalised_adjacency
from gdpnet.benchmark.baselines.sampling import batch_losses
from gdpnet.data.features import Features, SparseRows, normalise, take_rows

SAMPLE = 400
"""Nodes sampled per layer, with replacement, among the neighbours of the layer above."""


@dataclass(frozen=True)
class Importance:
    """The training graph as FastGCN reads it.

    ``adjacency`` is Â, GCN's normalised one; ``chance`` is q(u), proportional to the squared length of its
    column; ``smoothed`` is Â X, computed once, so that the first layer needs no sample.
    """

    adjacency: SparseRows
    chance: Float[Tensor, "nodes"]
    smoothed: Features

    @classmethod
    def of(cls, task: Task, device: torch.device) -> Importance:
        """Prepare the training graph of a task."""
        adjacency = normalised_adjacency(task.train)
        features = normalise(task.train.features, "l2")
        chance = torch.from_numpy(adjacency.power(2).sum(axis=0)).flatten().float()
        smoothed: Features
        if isinstance(features, SparseRows):
            smoothed = SparseRows.from_scipy(adjacency @ features.to_scipy())
        else:
            smoothed = torch.from_numpy(adjacency @ features.numpy())
        rows = SparseRows.from_scipy(adjacency).to(device)
        return cls(rows, (chance / chance.sum()).to(device), smoothed.to(device))

    def losses(self, network: Stack, inputs: Inputs, settings: Settings) -> Iterator[Tensor]:
        """Yield one loss per batch of training nodes, each node once per epoch."""
        return batch_losses(inputs, partial(self.logits, network))

    def logits(self, network: Stack, nodes: Int[Tensor, "batch"]) -> Float[Tensor, "batch classes"]:
        """Estimate the logits of some nodes: each layer but the first aggregates from a sample of the one below."""
        levels = [nodes]
        scales = []
        for _ in network.layers[1:]:
            chosen, scale = draw_layer(within_reach(self.adjacency, self.chance, levels[-1]), SAMPLE)
            levels.append(chosen)
            scales.append(scale)
        bottom = take_rows(self.smoothed, levels[-1])
        rows = network.layers[0](network.between(bottom, 0), lambda message: message)
        for number, layer in enumerate(network.layers[1:], start=1):
            upper, lower, scale = levels[-1 - number], levels[-number], scales[-number]
            rows = layer(
                network.between(rows, number),
                lambda message, upper=upper, lower=lower, scale=scale: sampled_product(
                    self.adjacency, upper, lower, scale, message
                ),
            )
        return rows


def within_reach(
    adjacency: SparseRows, chance: Float[Tensor, "nodes"], nodes: Int[Tensor, "batch"]
) -> Float[Tensor, "nodes"]:
    """Return the sampling probabilities among the neighbours of a batch; all other nodes have none.

    The authors' program does so too: with samples from all nodes most of a batch would have no neighbour.
    """
    _, position = ranges(adjacency.row_ptr[nodes], adjacency.row_ptr.diff()[nodes])
    reached = torch.zeros_like(chance)
    reached[adjacency.column[position]] = 1.0
    return chance * reached / (chance * reached).sum()


def draw_layer(
    chance: Float[Tensor, "nodes"], size: int
) -> tuple[Int[Tensor, "chosen"], Float[Tensor, "chosen"]]:
    """Sample nodes with replacement; return each sampled node once, with its count over its expected count.

    The expected value of that scale is one for every node, which makes the sampled product unbiased. If there are
    no more nodes than the size of the sample, all are taken and nothing is estimated.
    """
    possible = chance.nonzero().flatten()
    if possible.numel() <= size:
        return possible, torch.ones_like(chance[possible])
    chosen, count = torch.multinomial(chance, size, replacement=True).unique(return_counts=True)
    return chosen, count / (size * chance[chosen])


def sampled_product(
    adjacency: SparseRows,
    nodes: Int[Tensor, "batch"],
    chosen: Int[Tensor, "chosen"],
    scale: Float[Tensor, "chosen"],
    message: Float[Tensor, "chosen width"],
) -> Float[Tensor, "batch width"]:
    """Estimate the rows ``nodes`` of Â H as Σ Â(v, u) H(u) / (s q(u)) over the sampled nodes u."""
    place = torch.full((adjacency.shape[0],), -1, device=nodes.device)
    place[chosen] = torch.arange(chosen.numel(), device=nodes.device)
    length = adjacency.row_ptr.diff()[nodes]
    owner, position = ranges(adjacency.row_ptr[nodes], length)
    lower = place[adjacency.column[position]]
    owner, position, lower = owner[lower >= 0], position[lower >= 0], lower[lower >= 0]
    weight = adjacency.value[position] * scale[lower]
    return sum_by_owner(weight[:, None] * message[lower], owner, nodes.numel())
