"""Teach GDPNet a task of one's own: ratings, where a near miss is better than a far one.

    python examples/own_task.py

A task says what is true of a node, how wrong beliefs are (the loss), and f_c, the score of a target that neighbours
are chosen by. Here the classes of a generated graph stand for ratings 0, 1, 2, ...: f_c is the belief in the true
rating and half of that in the ratings beside it, so that a neighbour that leads a node astray by one step costs less.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from gdpnet import GDPNet, Graph, synthetic_graph
from gdpnet.config import ReaderSettings, RepresentationSettings, TrainingSettings
from gdpnet.data.datasets.synthetic import SyntheticSettings
from gdpnet.representation.tasks import mean_by_member


class Ratings:
    """Classes in order: half a point for the rating next to the true one."""

    exclusive = True  # beliefs are a softmax

    def outputs(self, graph: Graph) -> int:
        return graph.num_classes

    def truth(self, graph: Graph) -> Tensor:
        return graph.labels

    def points(self, beliefs: Tensor, rating: Tensor) -> Tensor:
        steps = torch.arange(beliefs.shape[-1], device=beliefs.device)
        worth = (1.0 - (steps - rating[:, None]).abs() / 2).clamp(min=0.0)  # n, ratings
        return (beliefs * worth.reshape(len(rating), *[1] * (beliefs.dim() - 2), -1)).sum(dim=-1)

    def loss(self, logits: Tensor, truth: Tensor, learns: Tensor) -> Tensor:
        beliefs = torch.softmax(logits, dim=2)  # n, members, ratings
        return mean_by_member(-self.points(beliefs, truth).clamp(min=1e-6).log(), learns)

    def score(self, beliefs: Tensor, truth: Tensor, kind: str) -> Tensor:
        if kind == "hit":
            beliefs = torch.nn.functional.one_hot(beliefs.argmax(dim=1), beliefs.shape[1]).float()
        return self.points(beliefs, truth)

    def quality(self, beliefs: Tensor, truth: Tensor) -> float:
        return float(self.score(beliefs, truth, "hit").mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="turns of the two phases (default: 15)")
    arguments = parser.parse_args()
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=4), seed=0)
    model = GDPNet(
        task=Ratings(),
        training=TrainingSettings(epochs=arguments.epochs, warmup=3),
        representation=RepresentationSettings(width=32),
        reader=ReaderSettings(use=False),
        device="cpu",
    ).fit(graph)
    validation = graph.nodes_in("validation")
    best = graph.labels[graph.nodes_in("train")].bincount().argmax()  # the rating that is commonest
    guess = torch.nn.functional.one_hot(best, 4).float().expand(len(validation), 4)
    print(f"points by guessing       {Ratings().quality(guess, graph.labels[validation]):.3f}")
    print(f"points by what was kept  {model.score(graph, 'validation'):.3f}")


if __name__ == "__main__":
    main()
