"""GraphSAGE trained on batches with a few sampled neighbours a node (Hamilton et al., 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
"""Targets of one step."""

FAN_OUT = (25, 10)
"""Neighbours that a node hears at most, layer by layer from the features up; the last holds for all above."""


@dataclass(frozen=True)
class Block:
    """One layer of a batch: which of the lower nodes are the upper ones, and who hears whom how loudly."""

    own: Int[Tensor, "upper"]
    hearer: Int[Tensor, "edges"]
    heard: Int[Tensor, "edges"]
    weight: Float[Tensor, "edges"]

    def mean(self, given: Float[Tensor, "lower width"]) -> Float[Tensor, "upper width"]:
        """Return the weighted mean of what each upper node hears; zero if it hears nobody."""
        total = sum_by_owner(self.weight, self.hearer, self.own.numel())
        heard = sum_by_owner(self.weight[:, None] * given[self.heard], self.hearer, self.own.numel())
        return heard / total.clamp(min=1e-6)[:, None]


def sample_neighbours(
    row_ptr: Int[Tensor, "offsets"], nodes: Int[Tensor, "n"], fan_out: int
) -> tuple[Int[Tensor, "edges"], Int[Tensor, "edges"]]:
    """Draw up to ``fan_out`` different edges of each node; return the place of their node in ``nodes``, and them."""
    owner, edge = ranges(row_ptr[nodes], row_ptr.diff()[nodes])
    # sorted by owner and then by chance, the first few of each owner are a sample without replacement
    shuffled = torch.randperm(owner.numel(), device=owner.device)
    shuffled = shuffled[owner[shuffled].argsort(stable=True)]
    owner, edge = owner[shuffled], edge[shuffled]
    start = offsets_of(row_ptr.diff()[nodes])
    kept = torch.arange(owner.numel(), device=owner.device) - start[owner] < fan_out
    return owner[kept], edge[kept]


def sampled_batches(network: Stack, inputs: Inputs, settings: Settings) -> Iterator[Tensor]:
    """Return one loss a batch of training nodes, all of them once an epoch."""
    order = torch.randperm(inputs.targets.numel(), device=inputs.targets.device)
    for batch in order.split(BATCH):
        logits = batch_logits(network, inputs.train, inputs.targets[batch])
        yield F.cross_entropy(logits, inputs.labels[batch])


def batch_logits(network: Stack, side: Side, nodes: Int[Tensor, "batch"]) -> Float[Tensor, "batch classes"]:
    """Return the logits of some nodes as their sampled neighbourhoods give them."""
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
    """Draw the neighbours of a batch, theirs, and so on; return a block a layer and the nodes at the bottom."""
    blocks: list[Block] = []
    upper = nodes
    for number in reversed(range(layers)):
        fan_out = FAN_OUT[min(number, len(FAN_OUT) - 1)]
        hearer, edge = sample_neighbours(links.matrix.rows.row_ptr, upper, fan_out)
        heard = links.neighbour[edge]
        lower, place = torch.cat([upper, heard]).unique(return_inverse=True)
        own, heard_place = place[: upper.numel()], place[upper.numel() :]
        blocks.append(Block(own, hearer, heard_place, links.weight[edge]))
        upper = lower
    return blocks[::-1], upper
