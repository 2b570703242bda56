"""Train on a graph without features, and predict the roles of nodes in another graph.

    python examples/without_features.py

Structural features transfer to other graphs; one-hot features do not.
"""

from __future__ import annotations

import argparse

import networkx as nx
import torch

from gdpnet import GDPNet
from gdpnet.config import FeaturesSettings, HopwiseSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.graph import Graph
from gdpnet.data.io.networkx import from_networkx
from gdpnet.errors import GraphError

NARROW = RepresentationSettings(width=32, learning_rate=0.03)


def town(parts: int) -> Graph:
    """Return a connected graph of cliques, stars and rings; the shape that a node is in is its label."""
    shapes = {"clique": nx.complete_graph(5), "star": nx.star_graph(6), "ring": nx.cycle_graph(7)}
    network = nx.Graph()
    for part in range(parts):
        for name, shape in shapes.items():
            network.update(nx.relabel_nodes(shape, {node: f"{name} {part} {node}" for node in shape}))
        network.add_edge(f"clique {part} 0", f"ring {part} 0")
        network.add_edge(f"star {part} 1", f"clique {max(part - 1, 0)} 1")
    nx.set_node_attributes(network, {node: node.split()[0] for node in network}, "label")
    return from_networkx(network, label="label")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6, help="epochs with selection (default: 6)")
    arguments = parser.parse_args()
    here, elsewhere = town(12), town(20)
    training = TrainingSettings(epochs=arguments.epochs, warmup=10)
    for missing in ("structural", "one-hot"):
        model = GDPNet(
            features=FeaturesSettings(missing=missing),
            training=training,
            hopwise=HopwiseSettings(use=False),
            representation=NARROW,
            device="cpu",
        ).fit(here)
        try:
            found = model.predict(elsewhere)
        except GraphError:
            print(f"{missing} model refuses another graph 1")
            continue
        truth = [elsewhere.class_names[label] for label in elsewhere.labels]
        right = torch.tensor([one == other for one, other in zip(found, truth, strict=True)])
        print(f"accuracy of the {missing} model on another graph {float(right.float().mean()):.3f}")


if __name__ == "__main__":
    main()
