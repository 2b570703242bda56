"""Rows spread over weighted links: the representations of tasks that read no label.

P = D^(-1/2) (W + I) D^(-1/2) with W the links' weights; H = (1 - c) P H + c X, ten times over, is personalised
PageRank on rows (Gasteiger et al., 2019). The linker spreads rows of one length, so that a node without links is as
well placed as a hub (Ahn and Kim, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet._core.csr import owners_of, sum_by_owner
from gdpnet.data.features import Features, SparseRows, project

RESTART = 0.15
"""Share of a node's own row that every step brings back."""

STEPS = 10

LENGTH = 1.8
"""Length of the rows that a linker spreads."""


@dataclass(frozen=True)
class Spread:
    """The matrix P of a graph whose links run both ways, with one weight for both."""

    rows: SparseRows
    own: Float[Tensor, "nodes 1"]

    @classmethod
    def over(
        cls,
        row_ptr: Int[Tensor, "offsets"],
        neighbour: Int[Tensor, "edges"],
        weight: Float[Tensor, "edges"],
    ) -> Spread:
        """Lay out P for links of some weights."""
        owner, nodes = owners_of(row_ptr.diff()), row_ptr.numel() - 1
        scale = (1.0 + sum_by_owner(weight, owner, nodes)).rsqrt()
        value = weight * scale[owner] * scale[neighbour]
        return cls(SparseRows(row_ptr, neighbour, value, nodes), scale.square()[:, None])

    def __call__(
        self, rows: Float[Tensor, "nodes width"], steps: int = STEPS, restart: float = RESTART
    ) -> Float[Tensor, "nodes width"]:
        """Spread rows, each step bringing back a share of them."""
        spread = rows
        for _ in range(steps):
            heard: Tensor = _Product.apply(spread, self.rows)
            spread = (1.0 - restart) * (heard + self.own * spread) + restart * rows
        return spread


class Linker(nn.Module):
    """Represent nodes so that the inner product of two says how likely they are linked.

    z = spread(LENGTH x W / |x W|); p(u linked to v) = sigmoid(z_u z_v).
    """

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, width))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights."""
        nn.init.xavier_uniform_(self.weight, generator=generator)

    def embed(self, features: Features, spread: Spread) -> Float[Tensor, "nodes width"]:
        """Return z of every node."""
        return spread(LENGTH * F.normalize(project(features, self.weight), dim=1))


def inner_products(
    embedded: Float[Tensor, "nodes width"], ends: Int[Tensor, "2 pairs"]
) -> Float[Tensor, "pairs"]:
    """Return the inner product of each pair's rows, the logit of a link."""
    return (embedded.index_select(0, ends[0]) * embedded.index_select(0, ends[1])).sum(dim=1)


class _Product(torch.autograd.Function):
    """A symmetric sparse matrix times a dense one; so its gradient is the same product."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseRows) -> Tensor:
        ctx.matrix = matrix
        return project(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return project(ctx.matrix, gradients[0].contiguous()), None
