"""Robustness: train every method on graphs with more and more noise, and record the results.

A *method* is a name: a baseline of `gdpnet.benchmark.baselines.methods`, a variant of GDPNet, or a variant and a
network, as in ``gdpnet>gcn``: GCN trained on the graph that GDPNet cleaned. Test labels are read here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from gdpnet._core.device import pick_device
from gdpnet._core.progress import part
from gdpnet.benchmark.ablations import CLEANED, VARIANTS, cleaner_of, is_apart, variant_of
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task
from gdpnet.benchmark.baselines.methods import METHODS, run_method, run_task
from gdpnet.benchmark.cases import Setting, counted_graph, protocol_of
from gdpnet.benchmark.evaluation import calibration, f1_on_test, link_metrics
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.sweep import FAILURES, Sweep, failure_of, record_of
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.errors import ConfigError, nearest
from gdpnet.estimator import GDPNet
from gdpnet.inference.denoised import Denoised
from gdpnet.inference.threshold import KEEP_ALL

_SEARCHED = ("width", "layers", "heads", "dropout", "learning_rate", "weight_decay", "epochs", "patience")
_SELF_TRAINING = ("pseudo_shares", "pseudo_weight", "pseudo_balanced")


def _settings_given(record: Record) -> dict[str, Any]:
    """Return the settings of a record that were given, without those that a baseline chose on validation."""
    config: dict[str, Any] = record["config"]
    if record["method"] not in METHODS:
        return config
    given = {name: config.get(name) for name in _SEARCHED}
    own = {name: value for name, value in config.items() if name in _SELF_TRAINING}
    return given | {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}


SWEEP = Sweep(
    "robustness", ("graph", "noise", "rate", "method"), ("graph", "noise", "method"), _settings_given
)


@dataclass(frozen=True)
class Trial:
    """One baseline on one perturbed graph, or one GDPNet there with the networks on its cleaned graph."""

    setting: Setting
    methods: tuple[str, ...]
    config: Config
    device: str
    searched: dict[str, Settings] = field(default_factory=dict)
    """Settings that `gdpnet tune` found, by method; the others have their defaults."""

    @property
    def stub(self) -> Record:
        """Return the record of the first method without its metrics."""
        return self.stub_of(self.methods[0])

    def stub_of(self, method: str) -> Record:
        """Return the record of a method without its metrics."""
        about = {"kind": SWEEP.kind, **self.setting.to_record(), "method": method, "seed": self.setting.seed}
        if method in METHODS:
            return about | {"config": asdict(self.settings_of(method))}
        config = variant_of(self.config, cleaner_of(method)).to_dict()
        backbone = {"backbone": asdict(self.settings_of(method))} if method in CLEANED else {}
        return about | {"config": config | backbone}

    def settings_of(self, method: str) -> Settings:
        """Return the settings of a baseline, or of the network on a cleaned graph.

        If no search was made on cleaned graphs, those found on the original graph count.
        """
        name = CLEANED.get(method, method)
        return self.searched.get(method) or self.searched.get(name) or METHODS[name].settings

    def run(self) -> list[Record]:
        """Return one record per method."""
        parts = 1 + len(self.methods)
        protocol, counts = dict[str, Any](), dict[str, int]()
        try:
            with part(0, parts):
                graph, counts = counted_graph(self.setting, self.device)
                protocol = {"protocol": protocol_of(graph, self.setting)}
                measures = _measures_of(self, graph)
        except FAILURES as error:
            records = [failure_of(self.stub_of(name) | protocol, self.device, error) for name in self.methods]
        else:
            records = []
            for number, (name, measure) in enumerate(measures.items(), start=1):
                with part(number, parts):
                    records.append(record_of(self.stub_of(name) | protocol, self.device, measure))
        return [record | {"metrics": counts | record["metrics"]} for record in records]


def baseline_names() -> list[str]:
    """Return the names of all baselines."""
    return list(METHODS)


def known_methods() -> list[str]:
    """Return the names of all methods."""
    return [*METHODS, *VARIANTS, *CLEANED]


def check_methods(methods: Iterable[str]) -> None:
    """Raise an error for a method that does not exist."""
    for name in methods:
        if name not in known_methods():
            raise ConfigError(f"there is no method '{name}'{nearest(name, known_methods())}")


def plan(
    settings: Iterable[Setting],
    methods: Iterable[str],
    config: Config,
    device: str,
    path: Path,
    searched: dict[str, Settings] | None = None,
) -> list[Trial]:
    """Return the trials that a file of records lacks; those that share a fitted GDPNet are one."""
    order = sorted(methods, key=lambda name: name in METHODS)
    every = [Trial(one, (name,), config, device, searched or {}) for one in settings for name in order]
    merged: dict[tuple[Setting, str], Trial] = {}
    for trial in SWEEP.missing(every, path):
        place = trial.setting, cleaner_of(trial.methods[0])
        before = merged[place].methods if place in merged else ()
        merged[place] = replace(trial, methods=(*before, *trial.methods))
    return list(merged.values())


def _baseline(trial: Trial, graph: Graph) -> Record:
    name, device = trial.methods[0], pick_device(trial.device)
    found = run_method(name, graph, trial.setting.seed, device, trial.settings_of(name))
    metrics: Record = {"micro_f1": f1_on_test(graph, found.logits), "validation_f1": found.validation_f1}
    if found.keep_score is not None:
        kept = found.kept if found.kept is not None else torch.ones_like(graph.neighbour, dtype=torch.bool)
        metrics |= link_metrics(graph, found.keep_score.numpy(), kept.numpy()) | {
            "edges_kept": int(kept.sum())
        }
    return metrics | {"seconds": round(found.seconds, 1), "config": found.settings}


def _gdpnet(graph: Graph, model: GDPNet, cleaned: Denoised, seconds: float) -> Record:
    logits = torch.from_numpy(model.predict_proba(graph))
    return (
        {"micro_f1": f1_on_test(graph, logits), "validation_f1": model.validation_f1_}
        | link_metrics(graph, cleaned.keep_probability, cleaned.kept)
        | calibration(graph, cleaned)
        | {
            "edges_kept": int(cleaned.kept.sum()),
            "threshold": cleaned.threshold,
            "suspected_labels": len(model.suspected_labels_),
            "epochs": len(model.history_),
            "seconds": round(seconds, 1),
        }
    )


def _network(trial: Trial, name: str, task: Callable[[], Task], graph: Graph, cleaned: Denoised) -> Record:
    """Return the metrics of a network on the cleaned graph.

    If cleaning removed no edge, the network keeps the settings that were tuned on the original graph. The ``config``
    of its record names those tuned on cleaned graphs, which identify it before anything is cleaned, and ``settings``
    those that it had.
    """
    settings = trial.settings_of(CLEANED[name] if cleaned.threshold == KEEP_ALL else name)
    found = run_task(CLEANED[name], task(), trial.setting.seed, pick_device(trial.device), settings)
    return {
        "micro_f1": f1_on_test(graph, found.logits),
        "validation_f1": found.validation_f1,
        "threshold": cleaned.threshold,
        "edges_kept": int(cleaned.kept.sum()),
        "settings": asdict(settings),
        "seconds": round(found.seconds, 1),
    }


def _measures_of(trial: Trial, graph: Graph) -> dict[str, Callable[[], Record]]:
    """Return how to measure each method of a trial; its GDPNet is fitted here, once for all of them."""
    first, seed = trial.methods[0], trial.setting.seed
    if first in METHODS:
        return {first: partial(_baseline, trial, graph)}
    start = time.perf_counter()
    config = variant_of(trial.config, cleaner_of(first))
    model = GDPNet.from_config(config, seed=seed, device=trial.device).fit(graph)
    seconds, cleaned = time.perf_counter() - start, model.denoise(graph)

    def denoise(one: Graph) -> Denoised:
        return cleaned if one is graph else model.denoise(one)

    task = cache(partial(make_task, graph, seed, denoise))
    return {
        name: partial(_network, trial, name, task, graph, cleaned)
        if name in CLEANED
        else partial(_gdpnet, graph, model, cleaned, seconds)
        for name in sorted(trial.methods, key=lambda name: name in CLEANED)
    }


LINK_METRICS = {
    "link_auc": "AUC",
    "removed_precision": "removed: precision",
    "removed_recall": "removed: recall",
    "kept_same_class": "same-class kept",
    "kept_cross_class": "cross-class kept",
    "brier": "Brier",
}
"""Measures of the edges that a method scored, with their names in a table."""

EDGE_COUNTS = {
    "edges_before": "before noise",
    "edges_added": "added",
    "edges_removed": "removed",
    "edges_after": "with noise",
    "edges_kept": "kept",
}
"""Counts of directed edges, with their names in a table; those kept are of methods that clean."""


@dataclass(frozen=True)
class Row:
    """One cell of a table: a method at one rate of one noise on one graph."""

    graph: str
    noise: str
    rate: float
    method: str
    seeds: int
    mean: float
    deviation: float
    failed: int
    links: dict[str, float]
    """Means over seeds of those `LINK_METRICS` that the records have."""
    edges: dict[str, float] = field(default_factory=dict)
    """Means over seeds of those `EDGE_COUNTS` that the records have."""
    apart: bool = False
    """Whether it was run with other settings than GDPNet on this graph, apart from the changes of a variant."""

    @property
    def link_cells(self) -> tuple[str, ...]:
        """Return the rate and the edge measures as the cells of a table."""
        measures = (f"{self.links[key]:.3f}" if key in self.links else "" for key in LINK_METRICS)
        return f"{self.rate:g}", *measures

    @property
    def count_cells(self) -> tuple[str, ...]:
        """Return the rate and the counts of edges as the cells of a table."""
        counts = (f"{self.edges[key]:,.0f}" if key in self.edges else "" for key in EDGE_COUNTS)
        return f"{self.rate:g}", *counts


def summarise(records: Iterable[Record]) -> list[Row]:
    """Return mean and standard deviation of micro-F1 per method, rate, noise and graph; failures are counted."""
    records = list(records)
    apart = methods_apart(records)

    def row(mean: Record, deviation: Record, **about: Any) -> Row:
        links, edges = (
            {name: mean[name] for name in names if not math.isnan(mean[name])}
            for names in (LINK_METRICS, EDGE_COUNTS)
        )
        place = about["graph"], about["noise"], about["method"]
        scores = {"mean": mean["micro_f1"], "deviation": deviation["micro_f1"]}
        return Row(**about, **scores, links=links, edges=edges, apart=place in apart)

    return SWEEP.summarise(records, ("micro_f1", *LINK_METRICS, *EDGE_COUNTS), row)


def methods_apart(records: Iterable[Record]) -> set[tuple[str, str, str]]:
    """Return the graph, noise and name of each GDPNet variant that has other settings than the newest GDPNet."""
    mine = SWEEP.current(records)
    ours = {one["graph"]: one["config"] for one in mine if one["method"] == "gdpnet"}
    settings = {(one["graph"], one["noise"], one["method"]): one["config"] for one in mine}
    return {
        (graph, noise, method)
        for (graph, noise, method), config in settings.items()
        if graph in ours and is_apart(cleaner_of(method), config, ours[graph])
    }
