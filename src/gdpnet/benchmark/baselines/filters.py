"""Filters: a keep score for every edge, from features, from structure, or learned from labels.

A higher score means that an edge deserves more trust. Every filter is fitted on the training graph, if at all,
and scores any graph with the same features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from gdpnet._core.csr import sum_by_owner, symmetrise
from gdpnet.benchmark.baselines.fitting import (
    Build,
    Fitted,
    Run,
    Settings,
    Task,
    choose,
    fit_network,
    inputs_of,
)
from gdpnet.benchmark.baselines.networks import mlp
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.pair_features import pair_features
from gdpnet.errors import ConfigError, nearest

KEPT_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Shares of edges that a filter may keep, tried on validation."""

SIMILARITIES = ("cosine", "jaccard")
"""The kinds of `similarity_scores`."""

FOLDS = 5
"""Folds of the training nodes; no fold is scored by a model that was fitted on it."""

_ENOUGH_EDGES = 20_000
"""To a training graph of fewer edges random links are added more than once, up to five times."""

Scores = Callable[[Task, int, torch.device], tuple[Tensor, Tensor]]
"""Score the edges of the training graph and of the whole graph."""


def similarity_scores(graph: Graph, kind: str = "cosine") -> Float[Tensor, "edges"]:
    """Return the similarity of the features of each edge's two nodes.

    ``cosine`` is that of the feature rows; ``jaccard`` is |A ∩ B| / |A ∪ B| of the non-zero features.
    """
    if kind not in SIMILARITIES:
        raise ConfigError(f"there is no similarity '{kind}'{nearest(kind, SIMILARITIES)}")
    if kind == "cosine":
        return pair_features(graph, "pairs")[:, 0]
    present, count = _presence(graph)
    of_target, of_neighbour = count[graph.target], count[graph.neighbour]
    # the cosine of two rows of ones and zeros is |A ∩ B| / sqrt(|A| |B|)
    shared = pair_features(present, "pairs")[:, 0] * (of_target * of_neighbour).sqrt()
    return shared / (of_target + of_neighbour - shared).clamp(min=1.0)


def similarity(kind: str) -> Scores:
    """Score the training and the whole graph by the similarity of features."""
    return lambda task, seed, device: (
        similarity_scores(task.train, kind),
        similarity_scores(task.whole, kind),
    )


