"""Fit the all-edges head: a small network over the graph as it is.

If the policy drops edges that help, or has too few training nodes to learn from, the other heads suffer; this one
does not. It is cross-fitted with the folds of the aggregators, all fold models in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.fit import fit
from gdpnet._core.random import Key
from gdpnet.config import AllEdgesSettings, Config
from gdpnet.data.dropout import drop_values
from gdpnet.data.features import Features, SparseRows
from gdpnet.representation.all_edges import AllEdgesNetwork, SharedNetwork, adjacency_of
from gdpnet.representation.gcn import NormalisedAdjacency
from gdpnet.representation.sparse import drop_values as drop_table_values
from gdpnet.representation.sparse import table_of, times
from gdpnet.representation.tasks import compare, may_learn
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import HeldOutNodes, quality_and_likelihood

FittedAllEdges = tuple[AllEdgesNetwork | SharedNetwork, Float[Tensor, "held classes"]]
"""The head, and its probabilities of the held-out nodes."""


def is_worth_all_edges(data: TrainingData, held_out: HeldOutNodes, outputs: int, config: Config) -> bool:
    """Return whether the head is wanted, can be evaluated, and is not too costly."""
    settings, own = config.all_edges, own_features(data)
    fits = int(data.whole.linked.sum()) <= settings.max_edges
    fits = fits and data.whole.num_nodes * outputs * _folds(data) <= settings.max_scores
    if isinstance(own, SparseRows):
        fits = fits and own.column.numel() <= settings.max_values
    else:
        fits = fits and own.shape[1] <= settings.max_features
    return settings.use and fits and held_out.nodes.numel() >= config.ensemble.min_held_out


def own_features(data: TrainingData) -> Features:
    """Return the features as they came: sparse ones are dense on a GPU where they fit."""
    return data.whole.features if data.whole.own is None else data.whole.own


def fit_all_edges(
    data: TrainingData, held_out: HeldOutNodes, outputs: int, config: Config, key: Key
) -> FittedAllEdges:
    """Fit the head to the training graph; return it and its probabilities of the held-out nodes.

    Convolutions of sparse features take a node for one of its neighbours, which is wrong where neighbours are of
    other classes. So separate weights are tried too, and used if they are clearly better on held-out nodes.
    """
    settings, given = config.all_edges, (data, held_out, outputs, config, key)
    if not isinstance(own_features(data), SparseRows):
        return _fit_one(AllEdgesNetwork, settings, *given)
    shared, separate = (
        _fit_one(kind, _Sparse.of(settings), *given) for kind in (SharedNetwork, AllEdgesNetwork)
    )
    lead = compare(data.task, separate[1], shared[1], held_out.labels)
    return separate if lead.exceeds(settings.separate_margin) else shared


def _folds(data: TrainingData) -> int:
    """Return the number of fold models: one for each fold that is left out, and one that learns from all."""
    return int(data.fold.max()) + 2 if data.fold.numel() else 1


def _fit_one(
    kind: type[AllEdgesNetwork] | type[SharedNetwork],
    learning: AllEdgesSettings | _Sparse,
    data: TrainingData,
    held_out: HeldOutNodes,
    outputs: int,
    config: Config,
    key: Key,
) -> FittedAllEdges:
    """Fit one kind of network; the epoch of the largest likelihood of held-out nodes counts.

    By that the head gets its weight.
    """
    settings, task, device = config.all_edges, data.task, data.targets.device
    folds = _folds(data)
    columns = data.train.features.shape[1]
    network = kind(columns, learning.width, outputs, folds, exclusive=task.exclusive)
    network.initialise(key.fold_in("weights").generator())
    network, draws = network.to(device), key.fold_in("dropout").generator(device)
    adjacency, whole_adjacency = adjacency_of(data.train), adjacency_of(data.whole)
    hidden_of = _inputs(network, data.train.features, adjacency, settings.dropout, draws)
    labels, learns = data.labels[data.targets], may_learn(data.fold_model[data.targets], folds)

    def loss() -> Tensor:
        hidden = drop_values(hidden_of(), settings.dropout, draws)
        return task.loss(network.scores(hidden, adjacency)[data.targets], labels, learns)

    def predict() -> Tensor:
        found = network.fold_probabilities_of(times(data.whole.features, network.weight), whole_adjacency)
        return held_out.probabilities(found[held_out.nodes])

    fit(
        network,
        network.adam(learning.learning_rate, learning.weight_decay),
        loss,
        lambda: quality_and_likelihood(task, predict(), held_out.labels)[::-1],
        steps=learning.epochs,
        evaluate_every=settings.evaluate_every,
        patience=settings.patience,
    )
    with torch.no_grad():
        return network, predict()


class _Sparse(NamedTuple):
    """How the head learns from sparse features."""

    width: int
    learning_rate: float
    weight_decay: float
    epochs: int

    @classmethod
    def of(cls, settings: AllEdgesSettings) -> _Sparse:
        return cls(*(getattr(settings, f"sparse_{name}") for name in cls._fields))


def _inputs(
    network: AllEdgesNetwork | SharedNetwork,
    rows: Features,
    adjacency: NormalisedAdjacency,
    dropout: float,
    draws: torch.Generator,
) -> Callable[[], Tensor]:
    """Return a function that computes the hidden layer, with dropout on the inputs.

    With separate weights, dense rows are propagated once. Otherwise rows are multiplied first.
    """
    if isinstance(network, AllEdgesNetwork) and isinstance(rows, Tensor):
        return partial(_hidden_of_dense, network, rows, adjacency(rows), dropout, draws)
    table = table_of(rows, rows.device)

    def hidden() -> Tensor:
        dropped = drop_table_values(table, dropout, True, draws)
        return network.embed(times(dropped, network.weight), adjacency)

    return hidden


def _hidden_of_dense(
    network: AllEdgesNetwork, rows: Tensor, mixed: Tensor, dropout: float, draws: torch.Generator
) -> Tensor:
    own, around = network.weight.chunk(2, dim=1)
    inputs = [drop_values(one, dropout, draws) for one in (rows, mixed)]
    return network.hidden(inputs[0] @ own + inputs[1] @ around)
