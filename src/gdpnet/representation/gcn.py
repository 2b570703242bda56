"""Graph convolutions over a cleaned graph, which hear farther than AGG: three hops."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gdpnet._core.csr import offsets_of, owners_of, sum_rows
from gdpnet.data.features import SparseRows
from gdpnet.data.features import drop_values as drop
from gdpnet.representation.sparse import Matrix, Table, times

LAYERS = 3


@dataclass(frozen=True)
class Mixing:
    """How nodes hear one another: D^(-1/2) (A + I) D^(-1/2), with A the weights of the edges and D the row sums."""

    matrix: Matrix
    scale: Float[Tensor, "nodes 1"]

    @classmethod
    def of(
        cls,
        row_ptr: Int[Tensor, "offsets"],
        neighbour: Int[Tensor, "edges"],
        weight: Float[Tensor, "edges"],
    ) -> Mixing:
        """Lay out the edges that weigh anything."""
        kept, nodes = weight != 0.0, row_ptr.numel() - 1
        total = sum_rows(weight, row_ptr)
        lengths = torch.bincount(owners_of(row_ptr.diff())[kept], minlength=nodes)
        rows = SparseRows(offsets_of(lengths), neighbour[kept], weight[kept], nodes)
        return cls(Matrix.of(rows, row_ptr.device), (1.0 + total).rsqrt()[:, None])

    def __call__(self, given: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
        """Return what every node hears."""
        scaled = given * self.scale
        return (times(self.matrix, scaled) + scaled) * self.scale


class Convolutions(nn.Module):
    """H <- mix(H W) + b, with relu between; the last layer has a column a class."""

    def __init__(self, features: int, width: int, classes: int, *, exclusive: bool = True) -> None:
        super().__init__()
        sizes = list(pairwise([features, *[width] * (LAYERS - 1), classes]))
        self.weights = nn.ParameterList(torch.zeros(*size) for size in sizes)
        self.biases = nn.ParameterList(torch.zeros(size[1]) for size in sizes)
        self.exclusive = exclusive

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights."""
        for weight in self.weights:
            nn.init.xavier_uniform_(weight, generator=generator)

    def forward(
        self, rows: Table, mix: Mixing, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> Float[Tensor, "nodes classes"]:
        """Return the class scores of every node; a share of every layer's inputs is dropped if asked for."""
        found: Tensor | None = None
        for weight, bias in zip(self.weights, self.biases, strict=True):
            inputs = rows if found is None else torch.relu(found)
            found = mix(times(_dropped(inputs, dropout, generator), weight)) + bias
        assert found is not None
        return found

    def believe(self, rows: Table, mix: Mixing) -> Float[Tensor, "nodes classes"]:
        """Return the class probabilities of every node."""
        scores = self(rows, mix)
        return torch.softmax(scores, dim=1) if self.exclusive else torch.sigmoid(scores)


def _dropped(rows: Table, share: float, generator: torch.Generator | None) -> Table:
    if share == 0.0 or generator is None:
        return rows
    return (
        drop(rows, share, generator)
        if isinstance(rows, Tensor)
        else rows.with_value(drop(rows.value, share, generator))
    )
