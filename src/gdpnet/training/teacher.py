"""Predict the classes of unlabelled nodes before GDPNet is trained: a GCN on the edges that look genuine.

Few labels teach the policy little. Boosted trees that tell the graph's own edges from injected ones need no label:
they rank the edges, and small GCNs are fitted to the best-ranked share of them. So are linear models of the spectral
columns of these edges, which read no features. Validation nodes choose the share and the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from gdpnet._core.csr import find_in_rows
from gdpnet._core.fit import fit
from gdpnet._core.progress import advance, is_time_up
from gdpnet._core.random import Key
from gdpnet.config import Config, SelfTrainingSettings
from gdpnet.data.pair_features import PAIR_NAMES
from gdpnet.data.prepare import Prepared
from gdpnet.representation.gcn import GCN, NormalisedAdjacency
from gdpnet.representation.linear import LinearModels
from gdpnet.representation.sparse import table_of
from gdpnet.representation.tasks import compare
from gdpnet.training.data import TrainingData
from gdpnet.training.held_out import quality_and_likelihood
from gdpnet.training.pseudo_labels import confident_labels, deviation_of, with_pseudo_labels
from gdpnet.training.spectral import SpectralColumns, spectral_columns

_MOST_ROWS = 60_000
"""Edges that the trees are fitted to at most."""


class Kept(NamedTuple):
    """The edges that a teacher reads, one for a kept edge and zero for another."""

    share: float
    train: Float[Tensor, "train"]
    whole: Float[Tensor, "whole"]
    spectral: SpectralColumns | None = None
    """Columns of these edges that a linear model reads; None: a GCN reads edges and features."""

    @property
    def key(self) -> tuple[float, int]:
        """Return the share, and the number of spectral columns."""
        return self.share, 0 if self.spectral is None else self.spectral.train.shape[1]


class Taught(NamedTuple):
    """The class probabilities of a teacher, and the edges that it reads."""

    nodes: Float[Tensor, "nodes classes"]
    """Of every node of the training graph."""
    validation: Float[Tensor, "validation classes"]
    kept: tuple[Kept, ...]
    """The edges that each of its models reads."""
    score: tuple[float, ...]
    """On validation nodes."""
    helps: bool = True
    """Whether learning from its confident predictions did no clear harm there."""

    @property
    def about(self) -> str:
        """Return which models these are, and the shares of the edges that they read."""
        found = []
        for name, is_spectral in (("GCNs on", False), ("spectral columns of", True)):
            shares = sorted({one.share for one in self.kept if (one.spectral is not None) is is_spectral})
            found += [f"{name} {' and '.join(f'{share:.0%}' for share in shares)}"] if shares else []
        return f"{' and '.join(found)} of the edges"


def fit_teacher(data: TrainingData, outputs: int, config: Config, key: Key) -> Taught:
    """Fit GCNs and linear models per share of the edges; go on with those that are not clearly worse than the best.

    The mean of their probabilities counts, since a GCN that has seen few labels depends much on its first weights.
    They are fitted again to the labels and to their own confident predictions, as long as they do not get worse.
    Without a ranking all edges are tried, and none.
    """
    settings, scores = config.self_training, rank_edges(data, key.seed32)
    shares, rounds = settings.shares, settings.teacher_rounds
    if scores is None:
        shares = (1.0, *(share for share in shares if share == 0.0))
    found: list[Taught] = []
    for number, share in enumerate(shares):
        train, whole = (_best_share(score, share) for score in scores or _no_ranking(data))
        kept = Kept(share, train, whole)
        rivals = (kept, *with_spectral_columns(data, kept, outputs, settings))
        found += [_fit_several(data, outputs, config, key, (one,)) for one in rivals]
        advance(number + 1, len(shares) + rounds)
        if is_time_up():
            break
    best = _mean_of(data, good_ones(found, data.validation.numel()))
    for number in range(rounds):
        share = settings.first_share if number == 0 else settings.later_share
        pseudo = confident_labels(data, best.nodes, best.validation, share, settings)
        again = _fit_several(with_pseudo_labels(data, pseudo), outputs, config, key, best.kept)
        advance(len(shares) + number + 1, len(shares) + rounds)
        if number == 0 and is_clearly_worse(data, again, best):
            return best._replace(helps=False)
        if again.score[0] < best.score[0] or is_time_up():
            break
        best = again
    return best


def is_clearly_worse(data: TrainingData, one: Taught, other: Taught) -> bool:
    """Return whether a teacher is behind another on validation nodes by more than a standard deviation."""
    lead = compare(data.task, other.validation, one.validation, data.validation_labels)
    return lead.exceeds(1.0)


def good_ones(found: Sequence[Taught], validation: int) -> list[Taught]:
    """Return the best on validation nodes, and all that are behind it by at most half a standard deviation."""
    best = max(one.score for one in found)
    least = best[0] - 0.5 * deviation_of(best[0], validation)
    return [one for one in found if one.score[0] >= least]


def _fit_several(data: TrainingData, outputs: int, config: Config, key: Key, kept: Sequence[Kept]) -> Taught:
    """Fit a linear model, or GCNs of different first weights, to each choice of edges; return their mean."""
    found = []
    for edges in kept:
        if edges.spectral is not None:
            found.append(_fit_linear(data, outputs, edges, edges.spectral, config.self_training))
            continue
        for number in range(config.self_training.teachers):
            found.append(_fit_one(data, outputs, config, key.fold_in("teacher", number), edges))
            if is_time_up():
                return _mean_of(data, found)
    return _mean_of(data, found)


def _mean_of(data: TrainingData, found: Sequence[Taught]) -> Taught:
    """Return the mean of the probabilities of some teachers."""
    nodes = torch.stack([one.nodes for one in found]).mean(dim=0)
    validation = torch.stack([one.validation for one in found]).mean(dim=0)
    every = {edges.key: edges for one in found for edges in one.kept}
    score = quality_and_likelihood(data.task, validation, data.validation_labels)
    return Taught(nodes, validation, tuple(every.values()), score)


def with_spectral_columns(
    data: TrainingData, kept: Kept, outputs: int, settings: SelfTrainingSettings
) -> list[Kept]:
    """Return a choice of edges with each number of spectral columns; none without edges, or if they are too many."""
    counts = sorted({min(outputs * number, settings.max_spectral) for number in settings.spectral})
    if not counts or kept.share == 0.0 or kept.whole.numel() > settings.max_spectral_edges:
        return []
    columns = spectral_columns(data, kept.train, kept.whole, counts[-1])
    return [] if columns is None else [kept._replace(spectral=columns.leading(count)) for count in counts]


def _no_ranking(data: TrainingData) -> tuple[Tensor, Tensor]:
    return torch.ones_like(data.train.linked), torch.ones_like(data.whole.linked)


def rank_edges(data: TrainingData, seed: int) -> tuple[Float[Tensor, "train"], Float[Tensor, "whole"]] | None:
    """Score the edges of the training graph and of the whole graph by boosted trees; None without injected edges.

    The trees learn from pair features of the perturbed graphs which edges are the graph's own. No label is read.
    """
    perturbed = [*data.injected, *([data.held_out_graph.perturbed] if data.held_out_graph else [])]
    columns = _structure_columns(data.train)
    if not perturbed or columns is None:
        return None
    tables = np.concatenate([one.pairs[:, columns].cpu().numpy() for one in perturbed])
    own = np.concatenate([_is_own(data.train, one).cpu().numpy() for one in perturbed])
    if own.all():
        return None
    some = np.random.default_rng(seed).permutation(len(own))[:_MOST_ROWS]
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=150, max_leaf_nodes=8, l2_regularization=1.0, early_stopping=False
    ).fit(tables[some], own[some])

    def score(prepared: Prepared) -> Tensor:
        chance = trees.predict_proba(prepared.pairs[:, columns].cpu().numpy())[:, 1]
        return prepared.symmetrise(torch.from_numpy(chance).float().to(prepared.device))

    return score(data.train), score(data.whole)


def _structure_columns(prepared: Prepared) -> slice | None:
    """Return the pair features that describe structure; None if the policy's state has none."""
    names = PAIR_NAMES["structure"]
    learned = len(PAIR_NAMES["trust"]) - len(names)
    first = prepared.edge_features_in_pairs.stop
    if prepared.edge is not None or prepared.pairs.shape[1] - first not in range(
        len(names), len(names) + learned + 1
    ):
        return None
    return slice(first, first + len(names))


