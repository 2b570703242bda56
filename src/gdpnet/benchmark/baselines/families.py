"""Families of methods: a network as it is, with links dropped, on a filtered graph, on another graph.

What a family chooses (a share of links, a rank), it chooses by validation micro-F1, then least validation loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from gdpnet.benchmark.baselines.soft_median import TEMPERATURES, circles_of, soft_median_gcn

KEPT_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Shares of links that a filter may keep; all of them are tried."""

DROPPED_SHARES = (0.2, 0.5, 0.8)
"""Shares of links that DropEdge may leave out each epoch; all of them are tried."""


@dataclass(frozen=True)
class Found:
    """What a method arrived at: its network at its best, what it chose, and its judgement of the links."""

    fitted: Fitted
    chosen: dict[str, Any] = field(default_factory=dict)
    keep_score: Float[Tensor, "edges"] | None = None
    kept: Bool[Tensor, "edges"] | None = None


Run = Callable[[Task, int, torch.device, Settings], Found]
"""Train a method: the task, a seed, a device and settings."""

Scores = Callable[[Task, int, torch.device], tuple[Tensor, Tensor]]
"""Score the edges of the training graph and of the whole graph."""


def best_of(found: Iterable[Found]) -> Found:
    """Return the best on validation by micro-F1, then by loss; the first of equals."""
    return max(found, key=lambda one: (one.fitted.validation_f1, -one.fitted.validation_loss))


def _among(settings: Settings, options: Sequence[float]) -> Sequence[float]:
    """Return the options that a method chooses among: the one that is set, else all."""
    return options if settings.choice is None else (settings.choice,)


def plain(build: Build, losses: Losses = whole_batch) -> Run:
    """Train a network on the graph as it is."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
        return Found(fit_network(build, inputs_of(task, device), settings, seed, losses))

    return run


def dropping(build: Build) -> Run:
    """Train a network with DropEdge (Rong et al., 2020); the share is chosen."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
        inputs = inputs_of(task, device)
        return best_of(
            Found(fit_network(build, inputs, replace(settings, drop_edge=share), seed), {"drop_edge": share})
            for share in _among(settings, DROPPED_SHARES)
        )

    return run


def filtered(build: Build, scores: Scores) -> Run:
    """Score all links, keep the best share of them in both graphs, and train a network; the share is chosen."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
        inputs = inputs_of(task, device)
        train_score, whole_score = scores(task, seed, device)

        def tried(share: float) -> Found:
            kept = kept_share(whole_score, share)
            part = replace(
                inputs,
                train=_kept(inputs.train, kept_share(train_score, share)),
                whole=_kept(inputs.whole, kept),
            )
            return Found(fit_network(build, part, settings, seed), {"kept_share": share}, whole_score, kept)

        return best_of(tried(share) for share in _among(settings, KEPT_SHARES))

    return run


def similarity(kind: str) -> Scores:
    """Score links by the likeness of their nodes' features."""

    def scores(task: Task, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return similarity_scores(task.train, kind), similarity_scores(task.whole, kind)

    return scores


@lru_cache(maxsize=2)
def structural(task: Task, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Score links by the trees that learned to tell them from random ones."""
    scorer = structural_scorer(task.train, seed)
    return scorer(task.train), scorer(task.whole)


@lru_cache(maxsize=2)
def supervised(task: Task, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Score links by the trees that learned which of them stay within a class."""
    return supervised_scores(task, seed, device)


def diffused(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Train a GCN on diffused graphs; the chance of returning home is chosen."""
    inputs = inputs_of(task, device)

    def tried(restart: float) -> Found:
        sides = [
            Side(side.features, Links.of(gdc_graph(graph, restart, TOP, device), device))
            for side, graph in ((inputs.train, task.train), (inputs.whole, task.whole))
        ]
        part = replace(inputs, train=sides[0], whole=sides[1])
        return Found(fit_network(gdc_gcn, part, settings, seed), {"restart": restart, "top": TOP})

    return best_of(tried(restart) for restart in _among(settings, RESTARTS))


def low_rank(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Train a GCN on adjacency matrices of low rank; the rank is chosen."""
    inputs = inputs_of(task, device)
    ranks = tuple(int(rank) for rank in _among(settings, RANKS))
    train, whole = (low_rank_links(graph, ranks, device) for graph in (task.train, task.whole))

    def tried(rank: int) -> Found:
        part = replace(
            inputs,
            train=Side(inputs.train.features, train[min(rank, max(train))]),
            whole=Side(inputs.whole.features, whole[min(rank, max(whole))]),
        )
        return Found(fit_network(svd_gcn, part, settings, seed), {"rank": rank})

    return best_of(tried(rank) for rank in sorted({min(rank, max(whole)) for rank in ranks}))


def guarded(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Train GNNGuard."""
    inputs = guard_inputs(inputs_of(task, device), task)
    return Found(fit_network(GNNGuard, inputs, settings, seed))


def medians(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Train a GCN of soft medians; the temperature is chosen."""
    inputs = inputs_of(task, device)
    part = replace(
        inputs,
        train=Side(inputs.train.features, circles_of(task.train, device)),
        whole=Side(inputs.whole.features, circles_of(task.whole, device)),
    )
    return best_of(
        Found(fit_network(soft_median_gcn(heat), part, settings, seed), {"temperature": heat})
        for heat in _among(settings, TEMPERATURES)
    )


def importance_sampled(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Train FastGCN; it is read on all links."""
    losses = Importance.of(task, device).losses
    return Found(fit_network(gcn, inputs_of(task, device), settings, seed, losses))


def pro_gnn(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Train Pro-GNN, which weighs the links itself."""
    fitted, weight = fit_pro_gnn(task, seed, device, settings)
    return Found(fitted, {}, weight, weight > 0)


def logistic(task: Task, seed: int, device: torch.device, settings: Settings) -> Found:
    """Fit logistic regression; it has settings of its own."""
    logits, score, penalty = logistic_logits(
        task.whole, task.seen[task.targets].numpy(), task.validation.numpy()
    )
    return Found(Fitted(logits, score, float("nan"), 0), {"inverse_penalty": penalty})


def settings_of(settings: Settings, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return all that was set or chosen, by name."""
    return {**asdict(settings), **chosen}


def _kept(side: Side, kept: Bool[Tensor, "edges"]) -> Side:
    """Return a side without the weights of the links that are not kept."""
    links: Links = side.links
    return replace(side, links=links.with_weight(links.weight * kept.to(links.weight.device)))
