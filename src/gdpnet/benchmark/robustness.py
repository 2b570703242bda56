"""Robustness: corrupt a graph more and more, train every method on it, and keep what came out as records.

A *method* is a name: a defence of `gdpnet.benchmark.baselines.methods`, a variant of GDPNet, or a variant and a
network, as in ``gdpnet>gcn``: GCN trained on the graph that GDPNet cleaned. Test labels are read here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gdpnet._core.device import pick_device
from gdpnet._core.files import plain
from gdpnet.benchmark.ablations import VARIANTS, is_apart, variant_of
from gdpnet.benchmark.baselines.fitting import Settings, Task, make_task
from gdpnet.benchmark.baselines.methods import METHODS, run_method, run_task
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.cleaned import CLEANED, cleaner_of
from gdpnet.benchmark.evaluation import calibration, link_metrics
from gdpnet.benchmark.parallel import do_all
from gdpnet.benchmark.records import make_record, of_kind, read_records
from gdpnet.config import Config, filled
from gdpnet.data.graph import UNKNOWN, Graph
from gdpnet.errors import ConfigError, GDPNetError, nearest
from gdpnet.estimator import GDPNet
from gdpnet.inference.result import Denoised
from gdpnet.inference.threshold import KEEP_ALL

KIND = "robustness"


@dataclass(frozen=True)
class Unit:
    """What one process does at a time: one method, or one GDPNet and the networks on its cleaned graph."""

    setting: Setting
    methods: tuple[str, ...]
    config: Config
    device: str
    searched: dict[str, Settings] = field(default_factory=dict)
    """Settings of methods of `gdpnet.benchmark.baselines`, where a search found better ones than their own."""

    def settings_of(self, method: str) -> Settings:
        """Return the settings of a defence, or of the network on a cleaned graph."""
        return _settings_of(method, self.searched)


def _settings_of(method: str, searched: Mapping[str, Settings]) -> Settings:
    """Return what a search found for a method, else for its network on the graph as it was, else its own."""
    name = CLEANED.get(method, method)
    return searched.get(method) or searched.get(name) or METHODS[name].settings


def known_methods() -> list[str]:
    """Return the names of all methods."""
    return [*METHODS, *VARIANTS, *CLEANED]


def check_methods(methods: Iterable[str]) -> None:
    """Refuse a method that is not known."""
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
) -> list[Unit]:
    """List what the file of records does not hold yet; what failed before is tried again."""
    known = of_kind(read_records(path), KIND, ("noise", "rate"))
    done = {_key(record) for record in known if _ended(record)}
    units, methods, searched = [], list(methods), searched or {}
    for setting in settings:
        left = [name for name in methods if _wanted_key(setting, name, config, searched) not in done]
        variants = dict.fromkeys(cleaner_of(name) for name in left if name not in METHODS)
        groups = [tuple(name for name in left if cleaner_of(name) == variant) for variant in variants]
        groups += [(name,) for name in left if name in METHODS]
        units += [Unit(setting, group, config, device, searched) for group in groups]
    return units


def _ended(record: dict[str, Any]) -> bool:
    return "error" not in record["metrics"]


def _config_of(config: Config, method: str, searched: Mapping[str, Settings]) -> dict[str, Any]:
    """Return the settings of a method before it is trained."""
    if method in METHODS:
        return asdict(_settings_of(method, searched))
    settings = variant_of(config, cleaner_of(method)).to_dict()
    return settings | {"backbone": asdict(_settings_of(method, searched))} if method in CLEANED else settings


_SEARCHED = ("width", "layers", "heads", "dropout", "learning_rate", "weight_decay", "epochs", "patience")
"""What tells two records of a defence apart: not what it chose by itself."""


def _given(method: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a record's settings that was given, not chosen."""
    return {name: config.get(name) for name in _SEARCHED} if method in METHODS else filled(config)


def _wanted_key(setting: Setting, method: str, config: Config, searched: Mapping[str, Settings]) -> str:
    about = {**setting.to_record(), "seed": setting.seed, "method": method}
    return repr([*sorted(about.items()), _given(method, _config_of(config, method, searched))])


def _key(record: dict[str, Any]) -> str:
    about = {name: record[name] for name in ("graph", "noise", "rate", "seed", "method")}
    return repr([*sorted(about.items()), _given(record["method"], record["config"])])


