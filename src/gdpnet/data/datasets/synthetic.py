"""Generate a citation-like graph with known noise: the built-in example."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gdpnet.config import checked_seed
from gdpnet.data.graph import Graph
from gdpnet.data.validation import SPLITS
from gdpnet.errors import GraphError


@dataclass(frozen=True)
class SyntheticSettings:
    """Size of the generated graph and the rates of its noise."""

    nodes: int = 2000
    classes: int = 6
    topics_per_class: int = 25
    words: int = 1200
    words_per_node: int = 18
    links_per_node: float = 3.0
    homophily: float = 0.85
    topic_share: float = 0.4
    spurious_links: float = 1.0
    corrupted_features: float = 0.05
    wrong_labels: float = 0.05
    train: float = 0.5
    validation: float = 0.2

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        topics = self.classes * self.topics_per_class
        if self.nodes < 10 or self.classes < 2 or self.topics_per_class < 1 or self.words_per_node < 1:
            raise GraphError(
                "a synthetic graph needs at least 10 nodes, 2 classes, one topic per class and one word per node"
            )
        if self.words < topics:
            raise GraphError(
                f"a synthetic graph needs one word per topic ({topics}), found {self.words} words"
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
    """Generate a graph with bag-of-words features, homophilous edges, heavy-tailed degrees and known noise.

    Training and validation labels may be wrong (``truth.clean_labels`` has the true ones); test labels are clean.
    Spurious edges join random non-adjacent nodes; their number is a share of the genuine edges.
    """
    chosen = SyntheticSettings() if settings is None else settings
    if not isinstance(chosen, SyntheticSettings):
        raise GraphError(f"a synthetic graph needs SyntheticSettings, found {type(settings).__name__}")
    seed = checked_seed(seed)
    rng = np.random.default_rng(seed)
    topic = rng.integers(chosen.classes * chosen.topics_per_class, size=chosen.nodes)
    label = topic // chosen.topics_per_class
    edges, spurious = _links(rng, topic, label, chosen)
    corrupted = rng.random(chosen.nodes) < chosen.corrupted_features
    split = _split(rng, chosen)
    wrong = (rng.random(chosen.nodes) < chosen.wrong_labels) & (split != SPLITS.index("test"))
    given = np.where(
        wrong, (label + rng.integers(1, chosen.classes, size=chosen.nodes)) % chosen.classes, label
    )
    return Graph.build(
        edges,
        _words(rng, topic, corrupted, chosen),
        given,
        split=split,
        class_names=[f"topic {number}" for number in range(chosen.classes)],
        spurious=spurious,
        corrupted=corrupted,
        clean_labels=label,
    )


def _links(
    rng: np.random.Generator, topic: np.ndarray, label: np.ndarray, settings: SyntheticSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Sample genuine links by popularity, then spurious ones between random nodes.

    A genuine link stays within its class with probability ``homophily``, and then mostly within its topic.
    """
    nodes = settings.nodes
    popularity = rng.pareto(2.0, size=nodes) + 0.3
    wanted = round(nodes * settings.links_per_node)
    source = rng.integers(nodes, size=wanted)
    reach = rng.random(wanted)
    target = rng.choice(nodes, size=wanted, p=popularity / popularity.sum())
    _stay_within(rng, target, source, label, popularity, reach < settings.homophily)
    _stay_within(rng, target, source, topic, popularity, reach < settings.homophily * 0.8)
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


def _stay_within(
    rng: np.random.Generator,
    target: np.ndarray,
    source: np.ndarray,
    group: np.ndarray,
    popularity: np.ndarray,
    selected: np.ndarray,
) -> None:
    """Replace the selected targets by nodes of their source's group."""
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        here = selected & (group[source] == number)
        share = popularity[members] / popularity[members].sum()
        target[here] = rng.choice(members, size=int(here.sum()), p=share)


def _link_keys(source: np.ndarray, target: np.ndarray, nodes: int) -> np.ndarray:
    """Return one number per link, the same for both directions, without self-loops."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    return (low * nodes + high)[low != high]


def _words(
    rng: np.random.Generator, topic: np.ndarray, corrupted: np.ndarray, settings: SyntheticSettings
) -> sp.csr_matrix:
    """Sample a bag of words per node: a share from the words of its topic, the rest from all by Zipf's law.

    A corrupted node has the words of another topic.
    """
    nodes, count = settings.nodes, settings.words_per_node
    topics = settings.classes * settings.topics_per_class
    frequency = 1.0 / np.arange(1, settings.words + 1)
    word = rng.choice(settings.words, size=(nodes, count), p=frequency / frequency.sum())
    spoken = np.where(corrupted, (topic + rng.integers(1, topics, size=nodes)) % topics, topic)
    own = rng.integers(settings.words // topics, size=(nodes, count)) * topics + spoken[:, None]
    word = np.where(rng.random((nodes, count)) < settings.topic_share, own, word)
    row = np.repeat(np.arange(nodes), count)
    counts = sp.csr_matrix((np.ones(row.size), (row, word.ravel())), shape=(nodes, settings.words))
    return (counts > 0).astype(np.float32)


def _split(rng: np.random.Generator, settings: SyntheticSettings) -> np.ndarray:
    place = rng.permutation(settings.nodes) / settings.nodes
    return np.where(place < settings.train, 1, np.where(place < settings.train + settings.validation, 2, 3))
