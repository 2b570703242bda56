"""Networks trained on sampled neighbourhoods: GraphSAGE on a few neighbours per node, FastGCN on layers of nodes.

GraphSAGE is that of Hamilton et al. (2017). NeighborLoader of torch_geometric is not used, because it needs the
compiled extra pyg-lib. FastGCN (Chen et al., 2018) is a GCN whose layers are nodes sampled by importance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges, sum_by_owner
from gdpnet.benchmark.baselines.fitting import (
    Fitted,
    Inputs,
    Settings,
    Side,
    Task,
    fit_network,
    inputs_of,
    mean_loss,
)
from gdpnet.benchmark.baselines.networks import Stack, gcn
from gdpnet.benchmark.baselines.propagation import Links, normalised_adjacency
from gdpnet.data.features import Features, SparseRows, normalise, take_rows, to_numpy
from gdpnet.representation.sparse import Matrix

BATCH = 256
"""Targets per optimiser step."""

FAN_OUT = (25, 10)
"""Largest number of sampled neighbours, layer by layer from the features up; the last holds for all above."""

SAMPLE = 400
"""Nodes sampled per layer, with replacement, among the neighbours of the layer above."""


@dataclass(frozen=True)
class Block:
    """One layer of a batch: the places of the upper nodes among the lower ones, and weighted edges between them."""

    own: Int[Tensor, "upper"]
    target: Int[Tensor, "edges"]
    neighbour: Int[Tensor, "edges"]
    weight: Float[Tensor, "edges"]

    def mean(self, message: Float[Tensor, "lower width"]) -> Float[Tensor, "upper width"]:
        """Return the weighted mean of each upper node's neighbours; zero if it has none."""
        total = sum_by_owner(self.weight, self.target, self.own.numel())
        weighted = self.weight[:, None] * message[self.neighbour]
        return sum_by_owner(weighted, self.target, self.own.numel()) / total.clamp(min=1e-6)[:, None]


def sample_neighbours(
    row_ptr: Int[Tensor, "offsets"], nodes: Int[Tensor, "n"], fan_out: int
) -> tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]]:
    """Sample up to ``fan_out`` different edges per node; return their node's place in ``nodes``, and the edges."""
    owner, edge = ranges(row_ptr[nodes], row_ptr.diff()[nodes])
    # in random order within each owner, the first few are a sample without replacement
    shuffled = torch.randperm(owner.numel(), device=owner.device)
    shuffled = shuffled[owner[shuffled].argsort(stable=True)]
    owner, edge = owner[shuffled], edge[shuffled]
    start = offsets_of(row_ptr.diff()[nodes])
    kept = torch.arange(owner.numel(), device=owner.device) - start[owner] < fan_out
    return owner[kept], edge[kept]


def sampled_batches(network: Stack, inputs: Inputs, settings: Settings) -> Iterator[Tensor]:
    """Yield one loss per batch of training nodes, each node once per epoch."""
    return batch_losses(inputs, partial(batch_logits, network, inputs.train))


def batch_losses(inputs: Inputs, logits: Callable[[Tensor], Tensor]) -> Iterator[Tensor]:
    """Yield one loss per batch of training nodes, each node once per epoch, from the logits of a batch."""
    order = torch.randperm(inputs.targets.numel(), device=inputs.targets.device)
    for batch in order.split(BATCH):
        weight = None if inputs.weight is None else inputs.weight[batch]
        yield mean_loss(logits(inputs.targets[batch]), inputs.labels[batch], weight)


def batch_logits(network: Stack, side: Side, nodes: Int[Tensor, "batch"]) -> Float[Tensor, "batch classes"]:
    """Return the logits of some nodes from their sampled neighbourhoods."""
    blocks, lowest = draw_blocks(side.links, nodes, len(network.layers))
    features = side.features.rows if isinstance(side.features, Matrix) else side.features
    rows: Any = take_rows(features, lowest)
    for number, (layer, block) in enumerate(zip(network.layers, blocks, strict=True)):
        ready = network.between(rows, number)
        rows = layer(ready, block.mean, take_rows(ready, block.own))
    return rows


def draw_blocks(
    links: Links, nodes: Int[Tensor, "batch"], layers: int
) -> tuple[list[Block], Int[Tensor, "lowest"]]:
    """Sample the neighbours of a batch, layer by layer; return one block per layer and the nodes at the bottom."""
    blocks: list[Block] = []
    upper = nodes
    for number in reversed(range(layers)):
        fan_out = FAN_OUT[min(number, len(FAN_OUT) - 1)]
        target, edge = sample_neighbours(links.matrix.rows.row_ptr, upper, fan_out)
        lower, place = torch.cat([upper, links.neighbour[edge]]).unique(return_inverse=True)
        own, neighbour = place[: upper.numel()], place[upper.numel() :]
        blocks.append(Block(own, target, neighbour, links.weight[edge]))
        upper = lower
    return blocks[::-1], upper


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
        product = adjacency @ to_numpy(features)
        sparse = isinstance(features, SparseRows)
        smoothed = SparseRows.from_scipy(product) if sparse else torch.from_numpy(product)
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
            sample = levels[-1 - number], levels[-number], scales[-number]
            rows = layer(network.between(rows, number), partial(sampled_product, self.adjacency, *sample))
        return rows


def fastgcn(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train FastGCN; it predicts with all edges."""
    losses = Importance.of(task, device).losses
    return fit_network(gcn, inputs_of(task, device), settings, seed, losses)


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
