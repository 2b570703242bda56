"""Artefacts of a trial: the data behind the paper's figures, for one method on one dataset."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.metrics import silhouette_score

from gdpnet._core.device import pick_device
from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.baselines.methods import METHODS, run_method
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.evaluation import selected_shares
from gdpnet.benchmark.figures import flatten_points
from gdpnet.benchmark.paper import claims
from gdpnet.benchmark.records import Record
from gdpnet.benchmark.sweep import Sweep, record_of
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet

SWEEP = Sweep("portrait", ("graph", "method"))
"""Records of this kind are called portraits since version 0.1."""

MAPPED = ("gdpnet", "gat", "gcn", "graphsage")
"""Methods whose representations are mapped, as in the paper."""

METHODS_DRAWN = (*MAPPED, "lr", "fastgcn", "graphsage-sampled")

CLAIMS = "claims"
"""Not a method: the check of the paper's claims about its reward."""

_BINS = 20


@dataclass(frozen=True)
class Artefacts:
    """A trial of one method on one dataset."""

    setting: Setting
    method: str
    config: Config
    device: str
    settings: Settings | None = None

    @property
    def stub(self) -> Record:
        """Return the record without its metrics."""
        baseline = asdict(self._settings) if self.method in METHODS else self.config.to_dict()
        about = {"kind": SWEEP.kind, **self.setting.to_record(), "method": self.method}
        del about["noise"], about["rate"]
        return about | {"seed": self.setting.seed, "config": baseline}

    @property
    def _settings(self) -> Settings:
        return self.settings or METHODS[self.method].settings

    def run(self) -> list[Record]:
        """Return the record of the method."""
        return [record_of(self.stub, self.device, self._metrics)]

    def _metrics(self) -> Record:
        graph, seed = noisy_graph(self.setting, self.device), self.setting.seed
        if self.method == CLAIMS:
            return claims.summary(claims.check_graph(graph, self.config, seed))
        if self.method == "gdpnet":
            return self._of_gdpnet(graph)
        found = run_method(self.method, graph, seed, pick_device(self.device), self._settings)
        metrics: Record = {"seconds": found.seconds, "epochs": found.epochs}
        if self.method in MAPPED and found.hidden is not None:
            nodes = graph.nodes_in("test")
            metrics |= _map_of(found.hidden[nodes].numpy(), graph.labels[nodes].numpy(), seed)
        return metrics

    def _of_gdpnet(self, graph: Graph) -> Record:
        start = time.perf_counter()
        model = GDPNet.from_config(self.config, seed=self.setting.seed, device=self.device).fit(graph)
        seconds = time.perf_counter() - start
        nodes = graph.nodes_in("test")
        shares = selected_shares(graph, model.denoise(graph, threshold=0.5))
        return {
            "seconds": seconds,
            "epochs": len(model.history_),
            "warmup": self.config.training.warmup,
            "history": {
                key: [round(float(epoch[key]), 4) for epoch in model.history_]
                for key in ("validation_f1", "reward", "kept_share")
            },
            "shares": np.histogram(shares, bins=_BINS, range=(0.0, 1.0))[0].tolist(),
            **_map_of(model.embed(graph, nodes), graph.labels[nodes].numpy(), self.setting.seed),
        }


def _map_of(rows: np.ndarray, labels: np.ndarray, seed: int) -> Record:
    """Return representations in two dimensions, their classes, and the silhouette score of the classes."""
    known = labels >= 0
    several = np.unique(labels[known]).size > 1
    return {
        "points": np.round(flatten_points(rows, seed), 2).astype(float).tolist(),
        "labels": labels.tolist(),
        "silhouette": float(silhouette_score(rows[known], labels[known])) if several else None,
    }


def artefacts_left(
    settings: Iterable[Setting],
    methods: Iterable[str],
    configs: dict[str, Config],
    device: str,
    path: Path,
    searched: dict[tuple[str, str], Settings],
) -> list[Artefacts]:
    """Return the trials that a file of records does not hold yet."""
    methods = list(methods)
    every = [
        Artefacts(one, name, configs[one.graph], device, searched.get((one.to_record()["graph"], name)))
        for one in settings
        for name in methods
    ]
    return SWEEP.missing(every, path)
