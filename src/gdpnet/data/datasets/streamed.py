"""Generate large test graphs on disk: communities, features, heavy-tailed degrees and known spurious links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int

from gdpnet._core.files import Place, place_of
from gdpnet._core.limits import MOST_CLASSES, MOST_FEATURES
from gdpnet._core.threads import in_order
from gdpnet.config import checked_seed
from gdpnet.data.io.store import StoreWriter, index_type, new_store
from gdpnet.data.validation import SPLITS
from gdpnet.errors import GraphError

_CHUNK = 1 << 20
"""Links or values that are sampled at a time."""

_BUCKET = 1 << 22
"""Edges that are sorted at a time."""

_ROUNDS = 30
"""Rounds in which repeated links are sampled again before the graph is refused as too dense."""

_MOST_NODES = 1 << 30
"""With more nodes, the key of a link, two node numbers and a bit, does not fit 64 bits."""

_TAIL = 1e-3
"""Start of the power law as a share of a class; it bounds the degree of hubs to about 40 times the mean."""


@dataclass(frozen=True)
class GeneratedSettings:
    """Size and statistics of a generated graph."""

    nodes: int = 10_000
    edges: int = 200_000
    """Directed edges; every link counts twice."""
    features: int = 32
    """Number of features; zero for a graph without features."""
    classes: int = 8
    noise: float = 0.2
    """Share of the links that are spurious, between two random nodes."""
    exponent: float = 2.5
    """Exponent of the degree distribution of genuine links: P(d) is about d ** -exponent."""
    homophily: float = 0.9
    """Probability that a genuine link stays within its class; otherwise its end is in a random class."""
    signal: float = 3.0
    """Distance between two class centres in standard deviations of the features."""
    train: float = 0.2
    """Share of training nodes."""
    held_out: int = 1000
    """Number of validation nodes and of test nodes, at most a tenth of all nodes each."""

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        if self.nodes < 10 or not 2 <= self.classes <= self.nodes // 2 or min(self.features, self.edges) < 0:
            raise GraphError(
                "a generated graph needs 10 nodes, 2 classes of 2 nodes, and no negative number of features or "
                f"edges, found {self.nodes} nodes, {self.classes} classes, {self.features} features, "
                f"{self.edges} edges"
            )
        limits = (_MOST_NODES, MOST_CLASSES, MOST_FEATURES)
        found = (self.nodes, self.classes, self.features)
        if any(one > most for one, most in zip(found, limits, strict=True)):
            raise GraphError(
                "a generated graph can have at most {:,} nodes, {:,} classes and {:,} features".format(
                    *limits
                )
                + ", found {:,}, {:,} and {:,}".format(*found)
            )
        shares = (self.noise, self.homophily, self.train)
        if not all(0 <= share <= 1 for share in shares) or self.train > 0.8:  # NaN is not
            raise GraphError(
                f"noise, homophily and train must lie between 0 and 1, and train at most at 0.8, found {shares}"
            )
        if not self.exponent > 2 or not self.signal >= 0:
            raise GraphError(
                "the exponent must be above 2 and the signal not negative, found "
                f"{self.exponent:g} and {self.signal:g}"
            )
        most = self.nodes * (self.nodes - 1) // 4
        if self.edges > most:
            raise GraphError(
                f"a generated graph of {self.nodes:,} nodes can have at most {most:,} edges, found {self.edges:,}"
            )

    @property
    def links(self) -> tuple[int, int]:
        """Return the numbers of genuine and of spurious links."""
        spurious = round(self.edges // 2 * self.noise)
        return self.edges // 2 - spurious, spurious


class Buckets:
    """Files of 64-bit numbers, over which a sort larger than memory is distributed."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        self.count = count
        self.paths = [folder / f"{name}-{number:05d}" for number in range(count)]

    def put(self, values: Int[np.ndarray, "n"], bucket: Int[np.ndarray, "n"]) -> None:
        """Append each value to its bucket."""
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        for path, part in zip(self.paths, np.split(values[order], ends[:-1]), strict=True):
            with path.open("ab") as file:
                file.write(part.astype(np.int64, copy=False).tobytes())

    def take(self, number: int) -> Int[np.ndarray, "n"]:
        """Return all values of a bucket and delete its file."""
        path = self.paths[number]
        values = np.fromfile(path, dtype=np.int64) if path.exists() else np.zeros(0, dtype=np.int64)
        path.unlink(missing_ok=True)
        return values

    def replace(self, number: int, values: Int[np.ndarray, "n"]) -> None:
        """Replace the values of a bucket."""
        self.paths[number].write_bytes(values.tobytes())


