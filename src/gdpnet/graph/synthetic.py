"""The embedded default: a citation-like graph whose noise is planted and known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gdpnet.errors import GraphError
from gdpnet.graph.graph import SPLITS, Graph


@dataclass(frozen=True)
class SyntheticSettings:
    """Size of the generated graph and the rates of its noise."""

    nodes: int = 2000
    classes: int = 6
    words: int = 600
    words_per_node: int = 18
    links_per_node: float = 3.0
    homophily: float = 0.9
    topic_share: float = 0.45
    spurious_links: float = 0.5
    corrupted_features: float = 0.05
    wrong_labels: float = 0.05
    train: float = 0.5
    validation: float = 0.2

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        if self.nodes < 10 or self.classes < 2 or self.words < self.classes or self.words_per_node < 1:
            raise GraphError(
                "a synthetic graph needs 10 nodes, 2 classes, a word a class and a word a node or more"
            )
        shares = (self.homophily, self.topic_share, self.corrupted_features, self.wrong_labels)
        if (
            min(*shares, self.train, self.validation) < 0
            or max(shares) > 1
            or self.train + self.validation > 1
        ):
            raise GraphError("every share of a synthetic graph must lie between 0 and 1")
        if self.spurious_links < 0 or self.links_per_node < 0:
            raise GraphError("a synthetic graph cannot have a negative number of links")


def synthetic_graph(settings: SyntheticSettings | None = None, seed: int = 0) -> Graph:
    """Generate a graph: classes, bag-of-words features, homophilous links, heavy-tailed degrees, planted noise.

    Training and validation labels may be wrong (``truth.clean_labels`` tells); test labels are clean. Spurious
    links join two random nodes that were not linked; their number is a share of the genuine links.
    """
    chosen = settings or SyntheticSettings()
    rng = np.random.default_rng(seed)
    label = rng.integers(chosen.classes, size=chosen.nodes)
    edges, spurious = _links(rng, label, chosen)
    corrupted = rng.random(chosen.nodes) < chosen.corrupted_features
    split = _split(rng, chosen)
    wrong = (rng.random(chosen.nodes) < chosen.wrong_labels) & (split != SPLITS.index("test"))
    given = np.where(
        wrong, (label + rng.integers(1, chosen.classes, size=chosen.nodes)) % chosen.classes, label
    )
    return Graph.build(
        edges,
        _words(rng, label, corrupted, chosen),
        given,
        split=split,
        class_names=[f"topic {number}" for number in range(chosen.classes)],
        spurious=spurious,
        corrupted=corrupted,
        clean_labels=label,
    )


def _links(
    rng: np.random.Generator, label: np.ndarray, settings: SyntheticSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Draw genuine links by popularity, mostly within a class, then spurious ones between any two nodes."""
    nodes = settings.nodes
    popularity = rng.pareto(2.0, size=nodes) + 0.3
    wanted = round(nodes * settings.links_per_node)
    source = rng.integers(nodes, size=wanted)
    within = rng.random(wanted) < settings.homophily
    target = rng.choice(nodes, size=wanted, p=popularity / popularity.sum())
    for topic in range(settings.classes):
        members = np.flatnonzero(label == topic)
        asked = within & (label[source] == topic)
        if members.size:
            share = popularity[members] / popularity[members].sum()
            target[asked] = rng.choice(members, size=int(asked.sum()), p=share)
    genuine = np.unique(_link_keys(source, target, nodes))
    added = round(settings.spurious_links * genuine.size)
    drawn = _link_keys(
        rng.integers(nodes, size=2 * added + 16), rng.integers(nodes, size=2 * added + 16), nodes
    )
    fresh = drawn[~np.isin(drawn, genuine)]
    _, first = np.unique(fresh, return_index=True)
    planted = fresh[np.sort(first)][:added]
    keys = np.concatenate([genuine, planted])
    return np.stack([keys // nodes, keys % nodes]), np.arange(keys.size) >= genuine.size


def _link_keys(source: np.ndarray, target: np.ndarray, nodes: int) -> np.ndarray:
    """Return one number a link, whichever way it points; loops are left out."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    return (low * nodes + high)[low != high]


def _words(
    rng: np.random.Generator, label: np.ndarray, corrupted: np.ndarray, settings: SyntheticSettings
) -> sp.csr_matrix:
    """Draw a bag of words a node: a share from its topic's own words, the rest by Zipf's law from all."""
    nodes, count = settings.nodes, settings.words_per_node
    frequency = 1.0 / np.arange(1, settings.words + 1)
    word = rng.choice(settings.words, size=(nodes, count), p=frequency / frequency.sum())
    block = settings.words // settings.classes
    topic = np.where(corrupted, rng.integers(settings.classes, size=nodes), label)
    own = rng.integers(block, size=(nodes, count)) * settings.classes + topic[:, None]
    word = np.where(rng.random((nodes, count)) < settings.topic_share, own, word)
    row = np.repeat(np.arange(nodes), count)
    counts = sp.csr_matrix((np.ones(row.size), (row, word.ravel())), shape=(nodes, settings.words))
    return (counts > 0).astype(np.float32)


def _split(rng: np.random.Generator, settings: SyntheticSettings) -> np.ndarray:
    place = rng.permutation(settings.nodes) / settings.nodes
    return np.where(place < settings.train, 1, np.where(place < settings.train + settings.validation, 2, 3))
