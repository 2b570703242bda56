"""A sparse matrix that also stores its transpose, so that a gradient costs as much as the product.

`torch_geometric.EdgeIndex.matmul` and torch's CSR tensors give the same products, but take more than twice as long
(forward and backward on a CPU, a graph of Cora's size), and torch warns that CSR tensors are in beta state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.data import dropout
from gdpnet.data.features import Features, SparseRows, project


@dataclass(frozen=True)
class Matrix:
    """Sparse rows, the rows of the transpose, and the position of each of its values in the first."""

    rows: SparseRows
    transpose: SparseRows
    order: Int[Tensor, "values"] | None
    """None if the values are never changed."""
    is_changed: bool = False
    """Whether the rows have other values than the transpose."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows and columns."""
        return self.rows.shape

    @property
    def value(self) -> Float[Tensor, "values"]:
        """Return the values, row by row."""
        return self.rows.value

    def with_value(self, value: Float[Tensor, "values"]) -> Matrix:
        """Return the same pattern with other values."""
        assert self.order is not None
        return replace(self, rows=self.rows.with_value(value), is_changed=True)

    def thinned(self, kept: Bool[Tensor, "values"], scale: float = 1.0) -> Matrix:
        """Return a matrix with some of the values alone, times a number; zeros would cost as much as before."""
        assert self.order is not None
        among = kept.index_select(0, self.order)
        return Matrix(self.rows.thinned(kept, scale), self.transpose.thinned(among, scale), None)

    @classmethod
    def of(cls, rows: SparseRows, device: torch.device) -> Matrix:
        """Return a matrix with its transpose on a device."""
        order = torch.argsort(rows.column, stable=True)
        row_ptr = offsets_of(torch.bincount(rows.column, minlength=rows.width))
        transpose = SparseRows(row_ptr, rows.row[order], rows.value[order], rows.shape[0])
        return cls(rows.to(device), transpose.to(device), order.to(device))


Table = Tensor | SparseRows | Matrix
"""Feature rows: dense, sparse, or sparse with their transpose."""


def table_of(rows: Features, device: torch.device) -> Table:
    """Move feature rows to a device; sparse ones stay sparse."""
    return Matrix.of(rows, device) if isinstance(rows, SparseRows) else rows.to(device)


def times(table: Table, weight: Float[Tensor, "columns out"]) -> Float[Tensor, "rows out"]:
    """Multiply a table with a dense matrix; only the dense matrix gets a gradient."""
    if isinstance(table, Matrix):
        product: Tensor = _Product.apply(weight, table)
        return product
    return project(table, weight)


def drop_values(
    table: Table, share: float, training: bool, generator: torch.Generator | None = None
) -> Table:
    """Apply dropout to the values while training, with the random numbers of a generator if there is one.

    With a generator, what is dropped of a matrix is left out of it.
    """
    if not training or share == 0.0:
        return table
    if generator is None:
        value = F.dropout(table if isinstance(table, Tensor) else table.value, share)
        return value if isinstance(table, Tensor) else table.with_value(value)
    if not isinstance(table, Matrix):
        return dropout.drop_inputs(table, share, generator)
    kept = dropout.draw_kept(table.value.shape, share, generator, table.value.device)
    return table.thinned(kept, 1.0 / (1.0 - share))


class _Product(torch.autograd.Function):
    """The product A B of a sparse and a dense matrix; the gradient of B is Aᵀ times that of the product."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Matrix) -> Tensor:
        ctx.matrix = matrix
        return _multiply(matrix.rows, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None]:
        matrix = ctx.matrix
        transpose = matrix.transpose
        if matrix.is_changed:
            assert matrix.order is not None
            transpose = transpose.with_value(matrix.value.index_select(0, matrix.order))
        return _multiply(transpose, gradients[0].contiguous()), None


def _multiply(rows: SparseRows, dense: Tensor) -> Tensor:
    # not every backend of project accepts a matrix without values
    return project(rows, dense) if rows.column.numel() else dense.new_zeros(rows.shape[0], dense.shape[1])
