"""The linker: representations whose inner products foretell links, fitted to what the learned policy keeps.

A step hides a share of the links and learns to tell them from random pairs; a link counts as much as it was kept.
Keeping everything is the other candidate: validation links say which of the two is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from gdpnet.data.edge_weight import mutual_weights
from gdpnet.data.features import Features, normalise, on_device
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import Pairs
from gdpnet.representation.propagation import Linker, Spread, inner_products

WIDTH = 64
_HIDDEN = 0.3
_STEPS = 300
_LOOK_EVERY = 10
_LEARNING_RATE = 0.01
_SEED = 1 << 24


@dataclass(frozen=True)
class Linked:
    """A fitted linker, whether it reads links by what was kept of them, and how it did on validation links."""

    linker: Linker
    selects: bool
    roc_auc: float
    average_precision: float

    @property
    def score(self) -> float:
        """Return what candidates and steps are chosen by: the mean of both measures."""
        return (self.roc_auc + self.average_precision) / 2


@dataclass(frozen=True)
class _World:
    """A graph on a device as a linker reads it."""

    features: Features
    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    link: Int[Tensor, "edges"]
    """The number of each edge's link: both ways have the same."""
    ends: Int[Tensor, "2 links"]
    weight: Float[Tensor, "edges"]

    @property
    def link_weight(self) -> Float[Tensor, "links"]:
        """Return the weight of each link, once."""
        return torch.zeros(self.ends.shape[1], device=self.weight.device).index_copy(
            0, self.link, self.weight
        )

    def spread(self, weight: Float[Tensor, "edges"] | None = None) -> Spread:
        return Spread.over(self.row_ptr, self.neighbour, self.weight if weight is None else weight)


def fit_linker(
    graph: Graph, probability: Float[Tensor, "edges"] | None, pairs: Pairs, seed: int, device: torch.device
) -> Linked:
    """Fit a linker to what the policy keeps and one to everything; return the better on validation pairs.

    Args:
        graph: the training links, with features as they came.
        probability: the keep probability of each edge, the same both ways; nothing where there is no policy.
        pairs: the validation pairs.
        seed: the seed of all draws.
        device: where to compute.
    """
    everything = torch.ones(graph.num_edges, device=device)
    found = [_fit(_world(graph, everything, device), pairs, seed, selects=False)]
    if probability is not None:
        found.append(_fit(_world(graph, probability.to(device), device), pairs, seed, selects=True))
    return max(found, key=lambda one: one.score)


def link_scores(embedded: Float[Tensor, "nodes width"], pairs: Pairs) -> tuple[float, float]:
    """Return ROC AUC and average precision of inner products on some pairs."""
    score = inner_products(embedded, pairs.ends.to(embedded.device)).cpu().numpy()
    linked = pairs.linked.cpu().numpy()
    return float(roc_auc_score(linked, score)), float(average_precision_score(linked, score))


@torch.no_grad()
def embed_links(linker: Linker, graph: Graph, weight: Float[Tensor, "edges"]) -> Float[Tensor, "nodes width"]:
    """Return the representations of all nodes of a graph, a share of each link's weight being kept."""
    world = _world(graph, weight, linker.weight.device)
    return linker.embed(world.features, world.spread())


def _world(graph: Graph, weight: Float[Tensor, "edges"], device: torch.device) -> _World:
    once = graph.neighbour < graph.target
    number = torch.cumsum(once.long(), dim=0) - 1
    link = torch.where(once, number, number[graph.reverse])
    ends = torch.stack([graph.neighbour[once], graph.target[once]])
    features = on_device(normalise(graph.features, "l2"), device)
    return _World(
        features,
        graph.row_ptr.to(device),
        graph.neighbour.to(device),
        link.to(device),
        ends.to(device),
        weight.to(device) * mutual_weights(graph).to(device),
    )


def _fit(world: _World, pairs: Pairs, seed: int, *, selects: bool) -> Linked:
    device = world.weight.device
    linker = Linker(world.features.shape[1], WIDTH)
    linker.initialise(torch.Generator().manual_seed(seed + _SEED))
    linker = linker.to(device)
    optimiser = torch.optim.Adam(linker.parameters(), lr=_LEARNING_RATE)
    draws = torch.Generator(device=device).manual_seed(seed + _SEED)
    whole, best, weights = world.spread(), Linked(linker, selects, -1.0, -1.0), linker.weight.detach().clone()
    for step in range(1, _STEPS + 1):
        loss = _loss(linker, world, draws)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % _LOOK_EVERY:
            continue
        with torch.no_grad():
            now = Linked(linker, selects, *link_scores(linker.embed(world.features, whole), pairs))
        if now.score > best.score:
            best, weights = now, linker.weight.detach().clone()
    with torch.no_grad():
        linker.weight.copy_(weights)
    return best


def _loss(linker: Linker, world: _World, draws: torch.Generator) -> Float[Tensor, ""]:
    """Hide a share of the links and return how badly they are told from random pairs; a link counts as its weight."""
    links, device = world.ends.shape[1], world.weight.device
    hidden = torch.rand(links, generator=draws, device=device) < _HIDDEN
    embedded = linker.embed(world.features, world.spread(world.weight * ~hidden[world.link]))
    asked, weight = world.ends[:, hidden], world.link_weight[hidden]
    nodes = world.row_ptr.numel() - 1
    others = torch.randint(0, nodes, asked.shape, generator=draws, device=device)
    hits = F.softplus(-inner_products(embedded, asked)) * weight
    misses = F.softplus(inner_products(embedded, others))
    return hits.sum() / weight.sum().clamp(min=1e-6) + misses.mean()
