"""The demo: train GDPNet on a graph of known noise, and compare it with baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gdpnet._core.progress import part
from gdpnet.benchmark.ablations import variant_of
from gdpnet.benchmark.baselines.fitting import make_task
from gdpnet.benchmark.baselines.methods import run_method, run_task
from gdpnet.benchmark.evaluation import evaluate, f1_on_test, noise_found
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet
from gdpnet.training.callbacks import OnEpoch, Steps
from gdpnet.training.state import Epoch

DEFENCES = ("gcn", "graphsage", "cosine-gcn", "supervised-gcn", "structural-gcn")
"""Two plain networks, and the filters that a user would try first."""


def run_demo(
    graph: Graph, config: Config, seed: int, device: str, on_epoch: Callable[[Epoch], None]
) -> tuple[GDPNet, dict[str, Any]]:
    """Return the trained model, the F1 of all methods, and how much of the known noise they removed."""
    model = GDPNet.from_config(config, seed=seed, device=device).fit(graph, callbacks=[on_epoch])
    with Steps([OnEpoch(on_epoch)]).run("comparison", "fitting the methods to compare with"):
        everything, parts = variant_of(config, "gdpnet:keep-everything"), 2 + len(DEFENCES)
        with part(0, parts):
            all_neighbours = GDPNet.from_config(everything, seed=seed, device=device).fit(graph)
        metrics = evaluate(model.predictor(graph))
        metrics["micro_f1_all_neighbours"] = all_neighbours.score(graph)
        metrics["micro_f1_logistic_regression"] = f1_on_test(graph, run_method("lr", graph, seed).logits)
        metrics["defences"] = {}
        for number, name in enumerate(DEFENCES, start=1):
            with part(number, parts):
                metrics["defences"][name] = _baseline(name, graph, seed, model.device_)
        with part(parts - 1, parts):
            cleaned = run_task("gcn", make_task(graph, seed, model.denoise), seed, model.device_)
        metrics["micro_f1_gcn_on_cleaned"] = f1_on_test(graph, cleaned.logits)
    return model, metrics


def _baseline(name: str, graph: Graph, seed: int, device: torch.device) -> dict[str, Any]:
    found = run_method(name, graph, seed, device)
    result: dict[str, Any] = {"micro_f1": f1_on_test(graph, found.logits)}
    if found.keep_score is not None and found.kept is not None:
        result |= noise_found(graph, found.keep_score.numpy(), found.kept.numpy())
    return result
