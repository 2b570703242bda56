"""Write the three example exports beside this file: fraud, citations, social. They are generated, not real.

python examples/tables/make.py
"""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def write(folder: str, name: str, header: list[str], rows: list[list[object]], delimiter: str = ",") -> None:
    """Write one table."""
    (HERE / folder).mkdir(exist_ok=True)
    with (HERE / folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def links(group: np.ndarray, degree: float, alike: float, rng: np.random.Generator) -> np.ndarray:
    """Draw links, a share of them within a group, the others anywhere."""
    count = int(len(group) * degree / 2)
    source = rng.integers(0, len(group), count)
    members = {value: np.flatnonzero(group == value) for value in np.unique(group)}
    within = [rng.choice(members[group[node]]) for node in source]
    target = np.where(rng.random(count) < alike, within, rng.integers(0, len(group), count))
    pairs = np.sort(np.stack([source, target]), axis=0)
    return np.unique(pairs[:, source != target], axis=1).T


def fraud(rng: np.random.Generator) -> None:
    """Accounts that pay each other: 5 % fraud, columns of unlike scale, categories, a date, missing values."""
    nodes = 1200
    bad = rng.random(nodes) < 0.05
    ring = np.where(bad, 1, 0)
    country = np.where(
        rng.random(nodes) < np.where(bad, 0.5, 0.1), "KY", rng.choice(["DE", "FR", "IT", "ES"], nodes)
    )
    rows = []
    for node in range(nodes):
        income = np.exp(rng.normal(10.3 - 0.3 * bad[node], 0.6))
        opened = date(2024, 6, 30) - timedelta(days=int(rng.exponential(200 if bad[node] else 1500)))
        rows.append(
            [
                f"A{node:05d}",
                "" if rng.random() < 0.1 else round(rng.normal(35 if bad[node] else 44, 12)),
                "" if rng.random() < 0.2 else f"{income:.2f}",
                int(rng.poisson(25 if bad[node] else 12)),
                f"{rng.beta(3 if bad[node] else 1.5, 5):.3f}",
                rng.choice(["app", "web", "branch"], p=[0.7, 0.25, 0.05] if bad[node] else [0.4, 0.4, 0.2]),
                country[node],
                opened.isoformat(),
                "fraud" if bad[node] else "ok",
            ]
        )
    header = [
        "account",
        "age",
        "income",
        "payments",
        "share_at_night",
        "channel",
        "country",
        "opened",
        "status",
    ]
    write("fraud", "nodes.csv", header, rows)
    edges = [
        [f"A{one:05d}", f"A{two:05d}", f"{np.exp(rng.normal(4, 1)):.2f}"]
        for one, two in links(ring, 7.0, 0.8, rng)
    ]
    write("fraud", "edges.csv", ["payer", "payee", "amount"], edges)


TOPICS = {
    "databases": "query index transaction storage join schema relational optimiser lock concurrency",
    "vision": "image segmentation detection convolution pixel camera object recognition scene texture",
    "language": "translation parsing corpus sentence grammar semantic speech dialogue token summarisation",
    "theory": "complexity bound proof approximation polynomial lattice automata reduction hardness logic",
}
SHARED = (
    "approach method results analysis model large efficient novel study evaluation system data using improved"
)


def citations(rng: np.random.Generator) -> None:
    """Papers that cite each other: titles as text, a year, and links that are often wrong."""
    nodes, names = 800, list(TOPICS)
    topic = rng.integers(0, len(names), nodes)
    rows = []
    for node in range(nodes):
        own = rng.choice(TOPICS[names[topic[node]]].split(), 2, replace=False)
        other = rng.choice(TOPICS[names[rng.integers(len(names))]].split(), 1)
        words = rng.permutation([*own, *other, *rng.choice(SHARED.split(), 3, replace=False)])
        known = names[topic[node]] if rng.random() < 0.7 else ""
        rows.append([f"P{node}", " ".join(words).capitalize(), int(rng.integers(1998, 2024)), known])
    write("citations", "nodes.csv", ["id", "title", "year", "label"], rows, delimiter=";")
    edges = [[f"P{one}", f"P{two}"] for one, two in links(topic, 6.0, 0.65, rng)]
    write("citations", "edges.csv", ["source", "target"], edges, delimiter=";")


def social(rng: np.random.Generator) -> None:
    """People who follow each other: no features at all, a community for a third of them."""
    nodes = 600
    group = rng.integers(0, 3, nodes)
    clubs = ("chess", "rowing", "choir")
    rows = [[f"user{node}", clubs[group[node]] if rng.random() < 0.35 else ""] for node in range(nodes)]
    write("social", "nodes.csv", ["id", "label"], rows)
    edges = [[f"user{one}", f"user{two}"] for one, two in links(group, 14.0, 0.7, rng)]
    write("social", "edges.csv", ["source", "target"], edges)


if __name__ == "__main__":
    fraud(np.random.default_rng(1))
    citations(np.random.default_rng(2))
    social(np.random.default_rng(3))
