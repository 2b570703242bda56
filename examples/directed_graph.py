"""Keep the direction of edges: a target aggregates the sources of its edges only.

    python examples/directed_graph.py

Teachers have edges to the students of their subject; students have edges to random teachers. If every edge is read in
both directions, the random edges hide the informative ones.
"""

from __future__ import annotations

import argparse

import numpy as np

from gdpnet import GDPNet
from gdpnet.config import HopwiseSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.graph import Graph

TEACHERS, STUDENTS, KINDS = 60, 300, 3
NARROW = RepresentationSettings(width=32, learning_rate=0.03, hops=1)


def school(seed: int, *, directed: bool) -> Graph:
    """Return teachers with edges to students of their subject, and students with edges to random teachers."""
    rng = np.random.default_rng(seed)
    subject = np.concatenate([np.arange(TEACHERS) % KINDS, rng.integers(KINDS, size=STUDENTS)])
    students = np.arange(TEACHERS, TEACHERS + STUDENTS)
    teacher = np.concatenate(
        [rng.choice(np.flatnonzero(subject[:TEACHERS] == s), 2) for s in subject[students]]
    )
    asked = rng.integers(TEACHERS, size=6 * STUDENTS)
    lessons = np.stack([teacher, students.repeat(2)])
    questions = np.stack([students.repeat(6), asked])
    features = np.zeros((TEACHERS + STUDENTS, KINDS + 1), dtype=np.float32)
    features[np.arange(TEACHERS), subject[:TEACHERS]] = 1.0
    features[students, KINDS] = 1.0  # a student has no other feature
    split = rng.choice([1, 1, 1, 2, 3], size=features.shape[0])
    edges = np.concatenate([lessons, questions], axis=1)
    return Graph.build(edges, features, subject, split=split, directed=directed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="epochs (default: 20)")
    arguments = parser.parse_args()
    for name, directed in (("directed", True), ("both ways", False)):
        graph = school(0, directed=directed)
        training = TrainingSettings(epochs=arguments.epochs, warmup=0, selection=False)
        model = GDPNet(
            training=training, hopwise=HopwiseSettings(use=False), representation=NARROW, device="cpu"
        ).fit(graph)
        print(f"micro-F1 {name} {model.score(graph):.3f}")


if __name__ == "__main__":
    main()
