"""FastGCN: a GCN trained on layers that are samples of nodes, drawn by importance (Chen et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import ranges, sum_by_owner
from gdpnet.benchmark.baselines.fitting import Inputs, Settings, Task
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import normalised_adjacency
from gdpnet.data.features import Features, SparseRows, normalise, take_rows

BATCH = 256
"""Targets of one step."""

SAMPLE = 400
"""Nodes drawn for each layer, with replacement, among those that the layer above can hear."""


@dataclass(frozen=True)
class Importance:
    """The training graph as FastGCN sees it.

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
        """Return one loss a batch of training nodes, all of them once an epoch."""
        order = torch.randperm(inputs.targets.numel(), device=inputs.targets.device)
        for batch in order.split(BATCH):
            logits = self.logits(network, inputs.targets[batch])
            yield F.cross_entropy(logits, inputs.labels[batch])

    def logits(self, network: Stack, nodes: Int[Tensor, "batch"]) -> Float[Tensor, "batch classes"]:
        """Estimate the logits of some nodes: each layer but the first hears a sample of the one below."""
        levels = [nodes]
        scales = []
        for _ in network.layers[1:]:
            chosen, scale = draw_layer(within_reach(self.adjacency, self.chance, levels[-1]), SAMPLE)
            levels.append(chosen)
            scales.append(scale)
        bottom = take_rows(self.smoothed, levels[-1])
        rows = network.layers[0](network.between(bottom, 0), lambda given: given)
        for number, layer in enumerate(network.layers[1:], start=1):
            upper, lower, scale = levels[-1 - number], levels[-number], scales[-number]
            rows = layer(
                network.between(rows, number),
                lambda given, upper=upper, lower=lower, scale=scale: sampled_product(
                    self.adjacency, upper, lower, scale, given
                ),
            )
        return rows


def within_reach(
    adjacency: SparseRows, chance: Float[Tensor, "nodes"], nodes: Int[Tensor, "batch"]
) -> Float[Tensor, "nodes"]:
    """Return the chances among the nodes that some of the batch hear; the others, which add nothing, have none.

    The paper's own program does so too: with a draw from all nodes most of a batch would hear nobody.
    """
    _, position = ranges(adjacency.row_ptr[nodes], adjacency.row_ptr.diff()[nodes])
    reached = torch.zeros_like(chance)
    reached[adjacency.column[position]] = 1.0
    return chance * reached / (chance * reached).sum()


def draw_layer(
    chance: Float[Tensor, "nodes"], size: int
) -> tuple[Int[Tensor, "chosen"], Float[Tensor, "chosen"]]:
    """Draw nodes with replacement; return each drawn one once, with how often over how often expected.

    The expected value of that scale is one for every node, which makes the sampled product unbiased. Where there
    are no more nodes than are to be drawn, all are taken and nothing is estimated.
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
    given: Float[Tensor, "chosen width"],
) -> Float[Tensor, "batch width"]:
    """Estimate the rows ``nodes`` of Â H as Σ Â(v, u) H(u) / (s q(u)) over the drawn nodes u."""
    place = torch.full((adjacency.shape[0],), -1, device=nodes.device)
    place[chosen] = torch.arange(chosen.numel(), device=nodes.device)
    length = adjacency.row_ptr.diff()[nodes]
    owner, position = ranges(adjacency.row_ptr[nodes], length)
    lower = place[adjacency.column[position]]
    owner, position, lower = owner[lower >= 0], position[lower >= 0], lower[lower >= 0]
    weight = adjacency.value[position] * scale[lower]
    return sum_by_owner(weight[:, None] * given[lower], owner, nodes.numel())
