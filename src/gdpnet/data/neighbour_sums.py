"""Sums and means of feature rows over the neighbours of each node, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, owners_of, sum_by_owner
from gdpnet.data.features import (
    Features,
    SparseRows,
    add_up,
    slice_rows,
    stack_rows,
    stored_values,
    to_dense,
    to_numpy,
)

_EDGES = 1 << 20
"""Edges that are processed at a time, which bounds the memory."""

_EDGES_OF_SPARSE = 1 << 14
"""The same for sparse rows, each of which may fill up: an edge may take kilobytes."""

_EDGES_ON_DEVICE = 1 << 24
"""The same on a GPU, where an edge takes eight bytes."""


Offsets = Int[Tensor, "offsets"]
Edges = Int[Tensor, "edges"]
Weights = Float[Tensor, "edges"]
"""The neighbours of each node, row by row, and a weight per edge."""


def mix_rows(features: Features, row_ptr: Offsets, neighbour: Edges, weight: Weights) -> Features:
    """Return for each node the mean of its own row, which weighs one, and its neighbours' weighted rows."""
    if isinstance(features, SparseRows):
        return mix_into(features, features, row_ptr, neighbour, weight)
    return mix_dense_rows(torch.empty_like(features), features, row_ptr, neighbour, weight)


def mix_dense_rows(
    mixed: Float[Tensor, "nodes width"],
    rows: Float[Tensor, "nodes width"],
    row_ptr: Offsets,
    neighbour: Edges,
    weight: Weights,
) -> Float[Tensor, "nodes width"]:
    """Write `mix_rows` of dense rows into ``mixed``, and return it."""
    for nodes, edges, bounds in _blocks(rows, row_ptr):
        mixed[nodes] = mix_dense(rows[nodes], rows, bounds, neighbour[edges], weight[edges])
    return mixed


def add_rows(features: Features, row_ptr: Offsets, neighbour: Edges) -> Features:
    """Return for each node the sum of its neighbours' rows; sparse features must be on the host."""
    if isinstance(features, SparseRows):
        product = _matrix(row_ptr, neighbour, features) @ to_numpy(features)
        product.sum_duplicates()  # in place, where `from_scipy` would copy first
        return SparseRows.from_scipy(product)
    total = torch.empty_like(features)
    for nodes, edges, bounds in _blocks(features, row_ptr):
        total[nodes] = add_up(features, bounds, neighbour[edges])
    return total


def _blocks(features: Tensor, row_ptr: Offsets) -> Iterator[tuple[slice, slice, Offsets]]:
    """Yield ranges of nodes with the range of their edges and their offsets in it."""
    most = _EDGES if features.device.type == "cpu" else _EDGES_ON_DEVICE
    for first, last in cut_rows(row_ptr, most):
        edges = slice(int(row_ptr[first]), int(row_ptr[last]))
        yield slice(first, last), edges, row_ptr[first : last + 1] - edges.start


def _matrix(
    row_ptr: Offsets,
    neighbour: Edges,
    rows: Features | sp.csr_matrix | np.ndarray,
    weight: Weights | None = None,
) -> sp.csr_matrix:
    """Return the weights of the edges, or ones, as a matrix that multiplies rows."""
    weight = torch.ones(neighbour.numel()) if weight is None else weight
    parts = (weight.cpu().numpy(), neighbour.cpu().numpy(), row_ptr.cpu().numpy())
    return sp.csr_matrix(parts, shape=(row_ptr.numel() - 1, rows.shape[0]), dtype=np.float32)


def mix_into(
    own: Features, message: Features, row_ptr: Offsets, neighbour: Edges, weight: Weights
) -> Features:
    """Return for each target the mean of its own row, which weighs one, and its neighbours' weighted messages.

    The result is sparse unless a dense matrix takes less memory (a stored value takes three times the bytes).
    """
    if isinstance(own, Tensor) and isinstance(message, Tensor):
        return mix_dense(own, message, row_ptr, neighbour, weight)
    messages, mixed, stored = to_numpy(message), [], 0
    for first, last in cut_rows(row_ptr, _EDGES_OF_SPARSE):
        edges = slice(int(row_ptr[first]), int(row_ptr[last]))
        links = (row_ptr[first : last + 1] - edges.start, neighbour[edges], weight[edges])
        mixed.append(_mix_block(to_numpy(slice_rows(own, slice(first, last))), messages, *links))
        stored += stored_values(mixed[-1]).numel()
        if 3 * stored > own.shape[0] * own.shape[1]:
            mixed = [to_dense(part) for part in mixed]
    return stack_rows(mixed).to(own.device) if mixed else own


def _mix_block(
    own: sp.csr_matrix | np.ndarray,
    messages: sp.csr_matrix | np.ndarray,
    row_ptr: Offsets,
    neighbour: Edges,
    weight: Weights,
) -> Features:
    """Return the means of some targets, sparse if both their own rows and the messages are."""
    mixing = _matrix(row_ptr, neighbour, messages, weight)
    scale = sp.diags((1.0 / (1.0 + np.asarray(mixing.sum(axis=1)).ravel())).astype(np.float32))
    mixed = scale @ own + (scale @ mixing) @ messages
    if not sp.issparse(mixed):
        return torch.from_numpy(np.asarray(mixed, dtype=np.float32))
    mixed.sum_duplicates()  # in place, where `from_scipy` would copy first
    return SparseRows.from_scipy(mixed)


def mix_dense(own: Tensor, message: Tensor, row_ptr: Tensor, neighbour: Tensor, weight: Tensor) -> Tensor:
    """Compute the mean of dense rows without leaving their device."""
    received = add_up(message, row_ptr, neighbour, weight)
    total = 1.0 + sum_by_owner(weight, owners_of(row_ptr.diff()), row_ptr.numel() - 1)
    return (own + received) / total[:, None]