def generate_store(settings: GeneratedSettings, seed: int, folder: str | Place) -> None:
    """Generate a graph and write it to a new folder as a store.

    It needs about ten bytes of memory per node, a few buckets of edges per thread, and twelve bytes of temporary disk
    space per directed edge.
    """
    seed = checked_seed(seed)
    names = tuple(f"class {number}" for number in range(settings.classes))
    with new_store(place_of(folder), names, None if settings.features else settings.nodes) as store:
        work = store.folder / "work"
        work.mkdir()
        count = -(-settings.edges // _BUCKET) or 1
        sampled = Buckets(work, "sampled", count)
        surplus = _fill_buckets(sampled, settings, seed)
        sorted_in = Buckets(work, "directed", count)
        _direct(sampled, sorted_in, surplus, settings, seed)
        _write_edges(store, sorted_in, settings)
        work.rmdir()
        label = _labels(settings)
        store.whole("labels", label)
        store.whole("split", _split(settings, seed))
        _write_features(store, label, settings, seed)


def _fill_buckets(sampled: Buckets, settings: GeneratedSettings, seed: int) -> tuple[int, int]:
    """Sample links into buckets until there are enough distinct ones; return the surplus of each kind.

    A link is one number, (low * nodes + high) * 2 + spurious; a link that is sampled as both kinds is genuine.
    """
    wanted = np.array(settings.links)
    found = np.zeros(2, dtype=np.int64)
    for turn in range(_ROUNDS):
        missing = wanted - found
        if not (missing > 0).any():
            return int(-missing[0]), int(-missing[1])
        for spurious in (0, 1):
            # new links become rarer with each round, so more are sampled
            most = math.ceil(missing[spurious] * (1.05 + 0.3 * turn)) + 64 if missing[spurious] > 0 else 0
            sizes = [min(_CHUNK, most - start) for start in range(0, most, _CHUNK)]
            sample = partial(_sample_links, settings, (seed, 1, turn, spurious))
            for code in in_order(sample, enumerate(sizes)):
                sampled.put(code, (code >> 1) % sampled.count)
        found = sum(
            in_order(partial(_without_repeats, sampled), range(sampled.count)), start=np.zeros(2, np.int64)
        )
    raise GraphError(
        f"{settings.edges:,} edges do not fit among {settings.nodes:,} nodes in {settings.classes} classes: "
        "ask for fewer edges or more nodes"
    )


def _without_repeats(sampled: Buckets, number: int) -> Int[np.ndarray, "2"]:
    """Remove repeated links from a bucket; return how many genuine and spurious ones are left."""
    code = np.sort(sampled.take(number))
    code = code[np.diff(code >> 1, prepend=-1) > 0]
    sampled.replace(number, code)
    spurious = int((code & 1).sum())
    return np.array([code.size - spurious, spurious], dtype=np.int64)


def _sample_links(
    settings: GeneratedSettings, seed: tuple[int, ...], chunk: tuple[int, int]
) -> Int[np.ndarray, "links"]:
    """Sample links with repeats but without self-loops; the last number of the seed is one for spurious ones."""
    (number, size), spurious = chunk, seed[-1]
    rng = np.random.default_rng([*seed, number])
    nodes, classes = settings.nodes, settings.classes
    if spurious:
        ends = rng.integers(nodes, size=(2, size))
    else:
        group = rng.integers(classes, size=(2, size))
        stays = rng.random(size) < settings.homophily
        group[1] = np.where(stays, group[0], group[1])
        ends = _numbers(_ranks(rng, (2, size), settings) * classes + group, settings)
    low, high = ends.min(axis=0), ends.max(axis=0)
    return ((low * nodes + high) * 2 + spurious)[low != high]


def _ranks(
    rng: np.random.Generator, shape: tuple[int, ...], settings: GeneratedSettings
) -> Int[np.ndarray, "2 links"]:
    """Sample ranks within a class with density (rank + shift) ** -power, by inverting its integral."""
    members = settings.nodes // settings.classes
    rest = 1.0 - 1.0 / (settings.exponent - 1.0)
    shift = max(_TAIL * members, 1.0)
    low, high = shift**rest, (members + shift) ** rest
    rank = (low + rng.random(shape) * (high - low)) ** (1.0 / rest) - shift
    return rank.astype(np.int64).clip(0, members - 1)


def _numbers(place: np.ndarray, settings: GeneratedSettings) -> np.ndarray:
    """Map positions one to one to node numbers, so that hubs do not get neighbouring numbers."""
    return place * _stride(settings.nodes) % settings.nodes


def _stride(nodes: int) -> int:
    """Return a number near the golden section of ``nodes`` that is coprime to it."""
    stride = int(nodes * 0.6180339887)
    while math.gcd(stride, nodes) > 1:
        stride += 1
    return stride


def _labels(settings: GeneratedSettings) -> Int[np.ndarray, "nodes"]:
    place = np.arange(settings.nodes, dtype=np.int64)
    label = np.empty_like(place)
    label[_numbers(place, settings)] = place % settings.classes
    return label


def _direct(
    sampled: Buckets, sorted_in: Buckets, surplus: tuple[int, int], settings: GeneratedSettings, seed: int
) -> None:
    """Remove the surplus, and put both directions of every link into the bucket of its target."""
    nodes = settings.nodes
    left = np.array(surplus)
    there = np.array(settings.links) + left
    for number in range(sampled.count):
        code = sampled.take(number)
        rng = np.random.default_rng([seed, 2, number])
        kept = np.ones(code.size, dtype=bool)
        for spurious in (0, 1):
            here = np.flatnonzero((code & 1) == spurious)
            out = int(left[spurious]) * here.size // max(int(there[spurious]), 1)
            kept[rng.permutation(here)[:out]] = False
            left[spurious] -= out
            there[spurious] -= here.size
        link, bit = code[kept] >> 1, code[kept] & 1
        low, high = link // nodes, link % nodes
        for target, neighbour in ((low, high), (high, low)):
            sorted_in.put((target * nodes + neighbour) * 2 + bit, target * sorted_in.count // nodes)


def _write_edges(store: StoreWriter, sorted_in: Buckets, settings: GeneratedSettings) -> None:
    """Sort the buckets in turn and write their edges."""
    nodes, edges = settings.nodes, 2 * sum(settings.links)
    degree = np.zeros(nodes + 1, dtype=np.int64)
    with (
        store.array("neighbour", index_type(nodes), (edges,)) as append_neighbours,
        store.array("spurious", bool, (edges,)) as append_flags,
    ):
        for first, counts, other, bit in in_order(partial(_sorted, sorted_in, nodes), range(sorted_in.count)):
            append_neighbours(other)
            append_flags(bit)
            degree[first + 1 : first + 1 + counts.size] += counts
    store.whole("row_ptr", np.cumsum(degree))


def _sorted(sorted_in: Buckets, nodes: int, number: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Sort a bucket; return its first target, the degrees from there on, the neighbours and their spurious flags."""
    code = np.sort(sorted_in.take(number))
    target, other = np.divmod(code >> 1, nodes)
    first = int(target[0]) if target.size else 0
    return first, np.bincount(target - first), other.astype(index_type(nodes)), (code & 1).astype(bool)


def _split(settings: GeneratedSettings, seed: int) -> Int[np.ndarray, "nodes"]:
    """Sample training, validation and test nodes; the rest are context."""
    held = min(settings.held_out, settings.nodes // 10)
    order = np.random.default_rng([seed, 3]).permutation(settings.nodes)
    split = np.zeros(settings.nodes, dtype=np.int8)
    split[order[:held]] = SPLITS.index("validation")
    split[order[held : 2 * held]] = SPLITS.index("test")
    split[order[2 * held :][: round(settings.train * settings.nodes)]] = SPLITS.index("train")
    return split


def _write_features(store: StoreWriter, label: np.ndarray, settings: GeneratedSettings, seed: int) -> None:
    """Write the class centre of each node plus standard normal noise, or one-hot features if the width is zero."""
    width = settings.features
    if width == 0:
        place = np.arange(settings.nodes + 1)
        store.whole("feature_row_ptr", place)
        store.whole("feature_column", place[:-1].astype(index_type(settings.nodes)))
        store.whole("feature_value", np.ones(settings.nodes, dtype=np.float32))
        return
    rng = np.random.default_rng([seed, 4])
    centre = rng.standard_normal((settings.classes, width)) * settings.signal / math.sqrt(2 * width)
    step = max(1, 4 * _CHUNK // width)

    def some(number: int) -> np.ndarray:
        group = label[number * step : (number + 1) * step]
        noise = np.random.default_rng([seed, 5, number]).standard_normal(
            (group.size, width), dtype=np.float32
        )
        return noise + centre.astype(np.float32)[group]

    with store.array("features", np.float32, (settings.nodes, width)) as append:
        for rows in in_order(some, range(-(-settings.nodes // step))):
            append(rows)
