"""Families of methods: a network as it is, with dropped edges, on a filtered graph, on another graph.

A family chooses its own parameter (a share of edges, a rank) by validation micro-F1, then by least validation loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gdpnet.benchmark.baselines.diffusion import RESTARTS, TOP, gdc_gcn, gdc_graph
from gdpnet.benchmark.baselines.fastgcn import Importance
from gdpnet.benchmark.baselines.filters import (
    kept_share,
    similarity_scores,
    structural_scorer,
    supervised_scores,
)
from gdpnet.benchmark.baselines.fitting import (
    Build,
    Fitted,
    Inputs,
    Losses,
    Settings,
    Side,
    Task,
    fit_network,
    inputs_of,
    whole_batch,
)
from gdpnet.benchmark.baselines.gnnguard import GNNGuard, guard_inputs
from gdpnet.benchmark.baselines.logistic import logistic_logits
from gdpnet.benchmark.baselines.low_rank import RANKS, low_rank_links, svd_gcn
from gdpnet.benchmark.baselines.networks import gcn
from gdpnet.benchmark.baselines.pro_gnn import fit_pro_gnn
from gdpnet.benchmark.baselines.propagation import Links
from gdpnet.benchmark.baselines.soft_median import TEMPERATURES, neighbourhoods_of, soft_median_gcn

KEPT_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Shares of edges that a filter may keep, tried on validation."""

DROPPED_SHARES = (0.2, 0.5, 0.8)
"""Shares of edges that DropEdge may leave out each epoch, tried on validation."""


@dataclass(frozen=True)
class Outcome(Fitted):
    """The result of a method: its network at its best epoch, its settings, and its scores of the edges."""

    chosen: dict[str, Any] = field(default_factory=dict)
    """The part of the settings that the method chose on validation."""
    keep_score: Float[Tensor, "edges"] | None = None
    kept: Bool[Tensor, "edges"] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


Run = Callable[[Task, int, torch.device, Settings], Outcome]
"""Train a method: the task, a seed, a device and settings."""

Scores = Callable[[Task, int, torch.device], tuple[Tensor, Tensor]]
"""Score the edges of the training graph and of the whole graph."""


def _outcome(
    fitted: Fitted,
    chosen: dict[str, Any] | None = None,
    keep_score: Tensor | None = None,
    kept: Tensor | None = None,
) -> Outcome:
    return Outcome(**vars(fitted), chosen=chosen or {}, keep_score=keep_score, kept=kept)


def _best(settings: Settings, options: Sequence[Any], run: Callable[[Any], Outcome]) -> Outcome:
    """Return the best run on validation over all options, or the run of the option that is set."""
    options = options if settings.choice is None else (settings.choice,)
    found = [run(option) for option in options]
    return max(found, key=lambda one: (one.validation_f1, -one.validation_loss))


def _with_links(inputs: Inputs, train: Any, whole: Any) -> Inputs:
    """Return the inputs with other edges."""
    return replace(inputs, train=Side(inputs.train.features, train), whole=Side(inputs.whole.features, whole))


def plain(build: Build, losses: Losses = whole_batch) -> Run:
    """Train a network on the graph as it is."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
        return _outcome(fit_network(build, inputs_of(task, device), settings, seed, losses))

    return run


def dropping(build: Build) -> Run:
    """Train a network with DropEdge (Rong et al., 2020); the share is chosen."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
        inputs = inputs_of(task, device)

        def tried(share: float) -> Outcome:
            fitted = fit_network(build, inputs, replace(settings, drop_edge=share), seed)
            return _outcome(fitted, {"drop_edge": share})

        return _best(settings, DROPPED_SHARES, tried)

    return run


def filtered(build: Build, scores: Scores) -> Run:
    """Score all edges, keep the best share of them in both graphs, and train a network; the share is chosen."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
        inputs = inputs_of(task, device)
        train_score, whole_score = scores(task, seed, device)

        def tried(share: float) -> Outcome:
            kept = kept_share(whole_score, share)
            train, whole = _kept(inputs.train, kept_share(train_score, share)), _kept(inputs.whole, kept)
            fitted = fit_network(build, _with_links(inputs, train, whole), settings, seed)
            return _outcome(fitted, {"kept_share": share}, whole_score, kept)

        return _best(settings, KEPT_SHARES, tried)

    return run


def _kept(side: Side, kept: Bool[Tensor, "edges"]) -> Links:
    links: Links = side.links
    return links.with_weight(links.weight * kept.to(links.weight.device))


def similarity(kind: str) -> Scores:
    """Score edges by the similarity of their nodes' features."""
    return lambda task, seed, device: (
        similarity_scores(task.train, kind),
        similarity_scores(task.whole, kind),
    )


@lru_cache(maxsize=2)
def structural(task: Task, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Score edges by trees that learned to tell them from random ones."""
    scorer = structural_scorer(task.train, seed)
    return scorer(task.train), scorer(task.whole)


@lru_cache(maxsize=2)
def supervised(task: Task, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Score edges by trees that learned which of them stay within a class."""
    return supervised_scores(task, seed, device)


def diffused(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Train a GCN on diffused graphs; the restart probability is chosen."""
    inputs = inputs_of(task, device)

    def tried(restart: float) -> Outcome:
        train, whole = (
            Links.of(gdc_graph(graph, restart, TOP, device), device) for graph in (task.train, task.whole)
        )
        fitted = fit_network(gdc_gcn, _with_links(inputs, train, whole), settings, seed)
        return _outcome(fitted, {"restart": restart, "top": TOP})

    return _best(settings, RESTARTS, tried)


def low_rank(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Train a GCN on adjacency matrices of low rank; the rank is chosen."""
    inputs = inputs_of(task, device)
    ranks = RANKS if settings.choice is None else (int(settings.choice),)
    train, whole = (low_rank_links(graph, ranks, device) for graph in (task.train, task.whole))

    def tried(rank: int) -> Outcome:
        part = _with_links(inputs, train[min(rank, max(train))], whole[rank])
        return _outcome(fit_network(svd_gcn, part, settings, seed), {"rank": rank})

    return _best(replace(settings, choice=None), sorted(whole), tried)


def guarded(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Train GNNGuard."""
    return _outcome(fit_network(GNNGuard, guard_inputs(inputs_of(task, device), task), settings, seed))


def medians(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Train a GCN of soft medians; the temperature is chosen."""
    train, whole = (neighbourhoods_of(graph, device) for graph in (task.train, task.whole))
    part = _with_links(inputs_of(task, device), train, whole)

    def tried(temperature: float) -> Outcome:
        fitted = fit_network(soft_median_gcn(temperature), part, settings, seed)
        return _outcome(fitted, {"temperature": temperature})

    return _best(settings, TEMPERATURES, tried)


def importance_sampled(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Train FastGCN; it predicts with all edges."""
    losses = Importance.of(task, device).losses
    return _outcome(fit_network(gcn, inputs_of(task, device), settings, seed, losses))


def pro_gnn(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Train Pro-GNN, which learns the edge weights."""
    fitted, weight = fit_pro_gnn(task, seed, device, settings)
    return _outcome(fitted, {}, weight, weight > 0)


def logistic(task: Task, seed: int, device: torch.device, settings: Settings) -> Outcome:
    """Fit logistic regression, which does not use the settings."""
    train, validation = task.seen[task.targets].numpy(), task.validation.numpy()
    logits, score, penalty = logistic_logits(task.whole, train, validation)
    return _outcome(Fitted(logits, score, float("nan"), 0), {"inverse_penalty": penalty})
