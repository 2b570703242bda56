"""Trials: the same graph with several seeds, with selection and without, each kept as a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from gdpnet.benchmark.ablations import variant_of
from gdpnet.benchmark.evaluation import evaluate
from gdpnet.benchmark.records import append_record, make_record, read_records
from gdpnet.config import Config, filled
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet

VARIANTS = ("GDPNet", "all neighbours")
"""The model, and the same aggregator without selection."""


def run_trials(
    open_graph: Callable[[int], Graph],
    graph_name: str,
    config: Config,
    seeds: Iterable[int],
    path: Path,
    *,
    device: str,
    variants: Iterable[str] = VARIANTS,
    on_record: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """Run every seed and variant that the file of records does not hold yet; return all that were asked for."""
    done = {_key(record): record for record in read_records(path) if record.get("kind") == "trial"}
    asked = []
    for seed in seeds:
        for variant in variants:
            chosen = config if variant == "GDPNet" else variant_of(config, "gdpnet:keep-everything")
            wanted = {"graph": graph_name, "variant": variant, "seed": seed, "config": chosen.to_dict()}
            record = done.get(_key(wanted))
            if record is None:
                record = _trial(open_graph(seed), graph_name, variant, chosen, seed, device)
                append_record(path, record)
            on_record(record)
            asked.append(record)
    return asked


def _trial(graph: Graph, name: str, variant: str, config: Config, seed: int, device: str) -> dict[str, Any]:
    start = time.perf_counter()
    model = GDPNet.from_config(config, seed=seed, device=device).fit(graph)
    seconds = time.perf_counter() - start
    metrics = evaluate(model, graph)
    metrics |= {
        "validation_f1": model.validation_f1_,
        "epochs": len(model.history_),
        "seconds": round(seconds, 1),
    }
    return make_record("trial", config, seed, metrics, graph=name, variant=variant, device=str(model.device_))


def _key(record: dict[str, Any]) -> str:
    return repr(
        [record["graph"], record["variant"], record["seed"], sorted(filled(record["config"]).items())]
    )


def summarise(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and deviation of micro-F1 for each graph and variant."""
    groups: dict[tuple[str, str], list[float]] = {}
    for record in records:
        groups.setdefault((record["graph"], record["variant"]), []).append(record["metrics"]["micro_f1"])
    return [
        {
            "graph": graph,
            "variant": variant,
            "trials": len(scores),
            "mean": mean(scores),
            "deviation": stdev(scores) if len(scores) > 1 else 0.0,
        }
        for (graph, variant), scores in groups.items()
    ]
