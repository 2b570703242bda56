"""Small and odd tables: steps and interactions in columns, useless or deceptive links, hubs, few nodes.

`benchmarks/tabular.py` compares methods on them; they are generated unlike its first ten graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class OddKind:
    """What a small table is like."""

    nodes: int = 400
    shares: tuple[float, ...] = (0.5, 0.5)
    shape: str = "linear"
    """How columns tell the class: linear, steps (a decision tree), checkerboard, rings."""
    signal: float = 1.0
    """Distance between the classes of linear columns."""
    columns: int = 4
    """Columns that say something; checkerboard and rings use two."""
    distractors: int = 2
    """Columns of noise."""
    flipped: float = 0.05
    """Share of the nodes whose class is drawn anew after the columns, for shapes that are not linear."""
    degree: float = 6.0
    same: float = 0.8
    """Share of the links that end in the same class."""
    other: float = 0.0
    """Share of the links that end in the next class."""
    hubs: float = 0.0
    """Exponent of the skew of degrees; zero for none."""


ODD_KINDS = {
    "small weak features": OddKind(signal=0.35, degree=8.0, same=0.85),
    "small steps": OddKind(nodes=500, shape="steps", columns=5, same=0.0),
    "steps and links": OddKind(nodes=800, shape="steps", columns=5, same=0.6, shares=(0.4, 0.3, 0.3)),
    "checkerboard": OddKind(nodes=600, shape="checkerboard", same=0.3, distractors=3),
    "rings": OddKind(nodes=500, shape="rings", shares=(0.4, 0.35, 0.25), same=0.5),
    "small useless links": OddKind(nodes=300, same=0.0, columns=6, signal=0.6),
    "other class": OddKind(nodes=500, same=0.05, other=0.8, signal=0.5),
    "ring of classes": OddKind(nodes=600, shares=(0.4, 0.3, 0.3), same=0.05, other=0.8, signal=0.7),
    "small fraud": OddKind(nodes=900, shares=(0.92, 0.08), signal=1.2, same=0.7),
    "few links": OddKind(nodes=450, degree=1.5, same=0.9, signal=0.8),
    "hubs": OddKind(nodes=500, hubs=1.5, degree=5.0, same=0.7, signal=0.6),
    "few and wide": OddKind(nodes=250, columns=10, distractors=60, signal=0.4, same=0.6),
    "five classes": OddKind(nodes=600, shares=(0.4, 0.25, 0.15, 0.1, 0.1), same=0.75, signal=0.6, degree=7.0),
}


def generate_odd(kind: OddKind, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return a node table and an edge table."""
    rng = np.random.default_rng([seed, 7])
    classes = len(kind.shares)
    if kind.shape == "linear":
        label = rng.choice(classes, kind.nodes, p=kind.shares)
        centre = rng.normal(0, kind.signal, (classes, kind.columns))
        value = centre[label] + rng.normal(0, 1, (kind.nodes, kind.columns))
    else:
        value = rng.normal(0, 1, (kind.nodes, kind.columns))
        label = _SHAPES[kind.shape](value, kind, rng)
        drawn = rng.choice(classes, kind.nodes, p=kind.shares)
        label = np.where(rng.random(kind.nodes) < kind.flipped, drawn, label)
    value = np.hstack([value, rng.normal(0, 1, (kind.nodes, kind.distractors))])
    value = value[:, rng.permutation(value.shape[1])]
    columns = {
        "id": pa.array([f"n{node:05d}" for node in range(kind.nodes)]),
        "label": pa.array([f"class {chr(97 + one)}" for one in label]),
    }
    for number, column in enumerate(value.T):
        shaped = (column * 20 + 100, np.exp(column + 5), column)[number % 3]
        columns[f"x{number}"] = pa.array(shaped.round(4))
    return pa.table(columns), _links(label, kind, rng, columns["id"])


def _by_share(score: np.ndarray, kind: OddKind) -> np.ndarray:
    """Cut a score into classes of the wanted shares."""
    cuts = np.quantile(score, np.cumsum(kind.shares)[:-1])
    return np.searchsorted(cuts, score, side="right")


def _steps(value: np.ndarray, kind: OddKind, rng: np.random.Generator) -> np.ndarray:
    """Return the classes of a random decision tree of three levels, each leaf of one class."""
    leaf = np.zeros(len(value), dtype=int)
    for level in range(3):
        column = rng.integers(0, value.shape[1], 1 << level)
        leaf = 2 * leaf + (value[np.arange(len(value)), column[leaf]] > rng.normal(0, 0.4, 1 << level)[leaf])
    order = np.concatenate([np.arange(len(kind.shares)), rng.choice(len(kind.shares), 8, p=kind.shares)])[:8]
    return rng.permutation(order)[leaf]


def _checkerboard(value: np.ndarray, kind: OddKind, rng: np.random.Generator) -> np.ndarray:
    place = (value[:, :2] > 0).astype(int)
    return place.sum(axis=1) % len(kind.shares)


def _rings(value: np.ndarray, kind: OddKind, rng: np.random.Generator) -> np.ndarray:
    return _by_share(np.hypot(value[:, 0], value[:, 1]), kind)


_SHAPES = {"steps": _steps, "checkerboard": _checkerboard, "rings": _rings}


def _links(label: np.ndarray, kind: OddKind, rng: np.random.Generator, ids: pa.Array) -> pa.Table:
    count, classes = int(kind.nodes * kind.degree / 2), len(kind.shares)
    popular = rng.pareto(kind.hubs, kind.nodes) + 0.2 if kind.hubs else np.ones(kind.nodes)
    source = rng.integers(0, kind.nodes, count)
    fate = rng.random(count)
    wanted = np.where(fate < kind.same, label[source], (label[source] + 1) % classes)
    target = rng.choice(kind.nodes, count, p=popular / popular.sum())
    for one in range(classes):
        asked = np.flatnonzero((wanted == one) & (fate < kind.same + kind.other))
        members = np.flatnonzero(label == one)
        if members.size:
            target[asked] = rng.choice(members, asked.size, p=popular[members] / popular[members].sum())
    kept = source != target
    return pa.table({"source": ids.take(pa.array(source[kept])), "target": ids.take(pa.array(target[kept]))})
