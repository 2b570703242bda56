"""What an attacker wants: to flip links, within a budget, so that the test nodes are misclassified.

A flip adds a link between two nodes or removes the one that is there. Links are undirected. A pair of nodes is one
number, its *key*: lower node times number of nodes, plus higher node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.benchmark.evaluation import scored_nodes, true_labels
from gdpnet.data.graph import Graph
from gdpnet.errors import GraphError

Keys = Int[Tensor, "_"]
"""One number per pair of nodes, of any number of pairs."""


@dataclass(frozen=True)
class Candidates:
    """Pairs of nodes that may be linked. The first half of the edges runs one way, the second the other way."""

    key: Keys
    """Ascending, each once."""
    nodes: int

    @cached_property
    def low(self) -> Keys:
        """Return the lower node of each pair."""
        return self.key // self.nodes

    @cached_property
    def high(self) -> Keys:
        """Return the higher node of each pair."""
        return self.key % self.nodes

    @cached_property
    def target(self) -> Int[Tensor, "edges"]:
        """Return the target of each directed edge."""
        return torch.cat([self.low, self.high])

    @cached_property
    def neighbour(self) -> Int[Tensor, "edges"]:
        """Return the neighbour of each directed edge."""
        return torch.cat([self.high, self.low])

    @cached_property
    def by_target(self) -> tuple[Int[Tensor, "edges"], Int[Tensor, "edges"], Int[Tensor, "nodes"]]:
        """Return the edges in the order of their targets, their neighbours, and where each target's begin."""
        order = torch.argsort(self.target, stable=True)
        return (
            order,
            self.neighbour[order],
            offsets_of(torch.bincount(self.target, minlength=self.nodes))[:-1],
        )

    def to(self, device: torch.device) -> Candidates:
        """Return the pairs on a device."""
        return Candidates(self.key.to(device), self.nodes)


def weighted_sum(
    pairs: Candidates, weight: Float[Tensor, "edges"], rows: Float[Tensor, "nodes width"]
) -> Float[Tensor, "nodes width"]:
    """Return the weighted sum of the rows of each node's neighbours; both weights and rows get a gradient."""
    order, neighbour, offsets = pairs.by_target
    if not order.numel():
        return torch.zeros_like(rows)
    # gathers, weights and adds up in one pass over memory
    return F.embedding_bag(neighbour, rows, offsets, mode="sum", per_sample_weights=weight[order])


def reversed_edges(value: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
    """Return the value of the reverse of each edge of some candidates."""
    return value.roll(value.numel() // 2)


def with_links(graph: Graph, key: Keys) -> Graph:
    """Return a graph with exactly these links, without its known noise."""
    pairs = Candidates(key, graph.num_nodes)
    order = torch.argsort(pairs.target * graph.num_nodes + pairs.neighbour)
    row_ptr = offsets_of(torch.bincount(pairs.target, minlength=graph.num_nodes))
    return replace(graph, row_ptr=row_ptr, neighbour=pairs.neighbour[order], truth=None)


@runtime_checkable
class Relaxed(Protocol):
    """A differentiable model of a graph whose links have weights between 0 and 1."""

    def __call__(self, weight: Float[Tensor, "pairs"]) -> Float[Tensor, "nodes classes"]:
        """Return the logarithm of class probabilities, or logits, from the weight of each candidate."""


@runtime_checkable
class Victim(Protocol):
    """A fitted model that is attacked."""

    def scores(self, graph: Graph) -> Float[Tensor, "nodes classes"]:
        """Return what the model itself predicts on a graph, as logits or logarithms of probabilities."""

    def relax(self, graph: Graph, candidates: Candidates) -> Relaxed:
        """Return the model as a differentiable function of the candidates' weights.

        What cannot be differentiated is taken from ``graph``, which has about the links that the weights stand for.
        """


@dataclass(frozen=True)
class Problem:
    """A graph, the nodes to mislead with their true classes, and how many links may be flipped."""

    graph: Graph
    targets: Int[Tensor, "targets"]
    labels: Int[Tensor, "targets"]
    budget: int

    @classmethod
    def of(cls, graph: Graph, rate: float) -> Problem:
        """Return the attack on all labelled test nodes with a budget as a share of the links."""
        if graph.is_directed or graph.edge_weight is not None or graph.edge_features is not None:
            raise GraphError(
                "an adaptive attack needs undirected edges without weights and features; "
                "--undirected, --no-weights and --no-edge-features read a graph so"
            )
        targets = scored_nodes(graph)
        return cls(graph, targets, true_labels(graph)[targets], round(rate * (graph.num_edges // 2)))

    @cached_property
    def links(self) -> Keys:
        """Return the links of the graph, ascending."""
        graph = self.graph
        once = graph.target < graph.neighbour
        return graph.target[once].long() * graph.num_nodes + graph.neighbour[once].long()

    def are_links(self, key: Keys) -> Bool[Tensor, "pairs"]:
        """Return which pairs are links of the graph."""
        return torch.isin(key, self.links)

    def flipped(self, key: Keys) -> Graph:
        """Return the graph with some pairs flipped."""
        gone = torch.isin(self.links, key)
        added = key[~self.are_links(key)]
        return with_links(self.graph, torch.cat([self.links[~gone], added]).sort().values)

    def margins(self, scores: Float[Tensor, "nodes classes"]) -> Float[Tensor, "targets"]:
        """Return by how much each target's true class is ahead of the best other class; negative if misclassified."""
        rows = scores.index_select(0, self.targets.to(scores.device))
        own = rows.gather(1, self.labels.to(scores.device)[:, None])
        others = rows.scatter(1, self.labels.to(scores.device)[:, None], -torch.inf)
        return own[:, 0] - others.amax(dim=1)

    def loss(self, scores: Float[Tensor, "nodes classes"]) -> Float[Tensor, ""]:
        """Return the mean of tanh(-margin), which an attacker maximises (Geisler et al., 2021).

        Unlike cross-entropy it wastes no budget on nodes that are misclassified already, or out of reach.
        """
        return torch.tanh(-self.margins(scores)).mean()

    def accuracy(self, scores: Float[Tensor, "nodes classes"]) -> float:
        """Return the share of targets that are classified correctly."""
        rows = scores.index_select(0, self.targets.to(scores.device))
        return float((rows.argmax(dim=1) == self.labels.to(scores.device)).float().mean())


def random_pairs(nodes: int, count: int, generator: torch.Generator) -> Keys:
    """Draw about ``count`` distinct pairs of nodes, ascending; all are equally likely."""
    ends = torch.randint(nodes, (2, count), generator=generator)
    low, high = ends.amin(dim=0), ends.amax(dim=0)
    apart = low < high
    return torch.unique(low[apart] * nodes + high[apart])


@dataclass(frozen=True)
class Found:
    """The best flips of an attack, by the predictions of the model itself."""

    flips: Keys
    accuracy: float
    loss: float
    queries: int
    """How many graphs the model predicted."""
    agreement: float | None = None
    """Rank correlation of the relaxed model's margins with the model's own on the attacked graph, if there is one."""
