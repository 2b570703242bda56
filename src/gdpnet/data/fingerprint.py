"""A short checksum of a graph's content."""

from __future__ import annotations

import hashlib

import torch

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph

_PIECE = 1 << 18
"""Rows of an array that are summed up at once."""


def fingerprint(graph: Graph) -> str:
    """Return a short sum of a graph's edges, their weights, features, labels and split."""
    digest = hashlib.sha256()
    features = graph.features
    if isinstance(features, SparseRows):
        values = [features.row_ptr, features.column, features.value]
    else:
        values = [features]
    if graph.edge_weight is not None:
        values.append(graph.edge_weight)
    for part in (graph.row_ptr, graph.neighbour, graph.labels, graph.split, *values):
        for piece in part.split(_PIECE):
            # node numbers count the same in 32 bits and in 64
            wide = piece.long() if piece.dtype == torch.int32 else piece
            digest.update(wide.contiguous().numpy().data)
    return digest.hexdigest()[:16]
