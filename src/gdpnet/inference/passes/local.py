"""A block of targets as a graph of its own: its targets, their neighbours, and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.data.prepare import Prepared
from gdpnet.inference.passes.job import Job
from gdpnet.inference.passes.source import Block


@dataclass(frozen=True)
class Weights:
    """The weights of edges in neighbourhood means, and the tables of nodes that go with them."""

    own: Float[Tensor, "block"]
    reverse: Float[Tensor, "block"]
    whole: str
    """The table of the total weight of each node's mean."""


def weights_before(job: Job, edges: slice, reverse: Int[Tensor, "block"]) -> Weights | None:
    """Return the weights before anything was decided on; None if nodes send their own features."""
    if not job.two_hops:
        return None
    other = job.source.weight_at(reverse.clamp(min=0))
    return Weights(job.source.weight_of(edges), other, "whole")


def weights_after(job: Job, number: int) -> Weights | None:
    """Return the weights of a block's edges after the context pass."""
    if not job.two_hops:
        return None
    other = job.files.of_edges("weight", job.files.block("reverse", number))
    return Weights(job.files.block("weight", number), other, "whole_kept")


@dataclass(frozen=True)
class LocalBlock:
    """Some targets and all around them; nodes have the numbers of their places in ``nodes``."""

    nodes: Int[Tensor, "around"]
    """All nodes, ascending, by their numbers in the graph."""
    first: int
    """The place of the first target; the others follow."""
    count: int
    """The number of targets."""
    prepared: Prepared

    @property
    def targets(self) -> Int[Tensor, "targets"]:
        """Return the places of the targets."""
        return torch.arange(self.first, self.first + self.count, device=self.prepared.device)


def local_block(
    job: Job,
    block: Block,
    reverse: Int[Tensor, "block"],
    weights: Weights | None,
    pairs: Float[Tensor, "block columns"],
    edge_columns: int = 0,
) -> LocalBlock:
    """Return some targets, with the pair features of their edges, as a graph of its own.

    Rows of other nodes are empty. Reverse edges are numbered after all others, and known by their weights alone.
    """
    source, (first, last) = job.source, block
    edges = source.edges_of(block)
    count, targets = edges.stop - edges.start, torch.arange(first, last)
    nodes, place = torch.unique(torch.cat([targets, source.neighbours_of(edges)]), return_inverse=True)
    here = int(place[0])
    length = torch.zeros_like(nodes)
    length[here : here + last - first] = source.row_ptr[first : last + 1].diff()
    neighbour = torch.cat([place[last - first :], torch.zeros(count, dtype=torch.long)])
    there = torch.where(reverse >= 0, torch.arange(count) + count, -1)
    prepared = Prepared(
        offsets_of(length),
        neighbour,
        there,
        torch.zeros(nodes.numel(), 0),
        pairs,
        edge_columns=edge_columns,
        graph_weight=_both(source.weight_of(edges)) if source.has("edge_weight") else None,
        numbers=(nodes, edges.start + torch.arange(neighbour.numel())),
    )
    if weights is not None:
        whole = job.files.dense_rows(weights.whole, nodes)
        mean = torch.cat([weights.own, weights.reverse])
        prepared = replace(prepared, mean_weight=mean, neighbourhood_weight=whole)
    return LocalBlock(nodes, here, last - first, _to(prepared, job.model.device))


def _both(own: Float[Tensor, "block"]) -> Float[Tensor, "edges"]:
    """Return the weights of the edges and, after them, those of reverse edges, which nobody reads."""
    return torch.cat([own, torch.zeros_like(own)])


def _to(prepared: Prepared, device: torch.device) -> Prepared:
    """Return a prepared block on another device."""
    if device == prepared.device:
        return prepared
    names = ("row_ptr", "neighbour", "reverse_edge", "pairs", "mean_weight", "neighbourhood_weight")
    found = {name: getattr(prepared, name) for name in (*names, "graph_weight", "features")}
    moved = {name: one.to(device) for name, one in found.items() if one is not None}
    assert prepared.numbers is not None
    node, edge = prepared.numbers
    return replace(prepared, numbers=(node.to(device), edge.to(device)), **moved)
