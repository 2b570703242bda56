"""A short checksum of a graph's content."""

from __future__ import annotations

import hashlib

import torch

from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import feature_arrays

_PIECE = 1 << 18
"""Rows of an array that are hashed at a time."""


def fingerprint(graph: Graph) -> str:
    """Return a checksum of a graph's edges, features, edge weights, labels and split."""
    digest = hashlib.sha256()
    arrays = [graph.row_ptr, graph.neighbour, graph.labels, graph.split]
    arrays += feature_arrays(graph.features).values()
    if graph.edge_weight is not None:
        arrays.append(graph.edge_weight)
    for array in arrays:
        for piece in array.split(_PIECE):
            # node numbers in 32 and in 64 bits must give the same checksum
            wide = piece.long() if piece.dtype == torch.int32 else piece
            digest.update(wide.contiguous().numpy().data)
    return digest.hexdigest()[:16]
