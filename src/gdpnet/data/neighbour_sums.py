"""Sums and means of feature rows over the neighbours of each node, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from gdpnet._core.csr import cut_rows, offsets_of, owners_of, sum_by_owner
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
from gdpnet.data.row_products import in_loops

_EDGES = 1 << 20
"""Edges that are processed at a time, which bounds the memory."""

_EDGES_OF_SPARSE = 1 << 14
"""The same for sparse rows, each of which may fill up: an edge may take kilobytes."""

_MOST_SCANNED = 1 << 13
"""Columns up to which compiled loops are used: they look at every column of every sum."""

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
    for nodes, edges, bounds in _blocks(rows, row_ptr, neighbour):
        mixed[nodes] = mix_dense(rows[nodes], rows, bounds, neighbour[edges], weight[edges])
    return mixed


def add_rows(features: Features, row_ptr: Offsets, neighbour: Edges) -> Features:
    """Return for each node the sum of its neighbours' rows; sparse features must be on the host."""
    if isinstance(features, SparseRows):
        if _in_loops(features, neighbour):
            nothing, ones = torch.zeros(features.shape[0]), torch.ones(neighbour.numel())
            links = (row_ptr, neighbour, ones)
            return stack_rows(list(_add_in_loops(features, nothing, features, *links, last_first=False)))
        product = _matrix(row_ptr, neighbour, features) @ to_numpy(features)
        product.sum_duplicates()  # in place, where `from_scipy` would copy first
        return SparseRows.from_scipy(product)
    total = torch.empty_like(features)
    for nodes, edges, bounds in _blocks(features, row_ptr, neighbour):
        total[nodes] = add_up(features, bounds, neighbour[edges])
    return total


def _blocks(features: Features, row_ptr: Offsets, neighbour: Edges) -> Iterator[tuple[slice, slice, Offsets]]:
    """Yield ranges of nodes with the range of their edges and their offsets in it.

    If one range has them all, as on a GPU it nearly always does, the host does not wait for the device.
    """
    most = _EDGES if features.device.type == "cpu" else _EDGES_ON_DEVICE
    most = _EDGES_OF_SPARSE if isinstance(features, SparseRows) else most
    rows, total = row_ptr.numel() - 1, neighbour.numel()
    for first, last in cut_rows(row_ptr, most, total):
        if (first, last) == (0, rows):
            yield slice(0, rows), slice(0, total), row_ptr
            return
        edges = slice(int(row_ptr[first]), int(row_ptr[last]))
        yield slice(first, last), edges, row_ptr[first : last + 1] - edges.start


