"""The demo: train on a graph whose noise is known, beside two methods that do not select."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gdpnet.baselines.logistic import logistic_regression_f1
from gdpnet.config import Config
from gdpnet.experiments.evaluation import evaluate
from gdpnet.experiments.trials import without_selection
from gdpnet.graph.graph import Graph
from gdpnet.model import GDPNet
from gdpnet.training import Epoch


def run_demo(
    graph: Graph, config: Config, seed: int, device: str, on_epoch: Callable[[Epoch], None]
) -> tuple[GDPNet, dict[str, Any]]:
    """Return the trained model, and the F1 of all three methods with what became of the planted noise."""
    model = GDPNet.from_config(config, seed=seed, device=device).fit(graph, on_epoch=on_epoch)
    everything = GDPNet.from_config(without_selection(config), seed=seed, device=device).fit(graph)
    metrics = evaluate(model, graph)
    metrics["micro_f1_all_neighbours"] = everything.score(graph)
    metrics["micro_f1_logistic_regression"] = logistic_regression_f1(graph)
    return model, metrics
