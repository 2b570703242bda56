"""Every method that GDPNet is compared with, by name, behind one call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gdpnet.benchmark.baselines import families
from gdpnet.benchmark.baselines.families import Found, Run, settings_of
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task, task_of
from gdpnet.benchmark.baselines.networks import BACKBONES, GAT, gcn, graphsage, mlp
from gdpnet.benchmark.baselines.sampling import sampled_batches
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, nearest


@dataclass(frozen=True)
class Method:
    """A method: how it is trained, the settings that it has unless others are given, and a sentence about it."""

    about: str
    run: Run
    settings: Settings
    network: bool = True
    """Whether its settings are worth a search."""
    chooses: bool = False
    """Whether it chooses something by itself on validation, beside its settings."""


@dataclass(frozen=True)
class Outcome:
    """What a method says of every node, how it did on validation, and what it did to the links."""

    logits: Float[Tensor, "nodes classes"]
    validation_f1: float
    settings: dict[str, Any]
    chosen: dict[str, Any]
    """The part of the settings that the method chose by itself."""
    keep_score: Float[Tensor, "edges"] | None
    kept: Bool[Tensor, "edges"] | None
    seconds: float
    epochs: int = 0
    """Epochs of the network that was chosen; 0 where there is none."""
    hidden: Float[Tensor, "nodes width"] | None = None
    """What the last layer reads of every node, where the network can say."""


# one start for all, less dropout where attention or sampling adds noise of its own; what is best differs by
# dataset (GraphSAGE wants .7 on Cora, .3 on PubMed), so a comparison begins with `search`
_USUAL = Settings()
_LESS_DROPOUT = Settings(dropout=0.3)
_SAMPLED_LAYERS = Settings(dropout=0.0, epochs=100, patience=20)
_PACKAGE = Settings(width=16, weight_decay=5e-4, epochs=400)
_SAMPLED_NEIGHBOURS = Settings(epochs=100, patience=20)

METHODS: dict[str, Method] = {
    "lr": Method("logistic regression on features alone", families.logistic, _USUAL, network=False),
    "mlp": Method("a network on features alone", families.plain(mlp), _USUAL),
    "gcn": Method("graph convolution", families.plain(gcn), _USUAL),
    "gat": Method("graph attention", families.plain(GAT), _LESS_DROPOUT),
    "graphsage": Method("mean of neighbours beside the node", families.plain(graphsage), _USUAL),
    "fastgcn": Method("GCN on layers sampled by importance", families.importance_sampled, _SAMPLED_LAYERS),
    "graphsage-sampled": Method(
        "GraphSAGE on sampled neighbours",
        families.plain(graphsage, sampled_batches),
        _SAMPLED_NEIGHBOURS,
    ),
    "gcn-dropedge": Method(
        "GCN, links dropped at random each epoch", families.dropping(gcn), _USUAL, chooses=True
    ),
    "graphsage-dropedge": Method(
        "GraphSAGE, links dropped at random each epoch", families.dropping(graphsage), _USUAL, chooses=True
    ),
    "jaccard-gcn": Method(
        "GCN on links of like features",
        families.filtered(gcn, families.similarity("jaccard")),
        _USUAL,
        chooses=True,
    ),
    "cosine-gcn": Method(
        "GCN on links of like features",
        families.filtered(gcn, families.similarity("cosine")),
        _USUAL,
        chooses=True,
    ),
    "cosine-graphsage": Method(
        "GraphSAGE on links of like features",
        families.filtered(graphsage, families.similarity("cosine")),
        _USUAL,
        chooses=True,
    ),
    "supervised-gcn": Method(
        "GCN on links that a classifier holds for same-class",
        families.filtered(gcn, families.supervised),
        _USUAL,
        chooses=True,
    ),
    "supervised-graphsage": Method(
        "GraphSAGE on links that a classifier holds for same-class",
        families.filtered(graphsage, families.supervised),
        _USUAL,
        chooses=True,
    ),
    "structural-gcn": Method(
        "GCN on links that do not look random",
        families.filtered(gcn, families.structural),
        _USUAL,
        chooses=True,
    ),
    "structural-graphsage": Method(
        "GraphSAGE on links that do not look random",
        families.filtered(graphsage, families.structural),
        _USUAL,
        chooses=True,
    ),
    "gdc-gcn": Method("GCN on links of personalised PageRank", families.diffused, _USUAL, chooses=True),
    "svd-gcn": Method("GCN on an adjacency matrix of low rank", families.low_rank, _USUAL, chooses=True),
    "gnnguard": Method("GCN that trusts like neighbours, layer by layer", families.guarded, _USUAL),
    "pro-gnn": Method(
        "GCN on an adjacency matrix that is learned beside it; small graphs, with the package deeprobust",
        families.pro_gnn,
        _PACKAGE,
        network=False,
    ),
    "soft-median": Method("GCN with soft medians for means", families.medians, _LESS_DROPOUT, chooses=True),
}
"""Every method by the name that a user types."""


def method_of(name: str) -> Method:
    """Return a method by its name."""
    if name not in METHODS:
        raise ConfigError(f"there is no method '{name}'{nearest(name, METHODS)}")
    return METHODS[name]


def run_method(
    name: str,
    graph: Graph,
    seed: int = 0,
    device: torch.device | str = "cpu",
    settings: Settings | None = None,
) -> Outcome:
    """Train a method on the training nodes of a graph, choose on its validation nodes, and predict all of it.

    Args:
        name: one of `METHODS`.
        graph: the whole graph; weights of its edges, if it has any, count.
        seed: the seed of all draws.
        device: where to train.
        settings: the method's own by default.
    """
    method = method_of(name)
    return _outcome(method.run, lambda: make_task(graph, seed), seed, device, settings or method.settings)


def run_backbone(
    name: str,
    train_graph: Graph | None,
    whole_graph: Graph,
    seed: int = 0,
    device: torch.device | str = "cpu",
    settings: Settings | None = None,
) -> Outcome:
    """Train gcn, gat or graphsage on graphs that were cleaned, and predict all nodes of the whole one.

    A weight multiplies an edge in the means of GCN and GraphSAGE, and its attention in GAT.

    Args:
        name: gcn, gat or graphsage.
        train_graph: the training nodes and the links among them, cleaned on their own; cut out of the whole
            graph if not given.
        whole_graph: the whole graph, cleaned; it has the validation nodes.
        seed: the seed of all draws.
        device: where to train.
        settings: those of the method of this name by default.
    """
    if name not in BACKBONES:
        raise ConfigError(f"there is no backbone '{name}'{nearest(name, BACKBONES)}")

    def task() -> Task:
        return make_task(whole_graph, seed) if train_graph is None else task_of(train_graph, whole_graph)

    method = METHODS[name]
    return _outcome(method.run, task, seed, device, settings or method.settings)


def run_task(
    name: str, task: Task, seed: int, device: torch.device | str, settings: Settings | None = None
) -> Outcome:
    """Train a method on a task that is made already; scores of its links are kept from one call to the next."""
    method = method_of(name)
    return _outcome(method.run, lambda: task, seed, device, settings or method.settings)


def _outcome(
    run: Run, task: Callable[[], Task], seed: int, device: torch.device | str, settings: Settings
) -> Outcome:
    """Run a method and take its time, from a graph on the host to logits on the host."""
    start = time.perf_counter()
    found: Found = run(task(), seed, torch.device(device), settings)
    return Outcome(
        logits=found.fitted.logits,
        validation_f1=found.fitted.validation_f1,
        settings=settings_of(settings, found.chosen),
        chosen=found.chosen,
        keep_score=found.keep_score,
        kept=found.kept,
        seconds=time.perf_counter() - start,
        epochs=found.fitted.epochs,
        hidden=found.fitted.hidden,
    )
