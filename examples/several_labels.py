"""Multi-label classification: a node may have several labels, or none.

    python examples/several_labels.py

Every node has the label of its class, and every second class has one more label.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from gdpnet import GDPNet
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph


def with_several_labels(graph: Graph) -> Graph:
    """Return the graph with class names that join several labels by a bar, as in a table."""
    names = [f"topic {n}|even" if n % 2 == 0 else f"topic {n}" for n in range(graph.num_classes)]
    return replace(graph, class_names=tuple(names), truth=None)


def main() -> None:
    graph = with_several_labels(synthetic_graph(SyntheticSettings(nodes=400, classes=4, words=300), seed=0))
    model = GDPNet(task="multi-label", device="cpu").set_params(training__epochs=5, training__warmup=10)
    model.fit(graph)
    print(f"labels {len(model.classes_)}")
    print(f"micro-F1 on test nodes {model.score(graph):.3f}")
    print(f"labels of node 7: {model.predict(graph, torch.tensor([7]))[0]}")


if __name__ == "__main__":
    main()