@lru_cache(maxsize=2)
def structural_scores(task: Task, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Learn on the training graph, without labels, to tell existing edges from added random ones.

    In each round the number of edges of the training graph is doubled by random links, pair features are computed
    with them (each leaves its own edge out), and boosted trees learn which were added. The score is the
    probability that an edge was not added.
    """
    tables, answers = [], []
    edges = task.train.num_edges
    rounds = min(5, max(1, _ENOUGH_EDGES // edges)) if edges else 0
    for number in range(rounds):
        crowded, added = _with_random_links(task.train, seed * rounds + number)
        tables.append(pair_features(crowded, "structure").numpy())
        answers.append(~added.numpy())
    # without edges, and if the graph is complete, there is nothing to learn
    learns = any(not answer.all() for answer in answers)
    model = _boosted(seed).fit(np.concatenate(tables), np.concatenate(answers)) if learns else None
    return _score(task, model, (pair_features(one, "structure").numpy() for one in (task.train, task.whole)))


@lru_cache(maxsize=2)
def supervised_scores(
    task: Task, seed: int, device: torch.device, settings: Settings | None = None
) -> tuple[Float[Tensor, "train_edges"], Float[Tensor, "edges"]]:
    """Learn from labels which edges join two nodes of one class; score the training and the whole graph.

    Boosted trees read the structural pair features, and of an MLP the agreement Σ p_v p_u of both predictions
    and their confidences. They learn from the edges between labelled training nodes. The MLP is cross-fitted: the
    prediction of a training node comes from a fold model that never saw its label; other nodes have the mean of
    all fold models.
    """
    train, whole = _cross_fitted_probabilities(task, seed, device, settings or Settings())
    tables = _label_table(task.train, train), _label_table(task.whole, whole)
    known = torch.zeros(task.train.num_nodes, dtype=torch.bool)
    known[task.targets] = True
    usable = known[task.train.target] & known[task.train.neighbour]
    same = (task.train.labels[task.train.target] == task.train.labels[task.train.neighbour])[usable].numpy()
    learns = same.any() and not same.all()
    model = _boosted(seed).fit(tables[0][usable.numpy()], same) if learns else None
    return _score(task, model, tables)


def filtered(build: Build, scores: Scores, *, reads_labels: bool = False) -> Run:
    """Score all edges, keep the best share of them in both graphs, and train a network; the share is chosen.

    Scores that read no labels are those of the task without pseudo-labels, so they are computed once.
    """

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
        scored = task if reads_labels or task.origin is None else task.origin
        inputs, both = inputs_of(task, device), scores(scored, seed, device)

        def fit(share: float) -> Fitted:
            kept = [kept_share(score, share) for score in both]
            links = (
                side.links.with_weight(side.links.weight * stays.to(device))
                for side, stays in zip((inputs.train, inputs.whole), kept, strict=True)
            )
            fitted = fit_network(build, inputs.with_links(*links), settings, seed)
            return replace(fitted, keep_score=both[1], kept=kept[1])

        return choose("kept_share", KEPT_SHARES, settings, fit)

    return run


def kept_share(score: Float[Tensor, "edges"], share: float) -> Bool[Tensor, "edges"]:
    """Return which edges are the best-scored share; edges of equal score stay or go together."""
    if share >= 1.0 or score.numel() == 0:
        return torch.ones_like(score, dtype=torch.bool)
    place = min(score.numel() - 1, max(0, round(score.numel() * share) - 1))
    return score >= score.sort(descending=True).values[place]


def _with_random_links(graph: Graph, seed: int) -> tuple[Graph, Bool[Tensor, "edges"]]:
    """Double the number of edges by random links, if there are enough pairs; return which edges were added."""
    pairs = graph.num_nodes * (graph.num_nodes - 1)
    rate = min(1.0, (pairs - graph.num_edges) / graph.num_edges)
    noisy = corrupt(replace(graph, truth=None), "random-links", rate, seed).graph
    assert noisy.truth is not None
    return noisy, noisy.truth.spurious


def _presence(graph: Graph) -> tuple[Graph, Float[Tensor, "nodes"]]:
    """Return the graph with ones for non-zero features, and their number per node."""
    features = graph.features
    if isinstance(features, SparseRows):
        ones = features.with_value((features.value != 0).float())
        return replace(graph, features=ones), sum_by_owner(ones.value, ones.row, graph.num_nodes)
    present = (features != 0).float()
    return replace(graph, features=present), present.sum(dim=1)


def _boosted(seed: int) -> Any:
    return HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=150,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )


def _score(task: Task, model: Any, tables: Iterable[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Score both graphs, both directions of a link alike; without a model all edges have the same score."""
    if model is None:
        return torch.ones(task.train.num_edges), torch.ones(task.whole.num_edges)

    def score(graph: Graph, table: np.ndarray) -> Tensor:
        chance = model.predict_proba(table)[:, 1] if len(table) else np.zeros(0)
        return symmetrise(torch.from_numpy(chance).float(), graph.reverse)

    train, whole = map(score, (task.train, task.whole), tables)
    return train, whole


def _cross_fitted_probabilities(
    task: Task, seed: int, device: torch.device, settings: Settings
) -> tuple[Float[Tensor, "seen classes"], Float[Tensor, "nodes classes"]]:
    """Return class probabilities of an MLP for the nodes of the training graph and of the whole graph."""
    order = torch.randperm(task.targets.numel(), generator=torch.Generator().manual_seed(seed))
    fold = torch.empty_like(order)
    fold[order] = torch.arange(order.numel()) % FOLDS
    inputs = inputs_of(task, device)
    models = []
    for number in range(FOLDS):
        learns = (fold != number).to(device)
        part = replace(inputs, targets=inputs.targets[learns], labels=inputs.labels[learns])
        models.append(fit_network(mlp, part, settings, seed).logits.softmax(dim=1))
    probability = torch.stack(models)
    whole = probability.mean(dim=0)
    held_out = task.seen[task.targets]
    whole[held_out] = probability[fold, held_out]
    return whole[task.seen], whole


def _label_table(graph: Graph, probability: Float[Tensor, "nodes classes"]) -> np.ndarray:
    """Return structural pair features, the agreement of both predictions, and both confidences."""
    target, neighbour = probability[graph.target], probability[graph.neighbour]
    agreement = (target * neighbour).sum(dim=1, keepdim=True)
    sure = [part.max(dim=1, keepdim=True).values for part in (target, neighbour)]
    return torch.cat([pair_features(graph, "structure"), agreement, *sure], dim=1).numpy()
