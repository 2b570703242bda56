"""Node features, dense or sparse; on the host sparse ones are never densified."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, find_in_rows, offsets_of, owners_of, ranges, sum_by_owner

ONE_HOT_NOTE = "nodes have no features, so each got its own number, one-hot"
"""What is said of a graph that came without features."""


_ROWS = 1 << 16
"""Dense rows worked on at once, so that what lies between does not grow with the graph."""

_LINKS = 1 << 20
"""Edges worked on at once, likewise."""

_LINKS_ON_DEVICE = 1 << 24
"""The same on a GPU, where eight bytes are made for each."""


_MOST_KEYS = 1 << 63
"""Keys of row and column must stay below this; in larger matrices rows are searched without keys."""


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix by rows: the columns and values of row i lie at ``row_ptr[i] : row_ptr[i + 1]``."""

    row_ptr: Int[Tensor, "offsets"]
    column: Int[Tensor, "values"]
    value: Float[Tensor, "values"]
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows and columns, as a dense tensor would."""
        return self.row_ptr.numel() - 1, self.width

    @property
    def device(self) -> torch.device:
        """Return where the values lie."""
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
        return type(self)(self.row_ptr, self.column, value, self.width)

    def take(self, rows: Int[Tensor, "taken"]) -> SparseRows:
        """Return the rows asked for, in that order."""
        length = self.row_ptr[rows + 1] - self.row_ptr[rows]
        _, position = ranges(self.row_ptr[rows], length)
        return type(self)(offsets_of(length), self.column[position], self.value[position], self.width)

    @cached_property
    def keys(self) -> Int[Tensor, "values"]:
        """Return one number a value, row * width + column."""
        return self.row * self.width + self.column

    def find(self, row: Int[Tensor, "n"], wanted: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """Return where each wanted column stands in its row, -1 where it does not; columns of a row must ascend."""
        if self.column.numel() == 0 or self.shape[0] * self.width >= _MOST_KEYS:
            return find_in_rows(self.row_ptr, self.column, row, wanted)
        key = row * self.width + wanted
        place = torch.searchsorted(self.keys, key).clamp_(max=self.column.numel() - 1)
        return torch.where(self.keys[place] == key, place, -1)

    @property
    def is_one_hot(self) -> bool:
        """Say whether each row is nothing but a number of its own: what graphs without features get."""
        rows = self.shape[0]
        if self.column.numel() != rows or self.width < rows:
            return False
        return (
            bool((self.row_ptr.diff() == 1).all())
            and bool((self.value == 1).all())
            and bool((self.column.diff() > 0).all())
        )

    @classmethod
    def identity(cls, nodes: int) -> SparseRows:
        """Return one-hot features: the node's own number."""
        return cls(torch.arange(nodes + 1), torch.arange(nodes), torch.ones(nodes), nodes)

    @classmethod
    def from_scipy(cls, matrix: sp.spmatrix | sp.sparray) -> SparseRows:
        """Take over a scipy sparse matrix."""
        csr = sp.csr_matrix(matrix)
        if not csr.has_canonical_format:
            csr = csr.copy()  # summing works in place, and the memory is the giver's
            csr.sum_duplicates()
        with np.errstate(over="ignore"):  # too large a number becomes infinite, and the graph refuses it
            value = csr.data.astype(np.float32)
        pointer, column = csr.indptr.astype(np.int64), csr.indices.astype(np.int64)
        return cls(torch.from_numpy(pointer), torch.from_numpy(column), torch.from_numpy(value), csr.shape[1])

    def to_scipy(self) -> sp.csr_matrix:
        """Return the same matrix as scipy's."""
        parts = (self.value.cpu().numpy(), self.column.cpu().numpy(), self.row_ptr.cpu().numpy())
        return sp.csr_matrix(parts, shape=self.shape)


Features = Tensor | SparseRows

MOST_DENSE = 1 << 30
"""Sparse rows of up to this many values, zeros counted, are laid out in full on a GPU, where that is faster."""


def on_device(features: Features, device: torch.device) -> Features:
    """Bring features to a device; a GPU gets them dense where they fit, as its dense products are the fast ones."""
    if isinstance(features, SparseRows) and device.type != "cpu":
        rows, columns = features.shape
        if rows * columns <= MOST_DENSE:
            full = torch.zeros(rows * columns, device=device)
            place = (features.row * columns + features.column).to(device)
            return full.index_copy_(0, place, features.value.to(device)).view(rows, columns)
    return features.to(device)


def take_rows(features: Features, rows: Int[Tensor, "taken"]) -> Features:
    """Return the feature rows asked for, in that order."""
    return features.take(rows) if isinstance(features, SparseRows) else features[rows]


def slice_rows(features: Features, rows: slice) -> Features:
    """Return the feature rows of a range."""
    if not isinstance(features, SparseRows):
        return features[rows]
    row_ptr = features.row_ptr[rows.start : rows.stop + 1]
    values = slice(int(row_ptr[0]), int(row_ptr[-1]))
    return SparseRows(row_ptr - row_ptr[0], features.column[values], features.value[values], features.width)


def project(features: Features, weight: Float[Tensor, "features out"]) -> Float[Tensor, "nodes out"]:
    """Multiply feature rows with a weight matrix, X W."""
    if not isinstance(features, SparseRows):
        return features @ weight
    return F.embedding_bag(
        features.column,
        weight,
        features.row_ptr,
        mode="sum",
        per_sample_weights=features.value,
        include_last_offset=True,
    )


