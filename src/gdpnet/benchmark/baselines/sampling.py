"""GraphSAGE trained on batches with a few sampled neighbours per node (Hamilton et al., 2017).

Not NeighborLoader of torch_geometric, which needs the compiled extra pyg-lib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, ranges, sum_by_owner
from gdpnet.benchmark.baselines.fitting import Inputs, Settings, Side
from gdpnet.benchmark.baselines.networks import Stack
from gdpnet.benchmark.baselines.propagation import Links
from gdpnet.data.features import take_rows
from gdpnet.representation.sparse import Matrix

BATCH = 256
"""Targets per optimiser step."""

FAN_OUT = (25, 10)
"""Largest number of sampled neighbours, layer by layer from the features up; the last holds for all above."""


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
        yield F.cross_entropy(logits(inputs.targets[batch]), inputs.labels[batch])


def batch_logits(network: Stack, side: Side, nodes: Int[Tensor, "batch"]) -> Float[Tensor, "batch classes"]:
    """Return the logits of some nodes from their sampled neighbourhoods."""
    blocks, lowest = draw_blocks(side.links, nodes, len(network.layers))
    features = side.features.rows if isinstance(side.features, Matrix) else side.features
    rows = take_rows(features, lowest)
    for number, (layer, block) in enumerate(zip(network.layers, blocks, strict=True)):
        ready = network.between(rows, number)
        assert not isinstance(ready, Matrix)
        rows = layer(ready, block.mean, take_rows(ready, block.own))
    assert isinstance(rows, Tensor)
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
