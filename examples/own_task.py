"""Train GDPNet on a task of your own: ratings, where a near miss is better than a far one.

    python examples/own_task.py

A task defines the true value of a node, the loss, and f_c, the score of a target that selection maximises. Here the
classes of the synthetic graph are ratings 0, 1, 2, ...: f_c is the probability of the true rating plus half of that
of the adjacent ratings, so that an error of one step costs less.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from gdpnet import GDPNet, Graph, synthetic_graph
from gdpnet.config import HopwiseSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.datasets.synthetic import SyntheticSettings
from gdpnet.representation.tasks import mean_by_fold_model


class Ratings:
    """Ordered classes: half a point for a rating next to the true one."""

    exclusive = True  # class probabilities are a softmax

    def outputs(self, graph: Graph) -> int:
        return graph.num_classes

    def truth(self, graph: Graph) -> Tensor:
        return graph.labels

    def points(self, probabilities: Tensor, rating: Tensor) -> Tensor:
        steps = torch.arange(probabilities.shape[-1], device=probabilities.device)
        worth = (1.0 - (steps - rating[:, None]).abs() / 2).clamp(min=0.0)  # n, ratings
        return (probabilities * worth.reshape(len(rating), *[1] * (probabilities.dim() - 2), -1)).sum(dim=-1)

    def loss(self, logits: Tensor, truth: Tensor, learns: Tensor) -> Tensor:
        probabilities = torch.softmax(logits, dim=2)  # n, fold models, ratings
        return mean_by_fold_model(-self.points(probabilities, truth).clamp(min=1e-6).log(), learns)

    def score(self, probabilities: Tensor, truth: Tensor, kind: str) -> Tensor:
        if kind == "hit":
            probabilities = torch.nn.functional.one_hot(
                probabilities.argmax(dim=1), probabilities.shape[1]
            ).float()
        return self.points(probabilities, truth)

    def quality(self, probabilities: Tensor, truth: Tensor) -> float:
        return float(self.score(probabilities, truth, "hit").mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="training epochs (default: 15)")
    arguments = parser.parse_args()
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=4), seed=0)
    model = GDPNet(
        task=Ratings(),
        training=TrainingSettings(epochs=arguments.epochs, warmup=3),
        representation=RepresentationSettings(width=32),
        hopwise=HopwiseSettings(use=False),
        device="cpu",
    ).fit(graph)
    validation = graph.nodes_in("validation")
    best = graph.labels[graph.nodes_in("train")].bincount().argmax()  # the most frequent rating
    guess = torch.nn.functional.one_hot(best, 4).float().expand(len(validation), 4)
    print(f"points by guessing       {Ratings().quality(guess, graph.labels[validation]):.3f}")
    print(f"points of the model      {model.score(graph, 'validation'):.3f}")


if __name__ == "__main__":
    main()
