"""Noise in the features and labels of a graph; each function returns the changed graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet._core.words import counted
from gdpnet.data.features import (
    Features,
    SparseRows,
    mask_rows,
    stored_values,
    take_rows,
    to_dense,
    to_sparse,
)
from gdpnet.data.graph import Graph, with_features
from gdpnet.data.sampling import distinct, untaken
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError

LARGEST_DENSE = 500_000_000
"""Values, zeros included, that sparse features may have if they are to be made dense."""

CHUNK = 20_000_000
"""Values that are compared at a time."""


def mask_features(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Set the whole feature row of a share of the nodes to zero."""
    shown = torch.ones(graph.num_nodes, dtype=torch.bool)
    shown[_some(rng, graph.num_nodes, rate)] = False
    return with_features(graph, mask_rows(graph.features, shown))


def swap_features(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Replace the feature row of a share of the nodes by the original row of another random node."""
    nodes = graph.num_nodes
    if nodes < 2:
        raise GraphError("swapped-features needs two nodes or more, found one")
    row = torch.arange(nodes)
    chosen = _some(rng, nodes, rate)
    row[chosen] = (chosen + torch.from_numpy(rng.integers(1, nodes, chosen.numel()))) % nodes
    return with_features(graph, take_rows(graph.features, row))


def blur_features(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add Gaussian noise of ``rate`` times the standard deviation of all feature values; the result is dense."""
    numbers = graph.num_nodes * graph.num_features
    if isinstance(graph.features, SparseRows) and numbers > LARGEST_DENSE:
        raise GraphError(
            f"gaussian-features makes sparse features dense, and {graph.num_nodes:,} nodes times "
            f"{graph.num_features:,} features are more than {LARGEST_DENSE:,} numbers"
        )
    value = stored_values(graph.features).flatten().double()
    deviation = (value.square().sum() / numbers - (value.sum() / numbers).square()).clamp(min=0).sqrt()
    noise = rng.standard_normal((graph.num_nodes, graph.num_features), dtype=np.float32)
    noise *= np.float32(rate * float(deviation))
    return with_features(graph, torch.from_numpy(noise).add_(to_dense(graph.features)))


def flip_bits(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Move a share of the non-zero values of each row to columns that are zero.

    For binary features this flips bits. The number of flips is rounded per row, so a row of few values may stay.
    """
    rows, width = to_sparse(graph.features), graph.num_features
    pointer, column = rows.row_ptr.numpy(), rows.column.numpy()
    ones = np.diff(pointer)
    flips = np.rint(rate * ones).astype(np.int64)
    short = np.flatnonzero(flips > width - ones)
    if short.size:
        node = short[0]
        raise GraphError(
            f"flipped-bits={rate:g} clears {flips[node]:,} features of node '{graph.node_ids[node]}' and needs as "
            f"many that are zero, found {width - ones[node]:,}"
        )
    owner, rank = distinct(rng, ones, flips)
    zero_owner, zero_rank = distinct(rng, width - ones, flips)
    moved = column.copy()
    # both lists of owners are the same, as each row has as many zeros as ones; the pairing is random
    mixed = np.lexsort((rng.random(zero_owner.size), zero_owner))
    moved[pointer[owner] + rank] = untaken(zero_owner, zero_rank, pointer, column, width)[mixed]
    features = SparseRows(rows.row_ptr, torch.from_numpy(moved), rows.value, width)
    dense = isinstance(graph.features, Tensor)
    return with_features(graph, to_dense(features) if dense else to_sparse(features))


def flip_labels(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Change the labels of a share of the training nodes to a random other class."""
    train = _labelled_training_nodes(graph, "flipped-labels")
    chosen = train[_some(rng, train.numel(), rate)]
    labels = graph.labels.clone()
    step = torch.from_numpy(rng.integers(1, graph.num_classes, chosen.numel()))
    labels[chosen] = (labels[chosen] + step) % graph.num_classes
    return replace(graph, labels=labels)


def pair_labels(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Change the labels of a share of each class's training nodes to the next class, cyclically."""
    return _relabelled(graph, rate, rng, "pair-labels", lambda label: (label + 1) % graph.num_classes)


def hide_labels(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Hide the labels of a share of each class's training nodes, but at least one per class stays."""
    return _relabelled(
        graph, rate, rng, "hidden-labels", lambda label: np.full_like(label, UNKNOWN), spared=1
    )


def _relabelled(
    graph: Graph,
    rate: float,
    rng: np.random.Generator,
    kind: str,
    change: Callable[[np.ndarray], np.ndarray],
    spared: int = 0,
) -> Graph:
    """Change the labels of a share of each class's training nodes; at least ``spared`` per class stay."""
    train = _labelled_training_nodes(graph, kind).numpy()
    labels = graph.labels.numpy()
    by_class = train[np.argsort(labels[train], kind="stable")]
    size = np.bincount(labels[train], minlength=graph.num_classes)
    wanted = np.minimum(np.rint(rate * size).astype(np.int64), np.maximum(size - spared, 0))
    owner, rank = distinct(rng, size, wanted)
    changed = labels.copy()
    changed[by_class[(np.cumsum(size) - size)[owner] + rank]] = change(owner)
    return replace(graph, labels=torch.from_numpy(changed))


def changed_rows(before: Features, after: Features) -> Bool[Tensor, "nodes"]:
    """Return whether each feature row changed."""
    if before is after:
        return torch.zeros(before.shape[0], dtype=torch.bool)
    if isinstance(before, SparseRows) and isinstance(after, SparseRows):
        differs = before.to_scipy() != after.to_scipy()
        return torch.from_numpy(np.diff(differs.tocsr().indptr) > 0)
    chunks = torch.arange(before.shape[0]).split(max(CHUNK // before.shape[1], 1))
    return torch.cat(
        [
            (to_dense(take_rows(before, rows)) != to_dense(take_rows(after, rows))).any(dim=1)
            for rows in chunks
        ]
    )


def _labelled_training_nodes(graph: Graph, kind: str) -> Int[Tensor, "train"]:
    train = graph.nodes_in(SPLITS[1])
    train = train[graph.labels[train] != UNKNOWN]
    if train.numel() == 0 or graph.num_classes < 2:
        raise GraphError(
            f"{kind} needs labelled training nodes and two classes or more, found "
            f"{counted(train.numel(), 'such node')} and {counted(graph.num_classes, 'class', 'classes')}"
        )
    return train


def _some(rng: np.random.Generator, count: int, rate: float) -> Int[Tensor, "chosen"]:
    """Sample a share of the numbers below ``count``; a smaller share is a subset of a larger one."""
    return torch.from_numpy(rng.permutation(count)[: round(rate * count)])