def drop_inputs(features: Features, share: float, generator: torch.Generator) -> Features:
    """Set a random share of the feature values to zero and scale up the rest."""
    if isinstance(features, SparseRows):
        return features.with_value(drop_values(features.value, share, generator))
    return drop_values(features, share, generator)


def drop_values(
    value: Float[Tensor, "*shape"], share: float, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    """Set a random share of some values to zero and scale up the rest."""
    if share == 0.0:
        return value
    kept = torch.rand(value.shape, generator=generator, device=value.device) >= share
    return value * kept / (1.0 - share)


def normalise(features: Features, kind: str) -> Features:
    """Scale each row to sum one (``row``) or to length one (``l2``); rows of zeros stay."""
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


def mix_rows(
    features: Features,
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"],
) -> Features:
    """Return for each node the mean of its own row and its neighbours' rows, the latter weighted."""
    if isinstance(features, SparseRows):
        return mix_into(features, features, row_ptr, neighbour, weight)
    mixed = torch.empty_like(features)
    for first, last in cut_rows(row_ptr, _links_at_once(features)):
        edges = slice(int(row_ptr[first]), int(row_ptr[last]))
        links = (row_ptr[first : last + 1] - edges.start, neighbour[edges], weight[edges])
        part = mix_into(features[first:last], features, *links)
        assert isinstance(part, Tensor)
        mixed[first:last] = part
    return mixed


def _links_at_once(features: Features) -> int:
    return _LINKS if features.device.type == "cpu" else _LINKS_ON_DEVICE


def add_rows(
    features: Features, row_ptr: Int[Tensor, "offsets"], neighbour: Int[Tensor, "edges"]
) -> Features:
    """Return for each node the sum of its neighbours' rows; sparse ones must be on the host."""
    if isinstance(features, SparseRows):
        return SparseRows.from_scipy(_links(row_ptr, neighbour, features) @ features.to_scipy())
    total = torch.empty_like(features)
    for first, last in cut_rows(row_ptr, _links_at_once(features)):
        edges = slice(int(row_ptr[first]), int(row_ptr[last]))
        bounds = row_ptr[first : last + 1] - edges.start
        if features.device.type == "cpu":
            total[first:last] = torch.from_numpy(
                _links(bounds, neighbour[edges], features) @ features.numpy()
            )
        else:
            total[first:last] = add_on_device(features, bounds, neighbour[edges])
    return total


def add_on_device(
    given: Float[Tensor, "nodes features"],
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"] | None = None,
) -> Float[Tensor, "rows features"]:
    """Add up the rows that some targets' neighbours give, weighted or not, without leaving their device."""
    return F.embedding_bag(
        neighbour.long(),  # as the offsets are
        given,
        row_ptr,
        mode="sum",
        per_sample_weights=weight,
        include_last_offset=True,
    )


def _links(row_ptr: Tensor, neighbour: Tensor, features: Features) -> sp.csr_matrix:
    """Return the matrix of some nodes' links, one for each."""
    ones = np.ones(neighbour.numel(), dtype=np.float32)
    parts = (ones, neighbour.numpy(), row_ptr.numpy())
    return sp.csr_matrix(parts, shape=(row_ptr.numel() - 1, features.shape[0]))


def mix_into(
    own: Features,
    given: Features,
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"],
) -> Features:
    """Return for each target the mean of its own row and the rows that its neighbours give, the latter weighted.

    Kept sparse unless a dense matrix takes less memory (a value of a sparse row takes three times the bytes).
    """
    if own.device.type != "cpu" and isinstance(own, Tensor) and isinstance(given, Tensor):
        return _mix_dense(own, given, row_ptr, neighbour, weight)
    parts = (weight.cpu().numpy(), neighbour.cpu().numpy(), row_ptr.cpu().numpy())
    mixing = sp.csr_matrix(parts, shape=(row_ptr.numel() - 1, given.shape[0]), dtype=np.float32)
    scale = (1.0 / (1.0 + np.asarray(mixing.sum(axis=1)).ravel())).astype(np.float32)
    mixing, alone = sp.diags(scale) @ mixing, sp.diags(scale)
    mixed = alone @ _host(own) + mixing @ _host(given)
    if not sp.issparse(mixed):
        return torch.from_numpy(np.asarray(mixed, dtype=np.float32)).to(own.device)
    if 3 * mixed.nnz > mixed.shape[0] * mixed.shape[1]:
        return torch.from_numpy(mixed.toarray()).to(own.device)
    return SparseRows.from_scipy(mixed).to(own.device)


def _mix_dense(own: Tensor, given: Tensor, row_ptr: Tensor, neighbour: Tensor, weight: Tensor) -> Tensor:
    """Mix dense rows without leaving their device."""
    heard = add_on_device(given, row_ptr, neighbour, weight)
    total = 1.0 + sum_by_owner(weight, owners_of(row_ptr.diff()), row_ptr.numel() - 1)
    return (own + heard) / total[:, None]


def _host(features: Features) -> sp.csr_matrix | np.ndarray:
    return features.to_scipy() if isinstance(features, SparseRows) else features.cpu().numpy()
