"""Two generated checks: recall of a rare class with and without weights, and R2 beside ridge regression.

    python benchmarks/imbalance.py [--seeds 3] [--epochs 15]

The rare class has 3 % of the nodes. The numbers of the regression change slowly over the graph, and four links in ten
are random.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.linear_model import RidgeCV

from gdpnet import GDPNet, Graph
from gdpnet.config import Config

NODES = 1500


def rare_graph(seed: int) -> Graph:
    """Return a graph in which 3 % of the nodes are of the second class."""
    rng = np.random.default_rng(seed)
    label = (rng.random(NODES) < 0.03).astype(int)
    features = rng.normal(size=(NODES, 8))
    features[:, :4] += 0.7 * label[:, None]
    source = rng.integers(0, NODES, 3 * NODES)
    members = [np.flatnonzero(label == value) for value in (0, 1)]
    alike = np.array([rng.choice(members[label[node]]) for node in source])
    target = np.where(rng.random(source.size) < 0.6, alike, rng.integers(0, NODES, source.size))
    split = rng.choice(3, NODES, p=[0.5, 0.2, 0.3]) + 1
    return Graph.build([source, target], features, label, split=split)


def number_graph(seed: int) -> Graph:
    """Return a graph of nodes with similar numbers, with four links in ten at random."""
    rng = np.random.default_rng(seed)
    hidden = rng.uniform(-1.0, 2.0, NODES)
    order = np.argsort(hidden)
    place = np.argsort(order)
    features = rng.normal(size=(NODES, 8))
    features[:, 0] += hidden
    features[:, 1] -= hidden
    source = rng.integers(0, NODES, 3 * NODES)
    near = order[(place[source] + rng.integers(-20, 21, source.size)).clip(0, NODES - 1)]
    target = np.where(rng.random(source.size) < 0.4, rng.integers(0, NODES, source.size), near)
    split = rng.choice(3, NODES, p=[0.5, 0.2, 0.3]) + 1
    numbers = 10.0 + 3.0 * hidden + rng.normal(0.0, 0.5, NODES)
    return Graph.build([source, target], features, targets=numbers, split=split)


def fitted(graph: Graph, epochs: int, seed: int, changes: dict[str, dict[str, object]]) -> GDPNet:
    """Train a model on features as they are."""
    base = {"features": {"normalise": "none"}, "training": {"epochs": epochs, "warmup": 5}}
    config = Config().with_values(base).with_values(changes)
    return GDPNet.from_config(config, seed=seed, device="cpu").fit(graph)


def main() -> None:
    """Print one line per seed and check."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    asked = parser.parse_args()
    ways: dict[str, dict[str, dict[str, object]]] = {
        "as shipped": {},
        "class_weight balanced": {"task": {"class_weight": "balanced"}},
        "metric average_precision": {"training": {"metric": "average_precision"}},
        "both": {"task": {"class_weight": "balanced"}, "training": {"metric": "average_precision"}},
    }
    for seed in range(asked.seeds):
        graph = rare_graph(seed)
        test = graph.nodes_in("test")
        for name, changes in ways.items():
            found = fitted(graph, asked.epochs, seed, changes).predict(graph, test).astype(int)
            truth = graph.labels[test].numpy()
            recall, called = found[truth == 1].mean(), truth[found == 1]
            precision = called.mean() if called.size else float("nan")
            print(
                f"rare class, seed {seed}, {name}: recall {recall:.2f}, precision {precision:.2f}", flush=True
            )
        graph = number_graph(seed)
        train, test = (graph.nodes_in(part) for part in ("train", "test"))
        model = fitted(graph, asked.epochs, seed, {"task": {"kind": "regression"}})
        ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(graph.features[train], graph.targets[train])
        beside = ridge.score(graph.features[test], graph.targets[test])
        print(
            f"regression, seed {seed}: R2 {model.score(graph):.3f}, ridge regression {beside:.3f}", flush=True
        )


if __name__ == "__main__":
    main()
