"""Train with and without edge weights.

    python examples/edge_weights.py

Genuine edges of the synthetic graph weigh ten times as much as spurious ones.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from gdpnet import GDPNet
from gdpnet.config import HopwiseSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph

NARROW = RepresentationSettings(width=32, learning_rate=0.03)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4, help="epochs with selection (default: 4)")
    arguments = parser.parse_args()

    plain = synthetic_graph(SyntheticSettings(nodes=300, classes=3, words=300), seed=0)
    assert plain.truth is not None
    weight = torch.where(plain.truth.spurious, 0.2, 2.0)
    weighted = replace(plain, edge_weight=weight)
    for name, graph in (("without weights", plain), ("with weights", weighted)):
        training = TrainingSettings(epochs=arguments.epochs, warmup=10)
        model = GDPNet(
            training=training, hopwise=HopwiseSettings(use=False), representation=NARROW, device="cpu"
        ).fit(graph)
        print(f"micro-F1 {name} {model.score(graph):.3f}")
    cleaned = model.denoise(weighted, threshold=0.5)
    print(f"edges of the cleaned graph {cleaned.graph.num_edges}")
    print(f"largest weight of the cleaned graph {float(cleaned.graph.edge_weight.max()):.3f}")


if __name__ == "__main__":
    main()
