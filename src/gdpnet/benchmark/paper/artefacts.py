"""Portraits: one trial of a method on one dataset, with what its pictures are drawn from."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score

from gdpnet._core.device import pick_device
from gdpnet._core.files import plain
from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.baselines.methods import METHODS, run_method
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.evaluation import selected_shares
from gdpnet.benchmark.figures import flatten_points
from gdpnet.benchmark.paper import claims as submodularity
from gdpnet.benchmark.records import make_record, of_kind, read_records
from gdpnet.config import Config, filled
from gdpnet.data.graph import Graph
from gdpnet.errors import GDPNetError
from gdpnet.estimator import GDPNet

KIND = "portrait"

MAPPED = ("gdpnet", "gat", "gcn", "graphsage")
"""Methods whose representations are mapped, as in the paper."""

METHODS_DRAWN = (*MAPPED, "lr", "fastgcn", "graphsage-sampled")

CLAIMS = "claims"
"""Not a method: the check of the paper's claims about its reward."""

_BINS = 20


@dataclass(frozen=True)
class Portrait:
    """What one process does at a time."""

    setting: Setting
    method: str
    config: Config
    device: str
    settings: Settings | None = None

    def to_config(self) -> dict[str, Any]:
        """Return the settings of the method."""
        if self.method not in METHODS:
            return self.config.to_dict()
        return asdict(self.settings or METHODS[self.method].settings)


def portraits_left(
    settings: Iterable[Setting],
    methods: Iterable[str],
    configs: dict[str, Config],
    device: str,
    path: Path,
    searched: dict[tuple[str, str], Settings],
) -> list[Portrait]:
    """List the portraits that the file of records does not hold yet."""
    done = {
        repr([record["graph"], record["method"], record["seed"], filled(record["config"])])
        for record in portraits_of(read_records(path)).values()
    }
    left = []
    for setting in settings:
        graph = str(setting.to_record()["graph"])
        wanted = [
            Portrait(setting, name, configs[setting.graph], device, searched.get((graph, name)))
            for name in methods
        ]
        left += [
            one
            for one in wanted
            if repr([graph, one.method, setting.seed, filled(one.to_config())]) not in done
        ]
    return left


def run_portrait(one: Portrait) -> list[dict[str, Any]]:
    """Train one method and keep what its pictures need; a failure becomes a record that says so."""
    about = {"graph": one.setting.to_record()["graph"], "method": one.method, "device": one.device}
    try:
        metrics = _metrics_of(one, noisy_graph(one.setting, one.device))
    except (GDPNetError, RuntimeError, ValueError) as error:
        metrics = {"error": " ".join(str(error).split())}
    return [make_record(KIND, one.to_config(), one.setting.seed, plain(metrics), **about)]


def _metrics_of(one: Portrait, graph: Graph) -> dict[str, Any]:
    if one.method == CLAIMS:
        return submodularity.summary(submodularity.check_graph(graph, one.config, one.setting.seed))
    if one.method == "gdpnet":
        return _of_gdpnet(one, graph)
    settings = one.settings or METHODS[one.method].settings
    found = run_method(one.method, graph, one.setting.seed, pick_device(one.device), settings)
    metrics: dict[str, Any] = {"seconds": found.seconds, "epochs": found.epochs}
    if one.method in MAPPED and found.hidden is not None:
        nodes = graph.nodes_in("test")
        metrics |= _map_of(found.hidden[nodes].numpy(), graph.labels[nodes].numpy(), one.setting.seed)
    return metrics


def _of_gdpnet(one: Portrait, graph: Graph) -> dict[str, Any]:
    start = time.perf_counter()
    model = GDPNet.from_config(one.config, seed=one.setting.seed, device=one.device).fit(graph)
    seconds = time.perf_counter() - start
    nodes = graph.nodes_in("test")
    shares = selected_shares(graph, model.denoise(graph, threshold=0.5))
    history = {
        key: [round(float(epoch[key]), 4) for epoch in model.history_]
        for key in ("validation_f1", "reward", "kept_share")
    }
    return {
        "seconds": seconds,
        "epochs": len(model.history_),
        "warmup": one.config.training.warmup,
        "history": history,
        "shares": np.histogram(shares, bins=_BINS, range=(0.0, 1.0))[0].tolist(),
        **_map_of(model.embed(graph, nodes), graph.labels[nodes].numpy(), one.setting.seed),
    }


def _map_of(rows: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the map of some representations, their classes, and the silhouette score of the classes there."""
    points = flatten_points(rows, seed)
    known = labels >= 0
    score = None
    if np.unique(labels[known]).size > 1:
        score = float(silhouette_score(rows[known], labels[known]))
    return {
        "points": np.round(points, 2).astype(float).tolist(),
        "labels": labels.tolist(),
        "silhouette": score,
    }


def portraits_of(records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the newest portrait that did not fail, by graph and method."""
    return {
        (record["graph"], record["method"]): record
        for record in of_kind(records, KIND)
        if "error" not in record["metrics"]
    }
