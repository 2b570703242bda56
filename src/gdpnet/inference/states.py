"""States of nodes: each has some of its node's neighbours, the first ones in an order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.csr import offsets_of, owners_of


@dataclass(frozen=True)
class Prefixes:
    """The states of some targets: each has the first edges of its target, in an order."""

    node: Int[Tensor, "targets"]
    edge: Int[Tensor, "edges"]
    """The edges of all targets, one target after the other, each in its order."""
    first: Int[Tensor, "offsets"]
    """Where the edges of each target begin."""
    target: Int[Tensor, "states"]
    """For each state, the place of its target."""
    length: Int[Tensor, "states"]
    """How many edges each state has."""

    @classmethod
    def of(
        cls,
        node: Int[Tensor, "targets"],
        edge: Int[Tensor, "edges"],
        degree: Int[Tensor, "targets"],
        lengths: list[Int[Tensor, "_"]],
    ) -> Prefixes:
        """Return the states of some targets, given all their edges in order, and the lengths of each one's states."""
        states = torch.tensor([one.numel() for one in lengths], device=edge.device)
        length = torch.cat(lengths) if lengths else edge[:0]
        return cls(node, edge, offsets_of(degree), owners_of(states), length)

    @property
    def degree(self) -> Int[Tensor, "targets"]:
        """Return the number of edges of each target."""
        return self.first.diff()

    @property
    def owner(self) -> Int[Tensor, "edges"]:
        """Return the place of each edge's target."""
        return owners_of(self.degree)

    @property
    def first_state(self) -> Int[Tensor, "offsets"]:
        """Return where the states of each target begin."""
        return offsets_of(torch.bincount(self.target, minlength=self.node.numel()))
