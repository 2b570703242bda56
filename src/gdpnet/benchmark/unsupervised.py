"""Link prediction and clustering compared: every method on the same splits and noise, each result a record.

Noise goes into the training links alone: for links the split is drawn first, and test pairs are links, and pairs that
are none, of the clean graph. Labels are read here to score clusters, and nowhere else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from gdpnet._core.device import pick_device
from gdpnet._core.files import plain
from gdpnet.benchmark.baselines.clusterers import CLUSTERERS
from gdpnet.benchmark.baselines.link_predictors import LINKERS, by_inner_product, measure
from gdpnet.benchmark.cases import Setting, noises_on, steps_of
from gdpnet.benchmark.evaluation import cluster_scores
from gdpnet.benchmark.records import make_record, of_kind, read_records
from gdpnet.config import Config, filled
from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.data.io.open import open_graph
from gdpnet.data.link_split import split_links
from gdpnet.data.noise.registry import corrupt_all
from gdpnet.errors import ConfigError, GDPNetError, GraphError, nearest
from gdpnet.estimator import GDPNet
from gdpnet.training.unsupervised import clusters_of

KIND = "task"

OURS = ("gdpnet", "gdpnet:keep-everything")
"""GDPNet, and the same representations over all links."""

BASELINES: dict[str, Iterable[str]] = {"links": LINKERS, "clusters": CLUSTERERS}

MEASURES = {
    "links": {"roc_auc": "ROC AUC", "average_precision": "average precision"},
    "clusters": {"nmi": "NMI", "ari": "ARI", "accuracy": "matched accuracy"},
}
"""What is measured, and how a table calls it; the first decides which method is called best."""


@dataclass(frozen=True)
class Unit:
    """One method on one corrupted graph."""

    task: str
    setting: Setting
    method: str
    config: Config
    device: str

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that a record of this unit holds."""
        if self.method not in OURS:
            return {}
        config = self.config.with_values({"task": {"kind": self.task}})
        if self.method == "gdpnet:keep-everything":  # nothing of what is trained enters its representations
            config = config.with_values({"training": {"selection": False, "epochs": 1, "warmup": 0}})
        return config.to_dict()

    @property
    def key(self) -> str:
        """Return what tells this unit from others."""
        about = self.setting.to_record()
        return repr([self.task, *about.values(), self.setting.seed, self.method, filled(self.settings)])


def known_methods(task: str) -> list[str]:
    """Return the names of all methods of a task."""
    return [*OURS, *BASELINES[task]]


def check_methods(task: str, methods: Iterable[str]) -> None:
    """Refuse a method that the task does not have."""
    for name in methods:
        if name not in known_methods(task):
            raise ConfigError(f"task {task} has no method '{name}'{nearest(name, known_methods(task))}")


def check_servable(task: str, graph: Graph, config: Config) -> None:
    """Refuse a graph that the task cannot be compared on."""
    if task == "links":
        split_links(graph, 0)
        return
    clusters_of(graph, config.with_values({"task": {"kind": "clusters"}}))
    if not bool((_truth(graph) != UNKNOWN).any()):
        raise GraphError(
            "clusters are scored against classes: at least one node must have a label, found none"
        )


def plan(units: Iterable[Unit], path: Path) -> list[Unit]:
    """List what the file of records does not hold yet; what failed before is tried again."""
    done = {_key(one) for one in _ours(read_records(path)) if "error" not in one["metrics"]}
    return [unit for unit in units if unit.key not in done]


