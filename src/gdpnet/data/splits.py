"""Make a split where a graph has none: stratified by class, so that every part shows every class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gdpnet._core.profiling import phase
from gdpnet.config import FeaturesSettings, checked_seed
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph, Truth, check_graph
from gdpnet.data.label_rate import LabelRate
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import ConfigError, GraphError

USUAL_SHARES = (0.6, 0.2, 0.2)
"""Shares of training, validation and test nodes."""

ALL_TEST = "0/0/100"
"""The split of a graph that a model was not trained on."""

MOST_VALUES = 1 << 28
"""Arrays of more values than this are not scaled: their columns would need as much memory again."""

ARRAY_NOTE = (
    "feature columns are of unlike scale, so each is centred and scaled as the training nodes ask for"
)
"""The note on a graph whose features came as an array."""

FEW_TEST_NODES = 50
"""With fewer labelled test nodes than this a single split says little, and scores are cross-validated."""


def parse_shares(text: str) -> tuple[float, float, float]:
    """Read ``60/20/20``: shares of training, validation and test nodes in percent."""
    try:
        train, validation, test = (float(part) / 100.0 for part in text.split("/"))
    except ValueError as error:
        raise ConfigError(f"a split must be three percentages such as 60/20/20, found '{text}'") from error
    if not abs(train + validation + test - 1.0) <= 1e-6 or min(train, validation, test) < 0:
        raise ConfigError(f"a split must sum to 100, found '{text}'")
    return train, validation, test


def checked_shares(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return three shares that sum to one."""
    good = isinstance(shares, Sequence) and len(shares) == 3 and all(isinstance(one, Real) for one in shares)
    if not good or min(shares) < 0 or not abs(sum(shares) - 1.0) <= 1e-6:
        raise ConfigError(
            "a split must be shares of training, validation and test nodes that sum to 1, such as (0.6, 0.2, 0.2), "
            f"found {shares!r}"
        )
    train, validation, test = shares
    return train, validation, test


def has_split(graph: Graph) -> bool:
    """Return whether some node is in a split."""
    return bool(graph.split.any())


def with_split(graph: Graph, shares: tuple[float, float, float] | str = USUAL_SHARES, seed: int = 0) -> Graph:
    """Return the graph with its labelled nodes divided into training, validation and test nodes.

    Every class, or every tenth of the numbers to predict, is divided by itself. A class of one node trains, one of
    two trains and tests. Shares are of training, validation and test nodes: ``(0.6, 0.2, 0.2)`` or ``60/20/20``.
    """
    check_graph(graph)
    seed = checked_seed(seed)
    parts = parse_shares(shares) if isinstance(shares, str) else checked_shares(shares)
    split = _codes_by_class(_strata(graph), seed, lambda count: _codes(count, parts))
    return fit_columns(replace(graph, split=split), split)


@phase("columns")
def fit_columns(graph: Graph, split: Int[Tensor, "nodes"]) -> Graph:
    """Return a graph with its table, if it has one, encoded as the training nodes of a split ask for.

    Features that came as an array are encoded too if their columns are of unlike scale.
    """
    training = (split == SPLITS.index("train")).numpy()
    if graph.table is None:
        return _fit_array(graph, training)
    if graph.table.columns is None or not graph.table.encoding.used:
        return graph
    return graph.with_table(graph.table.refit(training, graph.encoding_settings))


def with_encoding(graph: Graph, settings: FeaturesSettings) -> Graph:
    """Return a graph whose columns are encoded as some settings say, fitted to its training nodes."""
    changed = replace(graph, encoding_settings=settings)
    if graph.encoding_settings == settings or graph.table is None:
        return changed
    return fit_columns(changed, graph.split)


def _fit_array(graph: Graph, training: Bool[np.ndarray, "nodes"]) -> Graph:
    if isinstance(graph.features, SparseRows) or graph.features.numel() > MOST_VALUES:
        return graph
    values, settings = graph.features.numpy(), graph.encoding_settings
    table = NodeTable.of_array(values, graph.feature_names, training, settings)
    return graph if table is None else graph.with_table(table).with_notes(ARRAY_NOTE)


