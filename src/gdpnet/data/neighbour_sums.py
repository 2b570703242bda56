"""Sums and means of feature rows over the neighbours of each node, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, owners_of, sum_by_owner
from gdpnet.data.features import Features, SparseRows, to_numpy

_EDGES = 1 << 20
"""Edges that are processed at a time, which bounds the memory."""

_EDGES_ON_DEVICE = 1 << 24
"""The same on a GPU, where an edge takes eight bytes."""


def mix_rows(
    features: Features,
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"],
) -> Features:
    """Return for each node the mean of its own row, which weighs one, and its neighbours' weighted rows."""
    if not isinstance(features, Tensor):
        return mix_into(features, features, row_ptr, neighbour, weight)
    mixed = torch.empty_like(features)
    for nodes, edges, bounds in _blocks(features, row_ptr):
        block = mix_into(features[nodes], features, bounds, neighbour[edges], weight[edges])
        assert isinstance(block, Tensor)
        mixed[nodes] = block
    return mixed


def add_rows(
    features: Features, row_ptr: Int[Tensor, "offsets"], neighbour: Int[Tensor, "edges"]
) -> Features:
    """Return for each node the sum of its neighbours' rows; sparse features must be on the host."""
    if not isinstance(features, Tensor):
        return SparseRows.from_scipy(_adjacency(row_ptr, neighbour, features) @ to_numpy(features))
    total = torch.empty_like(features)
    for nodes, edges, bounds in _blocks(features, row_ptr):
        if features.device.type == "cpu":
            block = _adjacency(bounds, neighbour[edges], features) @ features.numpy()
            total[nodes] = torch.from_numpy(block)
        else:
            total[nodes] = add_on_device(features, bounds, neighbour[edges])
    return total


def _blocks(
    features: Tensor, row_ptr: Int[Tensor, "offsets"]
) -> Iterator[tuple[slice, slice, Int[Tensor, "bounds"]]]:
    """Yield ranges of nodes with the range of their edges and their offsets in it."""
    most = _EDGES if features.device.type == "cpu" else _EDGES_ON_DEVICE
    for first, last in cut_rows(row_ptr, most):
        edges = slice(int(row_ptr[first]), int(row_ptr[last]))
        yield slice(first, last), edges, row_ptr[first : last + 1] - edges.start


def add_on_device(
    rows: Float[Tensor, "nodes features"],
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"] | None = None,
) -> Float[Tensor, "targets features"]:
    """Add up the rows of each target's neighbours, weighted or not, on the device of the rows."""
    return F.embedding_bag(
        neighbour.long(),  # the type must be that of the offsets
        rows,
        row_ptr,
        mode="sum",
        per_sample_weights=weight,
        include_last_offset=True,
    )


def _adjacency(row_ptr: Tensor, neighbour: Tensor, features: Features) -> sp.csr_matrix:
    ones = np.ones(neighbour.numel(), dtype=np.float32)
    parts = (ones, neighbour.numpy(), row_ptr.numpy())
    return sp.csr_matrix(parts, shape=(row_ptr.numel() - 1, features.shape[0]))


def mix_into(
    own: Features,
    message: Features,
    row_ptr: Int[Tensor, "offsets"],
    neighbour: Int[Tensor, "edges"],
    weight: Float[Tensor, "edges"],
) -> Features:
    """Return for each target the mean of its own row, which weighs one, and its neighbours' weighted messages.

    The result is sparse unless a dense matrix takes less memory (a stored value takes three times the bytes).
    """
    if own.device.type != "cpu" and isinstance(own, Tensor) and isinstance(message, Tensor):
        return _mix_dense(own, message, row_ptr, neighbour, weight)
    parts = (weight.cpu().numpy(), neighbour.cpu().numpy(), row_ptr.cpu().numpy())
    mixing = sp.csr_matrix(parts, shape=(row_ptr.numel() - 1, message.shape[0]), dtype=np.float32)
    scale = sp.diags((1.0 / (1.0 + np.asarray(mixing.sum(axis=1)).ravel())).astype(np.float32))
    mixed = scale @ to_numpy(own) + (scale @ mixing) @ to_numpy(message)
    if not sp.issparse(mixed):
        return torch.from_numpy(np.asarray(mixed, dtype=np.float32)).to(own.device)
    if 3 * mixed.nnz > mixed.shape[0] * mixed.shape[1]:
        return torch.from_numpy(mixed.toarray()).to(own.device)
    return SparseRows.from_scipy(mixed).to(own.device)


def _mix_dense(own: Tensor, message: Tensor, row_ptr: Tensor, neighbour: Tensor, weight: Tensor) -> Tensor:
    """Compute the mean of dense rows without leaving their device."""
    received = add_on_device(message, row_ptr, neighbour, weight)
    total = 1.0 + sum_by_owner(weight, owners_of(row_ptr.diff()), row_ptr.numel() - 1)
    return (own + received) / total[:, None]