def _is_own(train: Prepared, perturbed: Prepared) -> Bool[Tensor, "edges"]:
    """Return which edges of a perturbed graph the training graph has too."""
    target = torch.repeat_interleave(
        torch.arange(perturbed.num_nodes, device=perturbed.device), perturbed.row_ptr.diff()
    )
    return find_in_rows(train.row_ptr, train.neighbour, target, perturbed.neighbour) >= 0


def _best_share(score: Float[Tensor, "edges"], share: float) -> Float[Tensor, "edges"]:
    """Return ones for the best-scored share of the edges; edges of equal score stay or go together."""
    if share >= 1.0 or score.numel() == 0:
        return torch.ones_like(score)
    if share == 0.0:
        return torch.zeros_like(score)
    place = min(score.numel() - 1, max(0, round(score.numel() * share) - 1))
    return (score >= score.sort(descending=True).values[place]).float()


def _fit_linear(
    data: TrainingData, outputs: int, kept: Kept, columns: SpectralColumns, settings: SelfTrainingSettings
) -> Taught:
    """Fit a linear model of spectral columns."""
    device, task = data.targets.device, data.task
    model = LinearModels(columns.train.shape[1], outputs, 1, exclusive=task.exclusive).to(device)
    learns = torch.ones_like(data.targets, dtype=torch.bool)[:, None]
    asked = columns.train[data.targets], data.labels[data.targets], learns, task
    model.fit(*asked, settings.spectral_penalty, settings.spectral_steps)
    with torch.no_grad():
        validation = model.to_probabilities(columns.validation)
        score = quality_and_likelihood(task, validation, data.validation_labels)
        return Taught(model.to_probabilities(columns.train), validation, (kept,), score)