def run_units(
    units: list[Unit], path: Path, jobs: int, on_records: Callable[[list[dict[str, Any]]], None]
) -> None:
    """Do the units, several at a time if asked for, and append their records as they come."""
    do_all(run_unit, units, path, jobs, on_records)


def run_unit(unit: Unit) -> list[dict[str, Any]]:
    """Run one unit; what fails becomes a record that says so."""
    try:
        graph = noisy_graph(unit.setting, unit.device)
        if unit.methods[0] in METHODS:
            return [_defence(unit, graph)]
        return _family(unit, graph)
    except _FAILURES as error:
        return [_failure(unit, name, error) for name in unit.methods]


_FAILURES = (GDPNetError, RuntimeError, ValueError)


def _failure(unit: Unit, method: str, error: Exception) -> dict[str, Any]:
    return _record(unit, method, {"error": " ".join(str(error).split())}, None)


def _record(
    unit: Unit, method: str, metrics: dict[str, Any], settings: dict[str, Any] | None
) -> dict[str, Any]:
    about = unit.setting.to_record() | {"method": method, "device": unit.device}
    config = settings if settings is not None else _config_of(unit.config, method, unit.searched)
    return make_record(KIND, config, unit.setting.seed, plain(metrics), **about)


def _defence(unit: Unit, graph: Graph) -> dict[str, Any]:
    name = unit.methods[0]
    device = pick_device(unit.device)
    found = run_method(name, graph, unit.setting.seed, device, unit.settings_of(name))
    metrics: dict[str, Any] = {
        "micro_f1": f1_on_test(graph, found.logits),
        "validation_f1": found.validation_f1,
    }
    if found.keep_score is not None:
        kept = found.kept if found.kept is not None else torch.ones_like(graph.neighbour, dtype=torch.bool)
        metrics |= link_metrics(graph, found.keep_score.numpy(), kept.numpy())
    return _record(unit, name, metrics | {"seconds": round(found.seconds, 1)}, found.settings)


def _family(unit: Unit, graph: Graph) -> list[dict[str, Any]]:
    """Fit one GDPNet; record it, and each network that is asked for on the graph that it cleans."""
    variant = cleaner_of(unit.methods[0])
    config = variant_of(unit.config, variant)
    start = time.perf_counter()
    model = GDPNet.from_config(config, seed=unit.setting.seed, device=unit.device).fit(graph)
    seconds = time.perf_counter() - start
    cleaned = model.denoise(graph)
    records = []
    metrics: dict[str, Any]
    if variant in unit.methods:
        logits = torch.from_numpy(model.predict_proba(graph))
        metrics = {"micro_f1": f1_on_test(graph, logits), "validation_f1": model.validation_f1_}
        metrics |= link_metrics(graph, cleaned.keep_probability, cleaned.kept)
        metrics |= calibration(graph, cleaned)
        metrics |= {
            "threshold": cleaned.threshold,
            "doubted_labels": len(model.doubted_),
            "epochs": len(model.history_),
            "seconds": round(seconds, 1),
        }
        records.append(_record(unit, variant, metrics, config.to_dict()))
    wanted = [name for name in unit.methods if name in CLEANED]
    if wanted:
        task = make_task(graph, unit.setting.seed)
        task = task.with_graphs(model.denoise(task.train).graph, cleaned.graph)
        records += [_on_cleaned(unit, name, graph, task, cleaned) for name in wanted]
    return records


def _on_cleaned(unit: Unit, name: str, graph: Graph, task: Task, cleaned: Denoised) -> dict[str, Any]:
    """Train a network on the cleaned graph; its failure is its own, not that of the model beside it.

    A graph that came back as it was is the graph as it was: there the network has the settings that it has on that.
    Its record's ``config`` names those that were found on cleaned graphs, by which it is known before anything is
    cleaned, and its ``settings`` those that it had.
    """
    try:
        untouched = cleaned.threshold == KEEP_ALL
        device, settings = pick_device(unit.device), unit.settings_of(CLEANED[name] if untouched else name)
        found = run_task(CLEANED[name], task, unit.setting.seed, device, settings)
        metrics = {
            "micro_f1": f1_on_test(graph, found.logits),
            "validation_f1": found.validation_f1,
            "threshold": cleaned.threshold,
            "settings": asdict(settings),
            "seconds": round(found.seconds, 1),
        }
    except _FAILURES as error:
        return _failure(unit, name, error)
    return _record(unit, name, metrics, None)


