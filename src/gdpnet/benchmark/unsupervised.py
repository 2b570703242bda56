"""Link prediction and clustering: compare methods that read no label, on the same splits and noise.

Noise is added to the training edges only: for links the graph is split first, and test pairs are edges, and pairs
without an edge, of the clean graph. Labels are read here to score clusters, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from gdpnet._core.device import pick_device
from gdpnet.benchmark.baselines.unsupervised import CLUSTERERS, LINK_PREDICTORS, LinkScorer, measure
from gdpnet.benchmark.cases import Setting, counted_graph, open_case, perturb
from gdpnet.benchmark.evaluation import link_metrics, true_labels
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.sweep import Sweep, record_of
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.data.link_split import split_links
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError, GraphError, nearest
from gdpnet.estimator import GDPNet
from gdpnet.inference.unsupervised import cluster_scores
from gdpnet.representation.propagation import inner_products
from gdpnet.training.find_clusters import clusters_of

SWEEP = Sweep("task", ("task", "graph", "noise", "rate", "method"), ("task", "graph", "method"))

OURS = ("gdpnet", "gdpnet:keep-everything")
"""GDPNet, and the same representations over all edges."""

MEASURES = {
    "links": {"roc_auc": "ROC AUC", "average_precision": "average precision"},
    "clusters": {"nmi": "NMI", "ari": "ARI", "accuracy": "matched accuracy"},
}
"""The measures of each task, with their names in a table; the first decides which method is best."""


@dataclass(frozen=True)
class Trial:
    """One method on one perturbed graph."""

    task: str
    setting: Setting
    method: str
    config: Config
    device: str

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of GDPNet; none for a baseline."""
        if self.method not in OURS:
            return {}
        config = self.config.with_values({"task": {"kind": self.task}})
        if self.method == "gdpnet:keep-everything":  # its representations depend on no trained weight
            config = config.with_values({"training": {"selection": False, "epochs": 1, "warmup": 0}})
        return config.to_dict()

    @property
    def stub(self) -> Record:
        """Return the record without its metrics."""
        about = {"kind": SWEEP.kind, "task": self.task, **self.setting.to_record(), "method": self.method}
        return about | {"seed": self.setting.seed, "config": self.settings}

    def run(self) -> list[Record]:
        """Return the record of the method."""
        start = time.perf_counter()
        metrics = partial(_link_metrics if self.task == "links" else _cluster_metrics, self)
        record = record_of(self.stub, self.device, metrics)
        record["metrics"]["seconds"] = round(time.perf_counter() - start, 1)
        return [record]


def known_methods(task: str) -> list[str]:
    """Return the names of all methods of a task."""
    return [*OURS, *(LINK_PREDICTORS if task == "links" else CLUSTERERS)]


def check_methods(task: str, methods: Iterable[str]) -> None:
    """Raise an error for a method that the task does not have."""
    for name in methods:
        if name not in known_methods(task):
            raise ConfigError(f"task {task} has no method '{name}'{nearest(name, known_methods(task))}")


def check_servable(task: str, graph: Graph, config: Config) -> None:
    """Raise an error for a graph on which the methods of a task cannot be compared."""
    if task == "links":
        split_links(graph, 0)
        return
    clusters_of(graph, config.with_values({"task": {"kind": "clusters"}}))
    if not bool((true_labels(graph) != UNKNOWN).any()):
        raise GraphError(
            "clusters are scored against classes: at least one node must have a label, found none"
        )


def _fit(trial: Trial, graph: Graph, **options: Any) -> GDPNet:
    config = Config().with_values(trial.settings)
    return GDPNet.from_config(config, seed=trial.setting.seed, device=trial.device).fit(graph, **options)


def _link_metrics(trial: Trial) -> Record:
    split = split_links(open_case(trial.setting), trial.setting.seed)
    graph, counts = perturb(split.train, trial.setting, trial.device)
    found: Record = dict(counts)
    if trial.method in OURS:
        model = _fit(trial, graph, held_out=split.validation)
        score: LinkScorer = partial(inner_products, torch.from_numpy(model.embed(graph)))
        found |= {"selects": model.trained_.selects} | _edge_auc(model, graph)
    else:
        fit = LINK_PREDICTORS[trial.method]
        score = fit(graph, split.validation, trial.setting.seed, pick_device(trial.device))
    validation, test = measure(split.validation, score), measure(split.test, score)
    return {
        "roc_auc": test[0],
        "average_precision": test[1],
        "validation_roc_auc": validation[0],
        "validation_average_precision": validation[1],
    } | found


def _cluster_metrics(trial: Trial) -> Record:
    graph, counts = counted_graph(trial.setting, trial.device)
    count = clusters_of(graph, trial.config.with_values({"task": {"kind": "clusters"}}))
    found: Record = dict(counts)
    if trial.method in OURS:
        model = _fit(trial, graph)
        cluster = np.searchsorted(np.sort(model.classes_), model.predict(graph))
        found |= _edge_auc(model, graph)
    else:
        device = pick_device(trial.device)
        cluster = CLUSTERERS[trial.method](graph, count, trial.setting.seed, device).numpy()
    truth = true_labels(graph).numpy()
    known = truth != UNKNOWN
    return cluster_scores(truth[known], cluster[known]) | found


def _edge_auc(model: GDPNet, graph: Graph) -> Record:
    """Return how well keep probabilities tell added edges from genuine ones, if any were added."""
    if model.networks_.policy is None or graph.truth is None:
        return {}
    cleaned = model.denoise(graph)
    found = link_metrics(graph, cleaned.keep_probability, cleaned.kept)
    return {name: value for name, value in found.items() if name == "link_auc"}


@dataclass(frozen=True)
class Row:
    """One cell of a table: a method at one rate of one noise on one graph."""

    task: str
    graph: str
    noise: str
    rate: float
    method: str
    seeds: int
    failed: int
    mean: dict[str, float]
    deviation: dict[str, float]


def summarise(records: Iterable[Record]) -> list[Row]:
    """Return mean and standard deviation over seeds of every measure, per method, rate, noise and graph."""
    records = list(records)
    return [
        row
        for task, measures in MEASURES.items()
        for row in SWEEP.summarise(records, measures, Row)
        if row.task == task
    ]
