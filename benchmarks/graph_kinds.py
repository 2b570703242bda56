"""Graphs of kinds that the four citation datasets are not: heterophilous, featureless, co-purchase, social.

`benchmarks/kinds.py` compares methods on them. The second half of the kinds was not looked at while the method was
developed on the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph


@dataclass(frozen=True)
class GraphKind:
    """What a generated graph is like."""

    about: str
    nodes: int = 900
    shares: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)
    """Share of the nodes in each class."""
    degree: float = 6.0
    same: float = 0.8
    """Share of the links that end in the same class."""
    other: float = 0.0
    """Share of the links that end in the next class; the rest end anywhere."""
    skew: float = 0.0
    """Exponent of the popularity of nodes, smaller for heavier tails; zero if all are equally popular."""
    clustered: float = 0.0
    """Share of the same-class links that stay within a small community."""
    features: str = "words"
    """Bags of words, numbers in dense columns, or none."""
    signal: float = 0.3
    """Share of the words that are about the class, or distance between the classes of dense columns."""


KINDS = {
    "heterophilous pattern": GraphKind(
        "neighbours of the next class", same=0.1, other=0.75, degree=8.0, signal=0.15
    ),
    "useless links": GraphKind("links say nothing", same=0.0, degree=8.0, signal=0.25),
    "featureless": GraphKind("planted classes, links alone", degree=10.0, same=0.75, features="none"),
    "two camps": GraphKind(
        "featureless, like political blogs",
        shares=(0.5, 0.5),
        degree=24.0,
        same=0.85,
        skew=1.5,
        features="none",
    ),
    "co-purchase": GraphKind(
        "dense and clustered, bags of words",
        shares=(0.35, 0.25, 0.15, 0.15, 0.1),
        degree=28.0,
        same=0.85,
        skew=2.0,
        clustered=0.6,
        signal=0.12,
    ),
    "social": GraphKind(
        "heavy tails, weak features",
        shares=(0.5, 0.3, 0.2),
        degree=16.0,
        same=0.65,
        skew=1.2,
        features="dense",
        signal=0.25,
    ),
}
"""The kinds that were looked at."""

KINDS |= {
    "alternating": GraphKind(
        "two classes, links mostly between them", shares=(0.5, 0.5), same=0.15, other=0.7, signal=0.1
    ),
    "many small classes": GraphKind(
        "featureless", shares=(0.1,) * 10, degree=14.0, same=0.7, features="none"
    ),
    "co-author": GraphKind(
        "clustered, telling bags of words",
        shares=(0.3, 0.2, 0.2, 0.1, 0.1, 0.1),
        degree=11.0,
        same=0.8,
        clustered=0.9,
    ),
    "two sides": GraphKind(
        "social, rare class, telling columns",
        shares=(0.85, 0.15),
        degree=12.0,
        same=0.5,
        skew=1.5,
        features="dense",
        signal=0.6,
    ),
}
"""Further kinds, for a last look."""

_COMMUNITY = 12
_WORDS, _WORDS_PER_NODE, _WORDS_PER_CLASS = 500, 15, 40
_COLUMNS = 24


def generate(kind: GraphKind, seed: int) -> Graph:
    """Return a graph without a split."""
    rng = np.random.default_rng([seed, 11])
    label = rng.choice(len(kind.shares), kind.nodes, p=kind.shares)
    features = _FEATURES[kind.features](kind, label, rng)
    names = [f"class {number}" for number in range(len(kind.shares))]
    return Graph.build(_links(kind, label, rng), features, label, class_names=names)


def smaller(kind: GraphKind, nodes: int) -> GraphKind:
    """Return a kind with another number of nodes."""
    return replace(kind, nodes=nodes)


def _links(kind: GraphKind, label: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw links between a node and a popular one of the wanted class, or of its community."""
    classes, count = len(kind.shares), int(kind.nodes * kind.degree / 2)
    popular = rng.pareto(kind.skew, kind.nodes) + 0.3 if kind.skew else np.ones(kind.nodes)
    popular = np.minimum(popular, 0.05 * popular.sum())
    community = label * kind.nodes + rng.integers(0, max(1, kind.nodes // (classes * _COMMUNITY)), kind.nodes)
    source = rng.choice(kind.nodes, count, p=popular / popular.sum())
    target = rng.choice(kind.nodes, count, p=popular / popular.sum())
    fate, near = rng.random(count), rng.random(count) < kind.clustered
    _end_in(target, source, community, community, fate < kind.same, popular, rng)
    _end_in(target, source, label, label, (fate < kind.same) & ~near, popular, rng)
    to_next = (fate >= kind.same) & (fate < kind.same + kind.other)
    _end_in(target, source, (label + 1) % classes, label, to_next, popular, rng)
    pairs = np.sort(np.stack([source, target]), axis=0)
    return np.unique(pairs[:, source != target], axis=1)


def _end_in(
    target: np.ndarray,
    source: np.ndarray,
    wanted: np.ndarray,
    group: np.ndarray,
    some: np.ndarray,
    popular: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Replace some targets by nodes of the group that their source wants."""
    for one in np.unique(wanted):
        members, asked = np.flatnonzero(group == one), np.flatnonzero(some & (wanted[source] == one))
        if members.size:
            target[asked] = rng.choice(members, asked.size, p=popular[members] / popular[members].sum())


def _words(kind: GraphKind, label: np.ndarray, rng: np.random.Generator) -> sp.csr_matrix:
    """Draw a bag of words per node: some of its class, the rest by Zipf's law."""
    classes, shape = len(kind.shares), (kind.nodes, _WORDS_PER_NODE)
    usual = 1.0 / np.arange(1, _WORDS + 1)
    word = rng.choice(_WORDS, shape, p=usual / usual.sum())
    topic = rng.permuted(np.tile(np.arange(_WORDS), (classes, 1)), axis=1)[:, :_WORDS_PER_CLASS]
    own = topic[label[:, None], rng.integers(0, _WORDS_PER_CLASS, shape)]
    word = np.where(rng.random(shape) < kind.signal, own, word)
    row = np.repeat(np.arange(kind.nodes), _WORDS_PER_NODE)
    table = sp.csr_matrix((np.ones(row.size, np.float32), (row, word.ravel())), (kind.nodes, _WORDS))
    table.data[:] = 1.0
    return table


def _none(kind: GraphKind, *_: object) -> SparseRows:
    """Return what stands for features where there are none, as when tables without features are read."""
    return SparseRows.identity(kind.nodes)


def _columns(kind: GraphKind, label: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw dense columns around a centre per class."""
    centre = rng.normal(0, kind.signal, (len(kind.shares), _COLUMNS))
    return (centre[label] + rng.normal(0, 1, (kind.nodes, _COLUMNS))).astype(np.float32)


_FEATURES = {"none": _none, "words": _words, "dense": _columns}
