"""Cluster the nodes of a noisy graph without labels.

    python examples/clustering.py

The labels of the synthetic graph are used only at the end, to compare clusters with classes.
"""

from __future__ import annotations

import torch
from sklearn.metrics import normalized_mutual_info_score

from gdpnet import GDPNet
from gdpnet.benchmark.baselines.unsupervised import CLUSTERERS
from gdpnet.config import TaskSettings
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph

EASY = SyntheticSettings(nodes=600, classes=4, words=400, topics_per_class=2, spurious_links=0.5)


def main() -> None:
    graph = synthetic_graph(EASY, seed=0)
    model = GDPNet(task=TaskSettings(kind="clusters", clusters=4), device="cpu")
    model.set_params(training__epochs=10, training__warmup=5).fit(graph)
    found = model.predict(graph)
    print(f"clusters found {len(set(found))}")
    print(f"agreement of clusters with classes (NMI) {normalized_mutual_info_score(graph.labels, found):.3f}")
    alone = CLUSTERERS["kmeans"](graph, 4, 0, torch.device("cpu"))
    print(f"agreement of k-means on features (NMI) {normalized_mutual_info_score(graph.labels, alone):.3f}")
    print(f"share of edges kept {model.denoise(graph).kept.mean():.3f}")


if __name__ == "__main__":
    main()
