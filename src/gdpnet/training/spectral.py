"""Spectral columns: the leading eigenvectors of a graph, by which a linear model tells classes from links alone.

A few wrong links mislead the sums around a node, and hardly change how the whole graph divides. Eigenvalues far below
zero count like those far above it: they divide a graph whose links join different classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor

from gdpnet.data.prepare import Prepared
from gdpnet.training.data import TrainingData

_POWER = 2
"""Columns are weighed by this power of their eigenvalues, so that the last ones matter little."""

_RESTARTS, _TOLERANCE = 20, 1e-2

_ZERO = 1e-6


class SpectralColumns(NamedTuple):
    """Eigenvectors as columns, those of the largest absolute eigenvalues first, weighed by these."""

    train: Float[Tensor, "nodes columns"]
    """Of the nodes of the training graph."""
    validation: Float[Tensor, "validation columns"]

    def leading(self, count: int) -> SpectralColumns:
        """Return the first columns, each row scaled to length one."""
        return SpectralColumns(*(torch.nn.functional.normalize(rows[:, :count], dim=1) for rows in self))


def spectral_columns(
    data: TrainingData, train: Float[Tensor, "train"], whole: Float[Tensor, "whole"], count: int
) -> SpectralColumns | None:
    """Return at most ``count`` columns, given the share of every edge that is kept; None if there are too few nodes.

    They are eigenvectors u of L = (D + d I)^(-1/2) A (D + d I)^(-1/2) of the training graph, with d the mean degree,
    which keeps small groups of nodes from having a column of their own (Qin and Rohe, 2013). The row of a validation
    node is that of L u / eigenvalue; in a transductive graph that is its row of u.
    """
    inner, outer = _adjacency(data.train, train), _adjacency(data.whole, whole)
    if inner.nnz == 0 or inner.shape[0] < 2 * count + 2:
        return None
    mean = inner.sum() / inner.shape[0]
    scale = _scale_of(inner, mean)
    value, vector = _leading(sp.diags(scale) @ inner @ sp.diags(scale), count)
    seen, validation = data.seen.cpu().numpy(), data.validation.cpu().numpy()
    there = np.zeros((outer.shape[0], len(value)))
    there[seen] = vector * scale[:, None]
    asked = outer[validation]
    around = (asked @ there) * _scale_of(asked, mean)[:, None] / value
    weight = np.abs(value) ** _POWER
    found = (torch.from_numpy(rows * weight).float().to(data.targets.device) for rows in (vector, around))
    return SpectralColumns(*found)


def _adjacency(prepared: Prepared, kept: Float[Tensor, "edges"]) -> sp.csr_matrix:
    """Return the symmetric adjacency matrix of the kept edges."""
    weight = prepared.weighed(kept * prepared.linked).double().cpu().numpy()
    links = prepared.neighbour.cpu().numpy(), prepared.row_ptr.cpu().numpy()
    matrix = sp.csr_matrix((weight, *links), (prepared.num_nodes, prepared.num_nodes))
    return ((matrix + matrix.T) / 2).tocsr()


def _scale_of(matrix: sp.csr_matrix, mean: float) -> np.ndarray:
    """Return (D + d I)^(-1/2) as one number per row."""
    return 1.0 / np.sqrt(np.asarray(matrix.sum(axis=1)).ravel() + mean)


def _leading(matrix: sp.csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of the largest absolute values, and their eigenvectors; fewer if some are not found."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    try:
        value, vector = eigsh(matrix, count, which="LM", v0=start, tol=_TOLERANCE, maxiter=_RESTARTS)
    except ArpackNoConvergence as error:
        value, vector = error.eigenvalues, error.eigenvectors
    order = np.argsort(-np.abs(value))
    order = order[np.abs(value[order]) > _ZERO]
    return value[order], vector[:, order]