def f1_on_test(graph: Graph, logits: torch.Tensor) -> float:
    """Return micro-F1 on the test nodes, against clean labels where the graph knows them."""
    labels = graph.truth.clean_labels if graph.truth is not None else graph.labels
    nodes = graph.nodes_in("test")
    nodes = nodes[labels[nodes] != UNKNOWN]
    if nodes.numel() == 0:
        raise ConfigError("the graph has no labelled test node to score on")
    return float((logits[nodes].argmax(dim=1) == labels[nodes]).float().mean())


LINK_METRICS = {
    "link_auc": "AUC",
    "removed_precision": "removed: precision",
    "removed_recall": "removed: recall",
    "kept_same_class": "same-class kept",
    "kept_cross_class": "cross-class kept",
    "brier": "Brier",
}
"""What is said of the links that a method judged, and how a table calls it."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a method at one rate of one noise on one graph."""

    graph: str
    noise: str
    rate: float
    method: str
    seeds: int
    mean: float
    deviation: float
    failed: int
    links: dict[str, float]
    """What became of the links, means over seeds: those of `LINK_METRICS` that the records have."""
    apart: bool = False
    """Whether it was run with other settings than GDPNet's on this graph, beside what a variant changes."""

    @property
    def link_auc(self) -> float | None:
        """Return the ROC AUC of keep scores against the links that were added."""
        return self.links.get("link_auc")

    @property
    def link_cells(self) -> tuple[str, ...]:
        """Return the rate and what became of the links, as the cells of a table."""
        return f"{self.rate:g}", *(
            f"{self.links[key]:.3f}" if key in self.links else "" for key in LINK_METRICS
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def newest_records(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one record a trial, the newest, one that ended before one that failed.

    Of several settings of a method on a graph those of the newest record of a kind of noise count, at every rate.
    """
    mine = of_kind(records, KIND, ("noise", "rate"))
    settings = {_place(*_group(one)): _given(one["method"], one["config"]) for one in mine}
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in mine:
        trial = (*_group(record), record["seed"])
        if settings[_place(*_group(record))] == _given(record["method"], record["config"]) and (
            _ended(record) or trial not in newest or not _ended(newest[trial])
        ):
            newest[trial] = record
    return list(newest.values())


def _group(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["graph"], record["noise"], record["rate"], record["method"]


def _place(graph: str, noise: str, _: float, method: str) -> tuple[str, str, str]:
    """Return what settings belong to: all rates of a kind of noise."""
    return graph, noise, method


def summarise(records: Iterable[dict[str, Any]]) -> list[Row]:
    """Return mean and deviation of micro-F1 for every method, rate, noise and graph; failures are counted."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    records = list(records)
    apart = methods_apart(records)
    for record in newest_records(records):
        groups.setdefault(_group(record), []).append(record["metrics"])
    return [_row(group, metrics, apart=_place(*group) in apart) for group, metrics in groups.items()]


def methods_apart(records: Iterable[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return GDPNet and its variants, by graph, noise and method, that have other settings than its newest record."""
    mine = of_kind(records, KIND, ("noise", "rate"))
    ours = {one["graph"]: one["config"] for one in mine if one["method"] == "gdpnet"}
    settings = {_place(*_group(one)): one["config"] for one in mine}
    return {
        (graph, noise, method)
        for (graph, noise, method), config in settings.items()
        if graph in ours and is_apart(cleaner_of(method), config, ours[graph])
    }


def _row(group: tuple[Any, ...], metrics: list[dict[str, Any]], *, apart: bool) -> Row:
    scores = np.array([one["micro_f1"] for one in metrics if "error" not in one])
    known = {key: [one[key] for one in metrics if one.get(key) is not None] for key in LINK_METRICS}
    graph, noise, rate, method = group
    return Row(
        graph,
        noise,
        rate,
        method,
        seeds=scores.size,
        mean=float(scores.mean()) if scores.size else math.nan,
        deviation=float(scores.std(ddof=1)) if scores.size > 1 else 0.0,
        failed=len(metrics) - scores.size,
        links={key: float(np.mean(values)) for key, values in known.items() if values},
        apart=apart,
    )
