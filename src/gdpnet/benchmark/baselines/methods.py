"""Every baseline by name, behind one call."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from gdpnet.benchmark.baselines.filters import filtered, similarity, structural_scores, supervised_scores
from gdpnet.benchmark.baselines.fitting import (
    Build,
    Fitted,
    Losses,
    Run,
    Settings,
    Task,
    choose,
    fit_network,
    inputs_of,
    make_task,
    whole_batch,
)
from gdpnet.benchmark.baselines.networks import GAT, gcn, graphsage, mlp
from gdpnet.benchmark.baselines.rewiring import diffused, low_rank
from gdpnet.benchmark.baselines.robust import guarded, medians, pro_gnn
from gdpnet.benchmark.baselines.sampling import fastgcn, sampled_batches
from gdpnet.benchmark.baselines.self_training import SelfTrainingSettings, self_trained
from gdpnet.data.features import normalise, to_numpy
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, nearest

DROPPED_SHARES = (0.2, 0.5, 0.8)
"""Shares of edges that DropEdge may leave out each epoch, tried on validation."""

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Inverse penalties, tried on validation; of equals the smallest is taken."""

# one start for all, with less dropout where attention or sampling adds noise of its own; the best settings differ
# by dataset (dropout of GraphSAGE: .7 on Cora, .3 on PubMed), so a comparison begins with `gdpnet tune`
_USUAL = Settings()
_LESS_DROPOUT = Settings(dropout=0.3)
_SAMPLED_LAYERS = Settings(dropout=0.0, epochs=100, patience=20)
_SAMPLED_NEIGHBOURS = Settings(epochs=100, patience=20)
_PRO_GNN = Settings(width=16, weight_decay=5e-4, epochs=400)


@dataclass(frozen=True)
class Method:
    """A baseline: a sentence about it, how it is trained, and its default settings."""

    about: str
    run: Run
    settings: Settings = _USUAL
    network: bool = True
    """Whether its settings are worth a search."""
    chooses: bool = False
    """Whether it chooses a parameter of its own on validation."""
    self_trained: bool = False
    """Whether it is fitted again in rounds, with its own confident predictions as labels."""


def _choosing(about: str, run: Run, settings: Settings = _USUAL) -> Method:
    return Method(about, run, settings, chooses=True)


