"""Pro-GNN: learn the adjacency matrix and the network together (Jin et al., 2020), with the package deeprobust.

It holds a dense adjacency matrix and computes all its singular values every epoch, so that it is limited to graphs of
a few thousand nodes. It is transductive: it learns on the whole graph, including features and edges of test nodes,
which the other methods do not see.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor

from gdpnet.benchmark.baselines.fitting import Fitted, Settings, Task, seeded
from gdpnet.benchmark.baselines.link_predictors import unit_rows
from gdpnet.benchmark.baselines.propagation import weights_of
from gdpnet.errors import ConfigError, GraphError

MOST_NODES = 5000
"""Largest number of nodes."""


def pro_gnn(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Train Pro-GNN with the default loss weights of the package; it scores edges by their learned weights."""
    graph = task.whole
    if graph.num_nodes > MOST_NODES:
        raise GraphError(
            f"Pro-GNN holds a dense adjacency matrix: at most {MOST_NODES:,} nodes, found {graph.num_nodes:,}"
        )
    package = _package()
    features = unit_rows(graph).to(device)
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes)
    adjacency[graph.target, graph.neighbour] = weights_of(graph)
    labels, train = graph.labels.to(device), task.seen[task.targets].to(device)
    with seeded(seed, device), _quiet():
        network = package.GCN(
            graph.num_features,
            settings.width,
            graph.num_classes,
            dropout=settings.dropout,
            device=str(device),
        )
        model = package.ProGNN(network, _arguments(settings), str(device))
        model.fit(features, adjacency.to(device), labels, train, task.validation.to(device))
    return _read(model, features, labels, task, settings)


@torch.no_grad()
def _read(model: Any, features: Tensor, labels: Tensor, task: Task, settings: Settings) -> Fitted:
    """Return the predictions of the best network on the best graph, and the learned edge weights."""
    model.model.eval()
    logits = model.model(features, model.best_graph).float()
    asked = task.validation.to(labels.device)
    f1 = float((logits[asked].argmax(dim=1) == labels[asked]).double().mean())
    loss = float(torch.nn.functional.cross_entropy(logits[asked], labels[asked]))
    learned = model.estimator.estimated_adj.detach().cpu()
    target, neighbour = task.whole.target, task.whole.neighbour
    weight = (learned[target, neighbour] + learned[neighbour, target]) / 2
    return Fitted(logits.cpu(), f1, loss, settings.epochs, keep_score=weight, kept=weight > 0)


def _arguments(settings: Settings) -> Namespace:
    """Return the settings as the package reads them, with the loss weights of its example."""
    return Namespace(
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        epochs=settings.epochs,
        lr_adj=0.01,
        alpha=5e-4,
        beta=1.5,
        gamma=1.0,
        lambda_=0.0,
        phi=0.0,
        inner_steps=2,
        outer_steps=1,
        symmetric=False,
        only_gcn=False,
        debug=False,
    )


def _package() -> Any:
    try:
        with _quiet():
            from deeprobust.graph import defense
    except ImportError as error:
        raise ConfigError(
            f"Pro-GNN needs the package deeprobust, pip install 'gdpnet[pro-gnn]' ({error})"
        ) from error
    return defense


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence what the package prints and warns of."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