def with_few_labels(graph: Graph, rate: LabelRate, seed: int = 0) -> Graph:
    """Return the graph with some labels of its training and validation nodes, drawn class by class with a seed.

    Of each class some training nodes keep their labels, and as many validation nodes as `LabelRate.wanted` says, or
    all if there are fewer. The others become context: in no split and without a label. Test nodes stay. True labels
    remain in the truth of the graph, which noise and scores read and no method does.
    """
    if rate.is_all:
        return graph
    rng, labels, split = np.random.default_rng((seed, 20)), graph.labels.numpy(), graph.split.numpy()
    kept = split == SPLITS.index("test")
    for value in np.unique(labels[labels != UNKNOWN]):
        counts = rate.wanted(int((labels == value).sum()))
        for name, count in zip(("train", "validation"), counts, strict=True):
            members = np.flatnonzero((labels == value) & (split == SPLITS.index(name)))
            kept[rng.permutation(members)[:count]] = True
    hidden = torch.from_numpy(~kept)
    truth = graph.truth or Truth(
        torch.zeros(graph.num_edges, dtype=torch.bool),
        torch.zeros(graph.num_nodes, dtype=torch.bool),
        graph.labels,
    )
    return replace(
        graph,
        labels=graph.labels.masked_fill(hidden, UNKNOWN),
        split=graph.split.masked_fill(hidden, SPLITS.index("none")),
        truth=truth,
    )


def cross_validation_splits(graph: Graph, folds: int, seed: int = 0) -> list[Int[Tensor, "nodes"]]:
    """Return one split per fold: its nodes test, those of the next fold validate, all others train."""
    if not isinstance(folds, Integral) or folds < 2:
        raise GraphError(f"there must be at least 2 folds, found {folds}")
    strata = _strata(graph)
    known = strata[strata != UNKNOWN]
    smallest = torch.bincount(known).max().item() if known.numel() else 0
    if folds > smallest:
        raise GraphError(f"there must be at least {folds} labelled nodes of some class, found {smallest}")
    fold = _codes_by_class(strata, seed, lambda count: np.arange(count) % folds, none=-1)
    splits = []
    for number in range(folds):
        split = torch.zeros_like(graph.split)
        split[fold >= 0] = SPLITS.index("train")
        if folds > 2:
            split[fold == (number + 1) % folds] = SPLITS.index("validation")
        split[fold == number] = SPLITS.index("test")
        splits.append(split)
    return splits


def _strata(graph: Graph) -> Int[Tensor, "nodes"]:
    """Return what is divided by itself: the class of each node, or the tenth of the numbers that it lies in."""
    if graph.targets is None:
        return graph.labels
    known, tenth = graph.labelled, torch.full_like(graph.labels, UNKNOWN)
    count = int(known.sum())
    rank = graph.targets[known].argsort(stable=True).argsort()
    tenth[known] = rank * min(10, max(1, count // 5)) // max(1, count)
    return tenth


def _codes(count: int, shares: tuple[float, float, float]) -> np.ndarray:
    """Return split codes for the nodes of a class."""
    if shares[2] == 1.0:
        return np.full(count, SPLITS.index("test"))
    validation, test = (round(share * count) for share in shares[1:])
    test = min(max(test, int(shares[2] > 0)), count - 1)
    validation = min(max(validation, int(shares[1] > 0)), count - 1 - test)
    train = count - validation - test
    return np.repeat(
        [SPLITS.index(name) for name in ("train", "validation", "test")], [train, validation, test]
    )


def _codes_by_class(
    labels: Int[Tensor, "nodes"], seed: int, codes_of: Callable[[int], np.ndarray], none: int = 0
) -> Int[Tensor, "nodes"]:
    rng, classes = np.random.default_rng(seed), labels.numpy()
    code = np.full(len(classes), none, dtype=np.int8)
    for value in np.unique(classes[classes != UNKNOWN]):
        members = rng.permutation(np.flatnonzero(classes == value))
        code[members] = codes_of(members.size)
    return torch.from_numpy(code)