def plain(build: Build, losses: Losses = whole_batch) -> Run:
    """Train a network on the graph as it is."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
        return fit_network(build, inputs_of(task, device), settings, seed, losses)

    return run


def dropping(build: Build) -> Run:
    """Train a network with DropEdge (Rong et al., 2020); the share is chosen."""

    def run(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
        inputs = inputs_of(task, device)

        def fit(share: float) -> Fitted:
            return fit_network(build, inputs, replace(settings, drop_edge=share), seed)

        return choose("drop_edge", DROPPED_SHARES, settings, fit)

    return run


def logistic(task: Task, seed: int, device: torch.device, settings: Settings) -> Fitted:
    """Fit logistic regression on features, which uses neither the seed nor the settings; the penalty is chosen."""
    graph, train, validation = task.whole, task.seen[task.targets].numpy(), task.validation.numpy()
    table, label = to_numpy(normalise(graph.features, "l2")), graph.labels.numpy()
    # some BLAS raise the flag on finite numbers; scikit-learn refuses all others
    with np.errstate(invalid="ignore"):
        models = [
            LogisticRegression(C=penalty, max_iter=2000).fit(table[train], label[train])
            for penalty in PENALTIES
        ]
    known = validation.size > 0
    scores = [model.score(table[validation], label[validation]) if known else 0.0 for model in models]
    best = int(np.argmax(scores))
    logits = torch.full((graph.num_nodes, graph.num_classes), float(np.log(np.finfo(np.float32).tiny)))
    tiny = np.finfo(np.float32).tiny
    found = torch.from_numpy(np.log(models[best].predict_proba(table).clip(min=tiny))).float()
    logits[:, torch.from_numpy(models[best].classes_)] = found
    score = float(scores[best]) if known else float("nan")
    return Fitted(logits, score, float("nan"), 0, chosen={"inverse_penalty": PENALTIES[best]})


METHODS: dict[str, Method] = {
    "lr": Method("logistic regression on features", logistic, network=False),
    "mlp": Method("a network on features", plain(mlp)),
    "gcn": Method("graph convolution", plain(gcn)),
    "gat": Method("graph attention", plain(GAT), _LESS_DROPOUT),
    "graphsage": Method("mean of neighbours, and the node itself", plain(graphsage)),
    "fastgcn": Method("GCN on layers sampled by importance", fastgcn, _SAMPLED_LAYERS),
    "graphsage-sampled": Method(
        "GraphSAGE on sampled neighbours", plain(graphsage, sampled_batches), _SAMPLED_NEIGHBOURS
    ),
    "gcn-dropedge": _choosing("GCN, random edges dropped each epoch", dropping(gcn)),
    "graphsage-dropedge": _choosing("GraphSAGE, random edges dropped each epoch", dropping(graphsage)),
    "jaccard-gcn": _choosing("GCN on edges of similar features", filtered(gcn, similarity("jaccard"))),
    "cosine-gcn": _choosing("GCN on edges of similar features", filtered(gcn, similarity("cosine"))),
    "cosine-graphsage": _choosing(
        "GraphSAGE on edges of similar features", filtered(graphsage, similarity("cosine"))
    ),
    "supervised-gcn": _choosing(
        "GCN on edges classified as same-class", filtered(gcn, supervised_scores, reads_labels=True)
    ),
    "supervised-graphsage": _choosing(
        "GraphSAGE on edges classified as same-class",
        filtered(graphsage, supervised_scores, reads_labels=True),
    ),
    "structural-gcn": _choosing("GCN on edges that do not look random", filtered(gcn, structural_scores)),
    "structural-graphsage": _choosing(
        "GraphSAGE on edges that do not look random", filtered(graphsage, structural_scores)
    ),
    "gdc-gcn": _choosing("GCN on edges of personalised PageRank", diffused),
    "svd-gcn": _choosing("GCN on an adjacency matrix of low rank", low_rank),
    "gnnguard": Method("GCN that weighs neighbours by similarity, layer by layer", guarded),
    "pro-gnn": Method(
        "GCN on a learned adjacency matrix; small graphs, with the package deeprobust",
        pro_gnn,
        _PRO_GNN,
        network=False,
    ),
    "soft-median": _choosing("GCN with soft medians for means", medians, _LESS_DROPOUT),
}
"""Every baseline by name."""

SELF_TRAINED = ("gcn", "jaccard-gcn", "structural-gcn")
"""The baselines that are also there with self-training, as ``gcn-self``."""

METHODS |= {
    f"{name}-self": replace(
        METHODS[name],
        about=f"{METHODS[name].about}, self-trained",
        run=self_trained(METHODS[name].run),
        settings=SelfTrainingSettings.of(METHODS[name].settings),
        self_trained=True,
    )
    for name in SELF_TRAINED
}


def method_of(name: str) -> Method:
    """Return a baseline by its name."""
    if name not in METHODS:
        raise ConfigError(f"there is no method '{name}'{nearest(name, METHODS)}")
    return METHODS[name]


def run_method(
    name: str,
    graph: Graph,
    seed: int = 0,
    device: torch.device | str = "cpu",
    settings: Settings | None = None,
) -> Fitted:
    """Train a baseline on the training nodes of a graph, choose on validation nodes, and predict all nodes."""
    method_of(name)
    start = time.perf_counter()
    found = run_task(name, make_task(graph, seed), seed, device, settings)
    return replace(found, seconds=time.perf_counter() - start)


def run_task(
    name: str, task: Task, seed: int, device: torch.device | str, settings: Settings | None = None
) -> Fitted:
    """Train a baseline on a task; scores of its edges are cached from one call to the next."""
    method, start = method_of(name), time.perf_counter()
    settings = settings or method.settings
    found = method.run(task, seed, torch.device(device), settings)
    used = {**asdict(settings), **found.chosen}
    return replace(found, settings=used, seconds=time.perf_counter() - start)