def _matrix(
    row_ptr: Offsets, neighbour: Edges, rows: Features, weight: Weights | None = None
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
    if isinstance(own, SparseRows) and isinstance(message, SparseRows) and _in_loops(own, neighbour):
        share = torch.from_numpy(_own_share(_matrix(row_ptr, neighbour, message, weight)))
        owner = owners_of(row_ptr.diff())
        links = (row_ptr, neighbour, weight * share[owner])
        # scipy's product of three matrices takes the last neighbour first, and sums are to round alike
        parts: Iterator[Features] = _add_in_loops(own, share, message, *links, last_first=True)
    else:
        parts = _mix_with_scipy(own, message, row_ptr, neighbour, weight)
    return _stacked(parts, own)


def _stacked(parts: Iterable[Features], like: Features) -> Features:
    """Put parts below each other that have the shape of other features; dense if that takes less memory."""
    found: list[Features] = []
    stored = 0
    for part in parts:
        found.append(part)
        stored += stored_values(part).numel()
        if 3 * stored > like.shape[0] * like.shape[1]:
            found = [to_dense(one) for one in found]
    return stack_rows(found).to(like.device) if found else like


def add_to_rows(
    own: Features,
    share: Float[Tensor, "targets"] | None,
    message: Features,
    row_ptr: Offsets,
    neighbour: Edges,
    weight: Weights,
) -> Features:
    """Return the sum of a share, or nothing, of each target's own row and of its neighbours' weighted messages.

    As in `mix_into`, the result is sparse unless a dense matrix takes less memory.
    """
    if isinstance(own, SparseRows) and isinstance(message, SparseRows):
        share = torch.zeros(own.shape[0]) if share is None else share
        if _in_loops(own, neighbour):
            links = (row_ptr, neighbour, weight)
            return _stacked(_add_in_loops(own, share, message, *links, last_first=False), own)
        added = _matrix(row_ptr, neighbour, message, weight) @ to_numpy(message)
        added = added + sp.diags(share.cpu().numpy()) @ to_numpy(own)
        added.sum_duplicates()  # in place, as in `_mix_with_scipy`
        added.eliminate_zeros()
        return _stacked([SparseRows.from_scipy(added)], own)
    added = add_up(to_dense(message).to(weight), row_ptr, neighbour, weight)
    return added if share is None else torch.addcmul(added, share[:, None], to_dense(own).to(added))


def _mix_with_scipy(
    own: Features, message: Features, row_ptr: Offsets, neighbour: Edges, weight: Weights
) -> Iterator[Features]:
    """Yield the means of some targets at a time, sparse if both their own rows and the messages are."""
    messages = to_numpy(message)
    for nodes, edges, bounds in _blocks(own, row_ptr, neighbour):
        mixing = _matrix(bounds, neighbour[edges], message, weight[edges])
        scale = sp.diags(_own_share(mixing))
        mixed = scale @ to_numpy(slice_rows(own, nodes)) + (scale @ mixing) @ messages
        if sp.issparse(mixed):
            mixed.sum_duplicates()  # in place, where `from_scipy` would copy first
            yield SparseRows.from_scipy(mixed)
        else:
            yield torch.from_numpy(np.asarray(mixed, dtype=np.float32))


def _own_share(mixing: sp.csr_matrix) -> NDArray[np.float32]:
    """Return the share of each target's own row in a mean with its neighbours' weighted rows."""
    share: NDArray[np.float32] = (1.0 / (1.0 + np.asarray(mixing.sum(axis=1)).ravel())).astype(np.float32)
    return share


def _in_loops(rows: SparseRows, neighbour: Edges) -> bool:
    """Return whether compiled loops add up sparse rows: those of many edges on the host, not too wide, with numba."""
    return rows.width <= _MOST_SCANNED and in_loops(neighbour)


def _add_in_loops(
    own: SparseRows,
    share: Float[Tensor, "nodes"],
    message: SparseRows,
    row_ptr: Offsets,
    neighbour: Edges,
    weight: Weights,
    *,
    last_first: bool,
) -> Iterator[SparseRows]:
    """Yield the sum of a share of each target's own row and of its neighbours' weighted rows, some at a time."""
    from gdpnet.data.row_kernel import add_weighted

    scratch, length = torch.zeros(message.width), message.row_ptr.diff()
    for nodes, edges, bounds in _blocks(own, row_ptr, neighbour):
        rows = own.slice(nodes)
        sums = offsets_of(length[neighbour[edges]])[bounds].diff()
        most = int((rows.row_ptr.diff() + sums).clamp(max=message.width).sum())
        found = torch.zeros_like(bounds), torch.empty(most, dtype=torch.long), torch.empty(most)
        links = (bounds, neighbour[edges], weight[edges])
        tables = [(one.row_ptr, one.column, one.value) for one in (rows, message)]
        parts = (*tables[0], share[nodes], *links, *tables[1], *found, scratch)
        add_weighted(*(part.numpy() for part in parts), last_first)
        filled = int(found[0][-1])
        yield SparseRows(found[0], found[1][:filled], found[2][:filled], message.width)


def mix_dense(own: Tensor, message: Tensor, row_ptr: Tensor, neighbour: Tensor, weight: Tensor) -> Tensor:
    """Compute the mean of dense rows without leaving their device."""
    received = add_up(message, row_ptr, neighbour, weight)
    total = 1.0 + sum_by_owner(weight, owners_of(row_ptr.diff(), neighbour.numel()), row_ptr.numel() - 1)
    return (own + received) / total[:, None]