def _fit_one(
    data: TrainingData,
    outputs: int,
    config: Config,
    key: Key,
    kept: Kept,
) -> Taught:
    """Fit a GCN to the kept edges; its best step on validation nodes counts."""
    settings, device, task = config.self_training, data.targets.device, data.task
    adjacency, whole = (
        NormalisedAdjacency.of(one.row_ptr, one.neighbour, one.weighed(weight * one.linked))
        for one, weight in ((data.train, kept.train), (data.whole, kept.whole))
    )
    rows, asked = table_of(data.train.features, device), table_of(data.whole.features, device)
    network = GCN(data.train.features.shape[1], settings.width, outputs, layers=2, exclusive=task.exclusive)
    network.initialise(key.fold_in("weights").generator())
    network, draws = network.to(device), key.fold_in("dropout").generator(device)
    labels, learns = data.labels[data.targets], torch.ones_like(data.targets, dtype=torch.bool)[:, None]

    def loss() -> Tensor:
        return task.loss(network(rows, adjacency, 0.5, draws)[data.targets][:, None], labels, learns)

    def predict() -> Tensor:
        return network.to_probabilities(asked, whole)[data.validation]

    fitted = fit(
        network,
        torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4, fused=True),
        loss,
        lambda: quality_and_likelihood(task, predict(), data.validation_labels),
        steps=200,
        evaluate_every=5,
        patience=50,
    )
    with torch.no_grad():
        return Taught(network.to_probabilities(rows, adjacency), predict(), (kept,), fitted.score)
