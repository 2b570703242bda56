"""A sparse matrix whose transpose is laid out too, so that gradients cost what the product costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.data.features import Features, SparseRows, project


@dataclass(frozen=True)
class Matrix:
    """Sparse rows, and for each column its rows (``row_of``) and where their values lie (``order``)."""

    rows: SparseRows
    column_ptr: Int[Tensor, "offsets"]
    row_of: Int[Tensor, "values"]
    order: Int[Tensor, "values"]

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
        return replace(self, rows=self.rows.with_value(value))

    @classmethod
    def of(cls, rows: SparseRows, device: torch.device) -> Matrix:
        """Lay out a matrix and its transpose on a device."""
        order = torch.argsort(rows.column, stable=True)
        lengths = torch.bincount(rows.column, minlength=rows.width)
        row_of = rows.row[order]
        return cls(rows.to(device), offsets_of(lengths).to(device), row_of.to(device), order.to(device))


Table = Tensor | SparseRows | Matrix
"""Feature rows as a network reads them: dense, sparse, or sparse with their transpose."""


def table_of(features: Features, device: torch.device) -> Table:
    """Bring feature rows to a device; sparse ones stay sparse."""
    return Matrix.of(features, device) if isinstance(features, SparseRows) else features.to(device)


def times(table: Table, weight: Float[Tensor, "columns out"]) -> Float[Tensor, "rows out"]:
    """Multiply a table with a dense matrix; the gradient goes to the dense one alone."""
    if isinstance(table, Matrix):
        product: Tensor = _Product.apply(weight, table)
        return product
    return project(table, weight)


def drop_values(table: Table, share: float, training: bool) -> Table:
    """Set a random share of the values to zero while training, and scale up the rest."""
    if not training or share == 0.0:
        return table
    if isinstance(table, Tensor):
        return F.dropout(table, share)
    return table.with_value(F.dropout(table.value, share))


class _Product(torch.autograd.Function):
    """A sparse matrix times a dense one: A B, whose gradient for B is Aᵀ times the gradient of the product."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: Matrix) -> Tensor:
        ctx.matrix = matrix
        rows = matrix.rows
        return _row_sums(rows.row_ptr, rows.column, rows.value, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None]:
        matrix = ctx.matrix
        value = matrix.value[matrix.order]
        return _row_sums(matrix.column_ptr, matrix.row_of, value, gradients[0].contiguous()), None


def _row_sums(row_ptr: Tensor, column: Tensor, value: Tensor, dense: Tensor) -> Tensor:
    """Add up, for each row, the dense rows that its columns name."""
    if column.numel() == 0:
        return dense.new_zeros(row_ptr.numel() - 1, dense.shape[1])
    return F.embedding_bag(
        column, dense, row_ptr, mode="sum", per_sample_weights=value, include_last_offset=True
    )
