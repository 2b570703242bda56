"""A graph made ready for episodes: on its device, features normalised, pair features and circles computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.config import Config
from gdpnet.graph.features import Features, mix_rows, normalise, on_device
from gdpnet.graph.graph import Graph
from gdpnet.graph.pairs import PAIR_NAMES, pair_features
from gdpnet.ragged import both_ways, owners_of, sum_by_owner


@dataclass(frozen=True)
class Prepared:
    """A graph on a device, with normalised features and pair features, ready for episodes."""

    row_ptr: Int[Tensor, "offsets"]
    neighbour: Int[Tensor, "edges"]
    back: Int[Tensor, "edges"]
    """The edge that runs the other way; -1 where there is none."""
    features: Features
    pairs: Float[Tensor, "edges pairs"]
    circle: Features
    """What a node can give: its features, or with two hops their mean over itself and its neighbours."""
    edge_weight: Float[Tensor, "edges"] | None
    """With two hops, the weight of each edge in that mean."""

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.row_ptr.numel() - 1

    @property
    def looks_around(self) -> bool:
        """Return whether pair features compare what the circles of both nodes say."""
        return self.edge_weight is not None and self.pairs.shape[1] == len(PAIR_NAMES["circles"])

    @property
    def device(self) -> torch.device:
        """Return where the graph lies."""
        return self.row_ptr.device

    @cached_property
    def circle_weight(self) -> Float[Tensor, "nodes"]:
        """Return the whole weight of each node's circle: its own, one, and that of its edges."""
        owner = owners_of(self.row_ptr.diff())
        weight = torch.ones_like(owner, dtype=torch.float) if self.edge_weight is None else self.edge_weight
        return 1.0 + sum_by_owner(weight, owner, self.num_nodes)

    def both_ways(self, value: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
        """Give both directions of a link the mean of their two values; one without a way back keeps its own."""
        return both_ways(value, self.back)

    def share_of_target(
        self, edge: Int[Tensor, "n"], node: Int[Tensor, "n"]
    ) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None:
        """Return the weight of each edge's target in its neighbour's circle, and the circle's whole weight."""
        if self.edge_weight is None:
            return None
        back = self.back[edge]
        return torch.where(back >= 0, self.edge_weight[back.clamp(min=0)], 0.0), self.circle_weight[node]


def prepare(graph: Graph, config: Config, device: torch.device) -> Prepared:
    """Normalise features and compute pair features, then move everything to the device."""
    features = on_device(normalise(graph.features, config.features.normalise), device)
    pairs = pair_features(graph, config.policy.state if config.training.selection else "paper").to(device)
    row_ptr, neighbour = graph.row_ptr.to(device), graph.neighbour.to(device)
    prepared = Prepared(row_ptr, neighbour, graph.reverse.to(device), features, pairs, features, None)
    if config.representation.hops == 1:
        return prepared
    return with_circle(prepared, torch.ones(graph.num_edges, device=device))


def with_circle(prepared: Prepared, weight: Float[Tensor, "edges"]) -> Prepared:
    """Let every node give the mean over itself and its neighbours, weighted."""
    circle = mix_rows(prepared.features, prepared.row_ptr, prepared.neighbour, weight)
    return replace(prepared, circle=circle, edge_weight=weight)


def given_to_target(
    circle: Float[Tensor, "n *width"],
    target: Float[Tensor, "n *width"],
    share: tuple[Float[Tensor, "n"], Float[Tensor, "n"]] | None,
) -> Float[Tensor, "n *width"]:
    """Take the target's own part out of the mean that its neighbour gives, so that nothing comes back to it.

    With W the weight of the neighbour's circle and k the target's in it: (W mean - k target) / (W - k).
    """
    if share is None:
        return circle
    own, whole = (part.reshape(-1, *[1] * (circle.dim() - 1)) for part in share)
    return (circle * whole - target * own) / (whole - own)
