"""Predict missing edges of a noisy graph.

    python examples/link_prediction.py

The model and the common-neighbours score separate held-out edges from pairs that are not adjacent.
"""

from __future__ import annotations

import torch
from sklearn.metrics import roc_auc_score

from gdpnet import GDPNet
from gdpnet.benchmark.baselines.unsupervised import LINK_PREDICTORS
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.link_split import split_links

EASY = SyntheticSettings(nodes=600, classes=4, words=400, words_per_node=24, spurious_links=0.5)


def main() -> None:
    graph = synthetic_graph(EASY, seed=0)
    split = split_links(graph, seed=0)  # 85 % training, 5 % validation, 10 % test
    model = GDPNet(task="links", device="cpu").set_params(training__epochs=10, training__warmup=5)
    model.fit(split.train, held_out=split.validation)

    linked = split.test.linked.numpy()
    probabilities = model.predict_links(split.train, split.test.ends)
    common = LINK_PREDICTORS["common-neighbours"](split.train, split.validation, 0, torch.device("cpu"))
    print(f"ROC AUC of the model {roc_auc_score(linked, probabilities):.3f}")
    print(f"ROC AUC of common neighbours {roc_auc_score(linked, common(split.test.ends)):.3f}")
    likely = int(probabilities.argmax())
    ends = [str(graph.node_ids[node]) for node in split.test.ends[:, likely].tolist()]
    print(f"most probable edge, {ends[0]} to {ends[1]}, has probability {probabilities[likely]:.3f}")


if __name__ == "__main__":
    main()
