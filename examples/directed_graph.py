"""A target hears the sources of its edges: students hear teachers who know, and ask others at random.

    python examples/directed_graph.py

Read both ways, what students ask drowns what they are told.
"""

from __future__ import annotations

import argparse

import numpy as np

from gdpnet import GDPNet
from gdpnet.config import ReaderSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.graph import Graph

TEACHERS, STUDENTS, KINDS = 60, 300, 3
NARROW = RepresentationSettings(width=32, learning_rate=0.03, hops=1)


def school(seed: int, *, directed: bool) -> Graph:
    """Teachers of a subject point at its students; students point at teachers of any subject."""
    rng = np.random.default_rng(seed)
    subject = np.concatenate([np.arange(TEACHERS) % KINDS, rng.integers(KINDS, size=STUDENTS)])
    students = np.arange(TEACHERS, TEACHERS + STUDENTS)
    told_by = np.concatenate(
        [rng.choice(np.flatnonzero(subject[:TEACHERS] == s), 2) for s in subject[students]]
    )
    asked = rng.integers(TEACHERS, size=6 * STUDENTS)
    lessons = np.stack([told_by, students.repeat(2)])
    questions = np.stack([students.repeat(6), asked])
    features = np.zeros((TEACHERS + STUDENTS, KINDS + 1), dtype=np.float32)
    features[np.arange(TEACHERS), subject[:TEACHERS]] = 1.0
    features[students, KINDS] = 1.0  # all that is known of a student is that it is one
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
            training=training, reader=ReaderSettings(use=False), representation=NARROW, device="cpu"
        ).fit(graph)
        print(f"micro-F1 {name} {model.score(graph):.3f}")


if __name__ == "__main__":
    main()
