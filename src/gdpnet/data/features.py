"""Node features, dense or sparse, and the operations that do not depend on which.

Callers use these functions and need not ask whether features are a tensor or :class:`SparseRows`. On the host, sparse
features are never made dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.csr import find_in_rows, offsets_of, owners_of, ranges, sum_by_owner
from gdpnet._core.device import has_numba

ONE_HOT_NOTE = "nodes have no features, so each got its own number, one-hot"
"""The note on a graph that came without features."""

MOST_DENSE = 1 << 30
"""Sparse features of up to this many values, zeros included, are made dense on a GPU, which is faster."""

_ROWS = 1 << 16
"""Dense rows that are normalised at a time, which bounds the memory."""

_MOST_KEYS = 1 << 63
"""Keys of row and column must stay below this; larger matrices are searched without keys."""


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix in CSR layout: row i has the columns and values at ``row_ptr[i] : row_ptr[i + 1]``."""

    row_ptr: Int[Tensor, "offsets"]
    column: Int[Tensor, "values"]
    value: Float[Tensor, "values"]
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of rows and columns."""
        return self.row_ptr.numel() - 1, self.width

    @property
    def device(self) -> torch.device:
        """Return the device of the values."""
        return self.value.device

    @property
    def row(self) -> Int[Tensor, "values"]:
        """Return the row of each value."""
        return owners_of(self.row_ptr.diff())

    def to(self, device: torch.device) -> SparseRows:
        """Return a copy on another device."""
        return type(self)(self.row_ptr.to(device), self.column.to(device), self.value.to(device), self.width)

    def with_value(self, value: Float[Tensor, "values"]) -> SparseRows:
        """Return the same pattern with other values."""
        return replace(self, value=value)

    def thinned(self, kept: Bool[Tensor, "values"], scale: float = 1.0) -> SparseRows:
        """Return the same matrix with some of the values alone, times a number."""
        if self.device.type == "cpu" and has_numba():
            return self._thinned_in_loops(kept, scale)
        before = F.pad(kept.cumsum(0), (1, 0))  # values kept before each place
        return type(self)(before[self.row_ptr], self.column[kept], self.value[kept] * scale, self.width)

    def _thinned_in_loops(self, kept: Bool[Tensor, "values"], scale: float) -> SparseRows:
        from gdpnet.data.row_kernel import thin

        most = int(kept.sum()) + 1
        row_ptr, column = torch.zeros_like(self.row_ptr), self.column.new_empty(most)
        value = self.value.new_empty(most)
        given = (self.row_ptr, self.column, self.value, kept)
        scaled, out = self.value.numpy().dtype.type(scale), (row_ptr, column, value)
        filled = thin(*(part.numpy() for part in given), scaled, *(part.numpy() for part in out))
        return type(self)(row_ptr, column[:filled], value[:filled], self.width)

    def take(self, rows: Int[Tensor, "taken"]) -> SparseRows:
        """Return some rows, in the order given."""
        length = self.row_ptr[rows + 1] - self.row_ptr[rows]
        _, position = ranges(self.row_ptr[rows], length)
        return type(self)(offsets_of(length), self.column[position], self.value[position], self.width)

    def slice(self, rows: slice) -> SparseRows:
        """Return a range of rows, which share their memory with these."""
        row_ptr = self.row_ptr[rows.start : rows.stop + 1]
        values = slice(int(row_ptr[0]), int(row_ptr[-1]))
        return type(self)(row_ptr - row_ptr[0], self.column[values], self.value[values], self.width)

    def transposed(self) -> SparseRows:
        """Return the transpose of a matrix on the host, the columns of each row ascending."""
        if not has_numba():
            return SparseRows.from_scipy(self.to_scipy().tocsc().T)
        from gdpnet.data.row_kernel import transpose

        row_ptr = torch.zeros(self.width + 1, dtype=torch.long)
        column, value = torch.empty_like(self.column), torch.empty_like(self.value)
        transpose(*(part.numpy() for part in (self.row_ptr, self.column, self.value, row_ptr, column, value)))
        return SparseRows(row_ptr, column, value, self.shape[0])

    @cached_property
    def keys(self) -> Int[Tensor, "values"]:
        """Return one number per value, row * width + column."""
        return self.row * self.width + self.column

    def find(self, row: Int[Tensor, "n"], wanted: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """Return the position of each wanted column in its row, -1 if absent; columns of a row must ascend."""
        if self.column.numel() == 0 or self.shape[0] * self.width >= _MOST_KEYS:
            return find_in_rows(self.row_ptr, self.column, row, wanted)
        key = row * self.width + wanted
        place = torch.searchsorted(self.keys, key).clamp_(max=self.column.numel() - 1)
        return torch.where(self.keys[place] == key, place, -1)

    @property
    def is_one_hot(self) -> bool:
        """Return whether each row is a single one in a column of its own, as for graphs without features."""
        if self.column.numel() != self.shape[0] or self.width < self.shape[0]:
            return False
        rows, columns = self.row_ptr.diff() == 1, self.column.diff() > 0
        return all(bool(test.all()) for test in (rows, self.value == 1, columns))

    @classmethod
    def identity(cls, nodes: int) -> SparseRows:
        """Return one-hot features: the number of each node."""
        return cls(torch.arange(nodes + 1), torch.arange(nodes), torch.ones(nodes), nodes)

    @classmethod
    def from_scipy(cls, matrix: sp.spmatrix | sp.sparray) -> SparseRows:
        """Convert a scipy sparse matrix."""
        csr = sp.csr_matrix(matrix)
        if not csr.has_canonical_format:
            csr = csr.copy()  # summing works in place, and the memory is the caller's
            csr.sum_duplicates()
        with np.errstate(over="ignore"):  # too large a number becomes infinite, and the graph refuses it
            value = csr.data.astype(np.float32)
        pointer, column = csr.indptr.astype(np.int64), csr.indices.astype(np.int64)
        return cls(torch.from_numpy(pointer), torch.from_numpy(column), torch.from_numpy(value), csr.shape[1])

    def to_scipy(self) -> sp.csr_matrix:
        """Return the matrix as a scipy one, on the host."""
        parts = (self.value.cpu().numpy(), self.column.cpu().numpy(), self.row_ptr.cpu().numpy())
        return sp.csr_matrix(parts, shape=self.shape)


Features = Tensor | SparseRows


def stored_values(features: Features) -> Float[Tensor, "*values"]:
    """Return the values that are stored; the zeros that sparse rows leave out are not."""
    return features.value if isinstance(features, SparseRows) else features


def to_numpy(features: Features) -> sp.csr_matrix | np.ndarray:
    """Return features on the host, as a scipy matrix if they are sparse."""
    return features.to_scipy() if isinstance(features, SparseRows) else features.cpu().numpy()


def to_dense(features: Features) -> Float[Tensor, "nodes features"]:
    """Return features as a dense tensor; sparse ones arrive on the host."""
    return torch.from_numpy(features.to_scipy().toarray()) if isinstance(features, SparseRows) else features


def to_sparse(features: Features) -> SparseRows:
    """Return features as sparse rows without stored zeros, the columns of each row ascending."""
    matrix = sp.csr_matrix(to_numpy(features), copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return SparseRows.from_scipy(matrix)


def on_device(features: Features, device: torch.device) -> Features:
    """Move features to a device; a GPU gets them dense if they fit, as dense products are faster there."""
    if isinstance(features, SparseRows) and device.type != "cpu":
        rows, columns = features.shape
        if rows * columns <= MOST_DENSE:
            full = torch.zeros(rows * columns, device=device)
            place = (features.row * columns + features.column).to(device)
            return full.index_copy_(0, place, features.value.to(device)).view(rows, columns)
    return features.to(device)


def take_rows(features: Features, rows: Int[Tensor, "taken"]) -> Features:
    """Return some feature rows, in the order given."""
    return features.take(rows) if isinstance(features, SparseRows) else features[rows]


def stack_rows(parts: Sequence[Features]) -> Features:
    """Put the rows of several tables below each other; the result is sparse only if all of them are."""
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if len(sparse) < len(parts):
        return torch.cat([to_dense(part) for part in parts])
    lengths = torch.cat([part.row_ptr.diff() for part in sparse])
    column, value = (torch.cat([getattr(part, name) for part in sparse]) for name in ("column", "value"))
    return SparseRows(offsets_of(lengths), column, value, sparse[0].width)


def beside(parts: Sequence[SparseRows]) -> SparseRows:
    """Put sparse tables with the same rows beside each other."""
    row_ptr = torch.stack([part.row_ptr for part in parts]).sum(dim=0)
    column, value = torch.empty(int(row_ptr[-1]), dtype=torch.long), torch.empty(int(row_ptr[-1]))
    begin, width = row_ptr[:-1].clone(), 0
    for part in parts:
        length = part.row_ptr.diff()
        place = ranges(begin, length)[1]
        column[place], value[place] = part.column + width, part.value
        begin, width = begin + length, width + part.width
    return SparseRows(row_ptr, column, value, width)


def slice_rows(features: Features, rows: slice) -> Features:
    """Return a range of feature rows."""
    return features.slice(rows) if isinstance(features, SparseRows) else features[rows]


def mask_rows(features: Features, kept: Bool[Tensor, "nodes"]) -> Features:
    """Set all rows to zero but those that are kept."""
    if not isinstance(features, SparseRows):
        return torch.where(kept[:, None], features, 0.0)
    stays = kept[features.row]
    row_ptr = offsets_of(torch.where(kept, features.row_ptr.diff(), 0))
    return SparseRows(row_ptr, features.column[stays], features.value[stays], features.width)


def project(features: Features, weight: Float[Tensor, "features out"]) -> Float[Tensor, "nodes out"]:
    """Multiply feature rows by a weight matrix, X W; sparse rows get no gradient."""
    if not isinstance(features, SparseRows):
        return features @ weight
    if torch.is_grad_enabled() and weight.requires_grad and features.device.type == "cpu":
        product: Tensor = _SparseProduct.apply(weight, features)
        return product
    return add_up(weight, features.row_ptr, features.column, features.value)


class _SparseProduct(torch.autograd.Function):
    """The product X W on the host; the gradient of W is Xᵀ times that of the product.

    Transposing first makes it one pass of additions, twice as fast as the gradient of `embedding_bag`.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: SparseRows) -> Tensor:
        """Multiply."""
        ctx.rows = rows
        return add_up(weight, rows.row_ptr, rows.column, rows.value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the weight matrix."""
        transpose = ctx.rows.transposed()
        return add_up(gradients[0].contiguous(), transpose.row_ptr, transpose.column, transpose.value), None


def add_up(
    rows: Float[Tensor, "rows width"],
    row_ptr: Int[Tensor, "offsets"],
    column: Int[Tensor, "values"],
    weight: Float[Tensor, "values"] | None = None,
) -> Float[Tensor, "sums width"]:
    """Add up the rows that each stretch of ``column`` names, weighted or not, on the device of the rows."""
    column = column.long()  # the type must be that of the offsets
    return F.embedding_bag(
        column, rows, row_ptr, mode="sum", per_sample_weights=weight, include_last_offset=True
    )


def normalise(features: Features, kind: str) -> Features:
    """Scale each row to an absolute sum of one (``row``) or to length one (``l2``); zero rows stay zero."""
    if kind == "none":
        return features if isinstance(features, SparseRows) else features.float()
    if isinstance(features, SparseRows):
        size = features.value.abs() if kind == "row" else features.value.square()
        total = sum_by_owner(size, features.row, features.shape[0])
        return features.with_value(features.value / _scale(total, kind)[features.row])
    scaled = torch.empty_like(features, dtype=torch.float32)
    for part, rows in zip(scaled.split(_ROWS), features.split(_ROWS), strict=True):
        size = rows.float().abs() if kind == "row" else rows.float().square()
        torch.div(rows, _scale(size.sum(dim=1), kind)[:, None], out=part)
    return scaled


def _scale(total: Float[Tensor, "nodes"], kind: str) -> Float[Tensor, "nodes"]:
    length = total if kind == "row" else total.sqrt()
    return torch.where(length > 0, length, torch.ones_like(length))