def _ours(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return of_kind(records, KIND, ("task", "noise", "rate"))


def _key(record: dict[str, Any]) -> str:
    names = ("task", "graph", "noise", "rate", "seed", "method")
    return repr([*(record[name] for name in names), filled(record["config"])])


def run_unit(unit: Unit) -> list[dict[str, Any]]:
    """Run one method; a failure becomes a record that says so."""
    start = time.perf_counter()
    try:
        metrics = (_links if unit.task == "links" else _clusters)(unit)
    except (GDPNetError, RuntimeError, ValueError) as error:
        metrics = {"error": " ".join(str(error).split())}
    metrics["seconds"] = round(time.perf_counter() - start, 1)
    about = unit.setting.to_record() | {"task": unit.task, "method": unit.method, "device": unit.device}
    return [make_record(KIND, unit.settings, unit.setting.seed, plain(metrics), **about)]


def _open(setting: Setting) -> Graph:
    return open_graph(setting.graph, data_dir=setting.data_dir, split=setting.split, seed=setting.seed)


def _noisy(graph: Graph, setting: Setting, device: str) -> Graph:
    return corrupt_all(graph, steps_of(setting.noise, setting.rate), setting.seed, noises_on(device)).graph


def _model(unit: Unit) -> GDPNet:
    return GDPNet.from_config(Config().with_values(unit.settings), seed=unit.setting.seed, device=unit.device)


def _links(unit: Unit) -> dict[str, Any]:
    seed = unit.setting.seed
    split = split_links(_open(unit.setting), seed)
    graph = _noisy(split.train, unit.setting, unit.device)
    found: dict[str, Any] = {}
    if unit.method in OURS:
        model = _model(unit).fit(graph, held_out=split.validation)
        foretell = by_inner_product(torch.from_numpy(model.embed(graph)))
        found = {"selects": model.selects_} | _of_links(model, graph)
    else:
        foretell = LINKERS[unit.method](graph, split.validation, seed, pick_device(unit.device))
    chosen, asked = measure(split.validation, foretell), measure(split.test, foretell)
    return {
        "roc_auc": asked[0],
        "average_precision": asked[1],
        "validation_roc_auc": chosen[0],
        "validation_average_precision": chosen[1],
    } | found


def _clusters(unit: Unit) -> dict[str, Any]:
    graph = _noisy(_open(unit.setting), unit.setting, unit.device)
    count = clusters_of(graph, unit.config.with_values({"task": {"kind": "clusters"}}))
    found: dict[str, Any] = {}
    if unit.method in OURS:
        model = _model(unit).fit(graph)
        cluster = np.searchsorted(np.sort(model.classes_), model.predict(graph))
        found = _of_links(model, graph)
    else:
        device = pick_device(unit.device)
        cluster = CLUSTERERS[unit.method](graph, count, unit.setting.seed, device).numpy()
    truth = _truth(graph).numpy()
    known = truth != UNKNOWN
    return cluster_scores(truth[known], cluster[known]) | found


def _truth(graph: Graph) -> torch.Tensor:
    return graph.truth.clean_labels if graph.truth is not None else graph.labels


def _of_links(model: GDPNet, graph: Graph) -> dict[str, Any]:
    """Return how well keep probabilities tell added links from genuine ones, where there are any."""
    if model.policy_ is None or graph.truth is None or not bool(graph.truth.spurious.any()):
        return {}
    chance = model.denoise(graph).keep_probability
    return {"link_auc": float(roc_auc_score(~graph.truth.spurious.numpy(), chance))}


@dataclass(frozen=True)
class Row:
    """One line of a table: a method at one rate of one noise on one graph."""

    task: str
    graph: str
    noise: str
    rate: float
    method: str
    seeds: int
    failed: int
    mean: dict[str, float]
    deviation: dict[str, float]


def summarise(records: Iterable[dict[str, Any]]) -> list[Row]:
    """Return mean and deviation of every measure over seeds, the newest record of each trial alone.

    Of several settings of a method on a graph those of the newest record count.
    """
    mine = _ours(records)
    newest = {(one["task"], one["graph"], one["method"]): filled(one["config"]) for one in mine}
    trials: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in mine:
        group = (one["task"], one["graph"], one["noise"], one["rate"], one["method"])
        if newest[(one["task"], one["graph"], one["method"])] == filled(one["config"]):
            trials[(*group, one["seed"])] = one["metrics"]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for trial, metrics in trials.items():
        groups.setdefault(trial[:-1], []).append(metrics)
    return [_row(group, metrics) for group, metrics in groups.items()]


def _row(group: tuple[Any, ...], metrics: list[dict[str, Any]]) -> Row:
    ended = [one for one in metrics if "error" not in one]
    task, graph, noise, rate, method = group
    names = MEASURES[task]
    scores = {name: np.array([one[name] for one in ended]) for name in names}
    return Row(
        task,
        graph,
        noise,
        rate,
        method,
        seeds=len(ended),
        failed=len(metrics) - len(ended),
        mean={name: float(found.mean()) if found.size else math.nan for name, found in scores.items()},
        deviation={
            name: float(found.std(ddof=1)) if found.size > 1 else 0.0 for name, found in scores.items()
        },
    )
