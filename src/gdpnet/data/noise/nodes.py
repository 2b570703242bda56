"""Noise in the features and the labels of a graph; each function returns the changed graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet._core.csr import offsets_of
from gdpnet.data.features import Features, SparseRows, take_rows
from gdpnet.data.graph import SPLITS, UNKNOWN, Graph
from gdpnet.data.sampling import distinct, untaken
from gdpnet.errors import GraphError

LARGEST_DENSE = 500_000_000
"""The most numbers that sparse features may become when they are made dense."""

CHUNK = 20_000_000
"""Numbers compared at a time."""


def mask_features(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Set the whole feature row of a share of the nodes to zero."""
    shown = torch.ones(graph.num_nodes, dtype=torch.bool)
    shown[_some(rng, graph.num_nodes, rate)] = False
    features = graph.features
    if not isinstance(features, SparseRows):
        return replace(graph, features=torch.where(shown[:, None], features, 0.0))
    row = features.row
    kept = shown[row]
    pointer = offsets_of(torch.bincount(row[kept], minlength=graph.num_nodes))
    return replace(
        graph, features=SparseRows(pointer, features.column[kept], features.value[kept], features.width)
    )


def swap_features(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Replace the feature row of a share of the nodes by that of another random node, as it was."""
    nodes = graph.num_nodes
    if nodes < 2:
        raise GraphError("swapped-features needs two nodes or more, found one")
    row = torch.arange(nodes)
    chosen = _some(rng, nodes, rate)
    row[chosen] = (chosen + torch.from_numpy(rng.integers(1, nodes, chosen.numel()))) % nodes
    return replace(graph, features=take_rows(graph.features, row))


def blur_features(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Add normal noise to every feature, of ``rate`` times the standard deviation over all of them.

    The features become dense.
    """
    numbers = graph.num_nodes * graph.num_features
    if isinstance(graph.features, SparseRows) and numbers > LARGEST_DENSE:
        raise GraphError(
            f"gaussian-features makes sparse features dense, and {graph.num_nodes:,} nodes times "
            f"{graph.num_features:,} features are more than {LARGEST_DENSE:,} numbers"
        )
    value = (
        graph.features.value if isinstance(graph.features, SparseRows) else graph.features.flatten()
    ).double()
    deviation = (value.square().sum() / numbers - (value.sum() / numbers).square()).clamp(min=0).sqrt()
    noise = rng.standard_normal((graph.num_nodes, graph.num_features), dtype=np.float32)
    noise *= np.float32(rate * float(deviation))
    return replace(graph, features=torch.from_numpy(noise).add_(_dense(graph.features)))


def flip_bits(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """In each row, let a share of the features that are not zero become zero, and as many zeros what those were.

    For features of 0 and 1 that is a flip of bits; other values move to another column. Each row's number of
    flips is rounded, so a row of few features may keep them all.
    """
    rows, width = _sorted_rows(graph.features), graph.num_features
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
    # both lists of owners are the same: row by row as many zeros as ones, and the pairing is by chance
    mixed = np.lexsort((rng.random(zero_owner.size), zero_owner))
    moved[pointer[owner] + rank] = untaken(zero_owner, zero_rank, pointer, column, width)[mixed]
    features = SparseRows(rows.row_ptr, torch.from_numpy(moved), rows.value, width)
    given = graph.features
    return replace(
        graph, features=_sorted_rows(features) if isinstance(given, SparseRows) else _dense(features)
    )


def flip_labels(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Change the labels of a share of the training nodes to any other class."""
    train = _labelled_training_nodes(graph, "flipped-labels")
    chosen = train[_some(rng, train.numel(), rate)]
    labels = graph.labels.clone()
    step = torch.from_numpy(rng.integers(1, graph.num_classes, chosen.numel()))
    labels[chosen] = (labels[chosen] + step) % graph.num_classes
    return replace(graph, labels=labels)


def pair_labels(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Change the labels of a share of each class's training nodes to the next class; after the last, the first."""
    return _relabelled(graph, rate, rng, "pair-labels", lambda label: (label + 1) % graph.num_classes)


def hide_labels(graph: Graph, rate: float, rng: np.random.Generator) -> Graph:
    """Hide the labels of a share of each class's training nodes, all but one at most: the nodes stay as context."""
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
    """Change the labels of a share of each class's training nodes, so many of each class at least spared."""
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
    """Say of each row whether it holds other numbers than before."""
    if before is after:
        return torch.zeros(before.shape[0], dtype=torch.bool)
    if isinstance(before, SparseRows) and isinstance(after, SparseRows):
        differs = before.to_scipy() != after.to_scipy()
        return torch.from_numpy(np.diff(differs.tocsr().indptr) > 0)
    chunks = torch.arange(before.shape[0]).split(max(CHUNK // before.shape[1], 1))
    return torch.cat(
        [(_dense(take_rows(before, rows)) != _dense(take_rows(after, rows))).any(dim=1) for rows in chunks]
    )


def _labelled_training_nodes(graph: Graph, kind: str) -> Int[Tensor, "train"]:
    train = graph.nodes_in(SPLITS[1])
    train = train[graph.labels[train] != UNKNOWN]
    if train.numel() == 0 or graph.num_classes < 2:
        raise GraphError(
            f"{kind} needs labelled training nodes and two classes or more, found {train.numel():,} such nodes "
            f"and {graph.num_classes} classes"
        )
    return train


def _some(rng: np.random.Generator, count: int, rate: float) -> Int[Tensor, "chosen"]:
    """Choose a share of the first numbers; those of a smaller share are among those of a larger one."""
    return torch.from_numpy(rng.permutation(count)[: round(rate * count)])


def _sorted_rows(features: Features) -> SparseRows:
    """Return features as sparse rows without zeros, the columns of each row ascending."""
    if not isinstance(features, SparseRows):
        row, column = features.nonzero(as_tuple=True)
        pointer = offsets_of(torch.bincount(row, minlength=features.shape[0]))
        return SparseRows(pointer, column, features[row, column], features.shape[1])
    matrix = features.to_scipy().copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return SparseRows.from_scipy(matrix)


def _dense(features: Features) -> Tensor:
    return torch.from_numpy(features.to_scipy().toarray()) if isinstance(features, SparseRows) else features
