"""Reduce features to a few columns, for the tasks that read no label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from gdpnet.data.features import SparseRows, normalise, project
from gdpnet.data.graph import Graph


def fit_basis(graph: Graph, rank: int) -> Float[Tensor, "features rank"]:
    """Return the leading right singular vectors of the L2-normalised features."""
    rows = normalise(graph.features, "l2")
    table = rows.to_scipy() if isinstance(rows, SparseRows) else rows.numpy()
    _, _, directions = randomized_svd(table, min(rank, *table.shape), random_state=0)
    return torch.from_numpy(np.ascontiguousarray(directions.T, dtype=np.float32))


def reduce_features(graph: Graph, basis: Float[Tensor, "features rank"]) -> Graph:
    """Return the graph with its features projected onto a basis."""
    return replace(graph, features=project(normalise(graph.features, "l2"), basis))
