"""The demo: train on a graph whose noise is known, beside methods that do not select and defences that filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gdpnet.benchmark.ablations import variant_of
from gdpnet.benchmark.baselines.fitting import make_task
from gdpnet.benchmark.baselines.logistic import logistic_regression_f1
from gdpnet.benchmark.baselines.methods import run_backbone, run_method
from gdpnet.benchmark.evaluation import evaluate, link_metrics
from gdpnet.benchmark.robustness import f1_on_test
from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet
from gdpnet.training.trainer import Epoch

DEFENCES = ("gcn", "graphsage", "cosine-gcn", "supervised-gcn", "structural-gcn")
"""What the demo trains beside GDPNet: two plain networks, and filters that a user would try first."""


def run_demo(
    graph: Graph, config: Config, seed: int, device: str, on_epoch: Callable[[Epoch], None]
) -> tuple[GDPNet, dict[str, Any]]:
    """Return the trained model, and the F1 of all methods with what became of the planted noise."""
    model = GDPNet.from_config(config, seed=seed, device=device).fit(graph, on_epoch=on_epoch)
    everything = GDPNet.from_config(
        variant_of(config, "gdpnet:keep-everything"), seed=seed, device=device
    ).fit(graph)
    metrics = evaluate(model, graph)
    metrics["micro_f1_all_neighbours"] = everything.score(graph)
    metrics["micro_f1_logistic_regression"] = logistic_regression_f1(graph)
    metrics["defences"] = {name: _defence(name, graph, seed, model.device_) for name in DEFENCES}
    train = model.denoise(make_task(graph, seed).train).graph
    cleaned = run_backbone("gcn", train, model.denoise(graph).graph, seed, model.device_)
    metrics["micro_f1_gcn_on_cleaned"] = f1_on_test(graph, cleaned.logits)
    return model, metrics


def _defence(name: str, graph: Graph, seed: int, device: torch.device) -> dict[str, Any]:
    found = run_method(name, graph, seed, device)
    result: dict[str, Any] = {"micro_f1": f1_on_test(graph, found.logits)}
    if found.keep_score is not None and found.kept is not None:
        links = link_metrics(graph, found.keep_score.numpy(), found.kept.numpy())
        spurious = graph.truth.spurious if graph.truth is not None else torch.zeros_like(found.kept)
        genuine = found.kept[~spurious]
        result |= {
            "spurious_removed": links.get("removed_recall"),
            "genuine_kept": float(genuine.float().mean()) if genuine.numel() else None,
            "keep_auc": links.get("link_auc"),
        }
    return result
