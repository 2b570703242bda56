"""Predict nodes that were not in the training graph: many at once, one at a time, and another graph.

    python examples/unseen_nodes.py

The last nodes of the synthetic graph, and their edges, are added after training.
"""

from __future__ import annotations

import argparse

import torch

from gdpnet import GDPNet
from gdpnet.config import HopwiseSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph

NARROW = RepresentationSettings(width=32, learning_rate=0.03)


def accuracy(model: GDPNet, graph: Graph, nodes: torch.Tensor) -> float:
    label = graph.labels[nodes]
    found = [graph.class_names.index(name) for name in model.predict(graph, nodes)]
    return float((torch.tensor(found) == label).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4, help="epochs with selection (default: 4)")
    arguments = parser.parse_args()

    later = synthetic_graph(SyntheticSettings(nodes=300, classes=3, words=300), seed=0)
    before = later.induced(torch.arange(220))  # without the last eighty nodes and their edges
    training = TrainingSettings(epochs=arguments.epochs, warmup=10)
    model = GDPNet(
        training=training, hopwise=HopwiseSettings(use=False), representation=NARROW, device="cpu"
    ).fit(before)

    new = later.numbers_of([node for node in later.node_ids if node not in set(before.node_ids)])
    at_once = model.predict(later, new)
    alone = [model.predict(later, later.numbers_of([later.node_ids[node]]))[0] for node in new[:5]]
    other = synthetic_graph(SyntheticSettings(nodes=200, classes=3, words=300), seed=0)
    print(f"accuracy on new nodes {accuracy(model, later, new):.3f}")
    print(f"share of equal predictions one at a time {sum(alone == at_once[:5]) / 5:.3f}")
    print(f"predicted nodes of another graph {len(model.predict(other))}")


if __name__ == "__main__":
    main()
