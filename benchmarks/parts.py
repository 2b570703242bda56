"""Redrawn parts against one fixed part of a large graph: does training on all of it give a better model?

Both arms train on parts of the same size with the same seeds; one draws other parts every few epochs, the other keeps
the first one. Scores are those of the whole graph: ROC AUC of keep probabilities against spurious edges, and micro-F1
on test nodes. Heads are left out, since they are fitted to the first part in both arms. Every pair leaves a record,
and the differences over all seeds another one.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from records import make_parser, write_record

from gdpnet.benchmark.evaluation import evaluate
from gdpnet.config import Config
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import open_store
from gdpnet.estimator import GDPNet

HEADS = ("hopwise", "gcn", "all_edges", "trees", "linear", "evidence")
SCORES = ("keep_auc", "micro_f1")


def fit_and_score(graph: Graph, config: Config, seed: int) -> dict[str, Any]:
    """Train on parts of a graph and score the model on all of it."""
    start = time.process_time()
    model = GDPNet.from_config(config, seed=seed, device="cpu").fit(graph)
    seconds = time.process_time() - start
    scores = evaluate(model.predictor(graph))
    found = {name: scores[name] for name in SCORES}
    return found | {
        "validation_f1": model.validation_f1_,
        "epochs": len(model.history_),
        "best_epoch": model.best_epoch_,
        "fit_cpu_seconds": round(seconds, 1),
    }


def paired(rows: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Return the mean difference of a score, redrawn less fixed, its standard error and how often it is above."""
    gains = [row["redrawn"][name] - row["fixed"][name] for row in rows]
    error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
    return {
        "fixed": statistics.mean(row["fixed"][name] for row in rows),
        "redrawn": statistics.mean(row["redrawn"][name] for row in rows),
        "difference": statistics.mean(gains),
        "standard_error": error,
        "better": sum(gain > 0 for gain in gains),
    }


def measure(arguments: argparse.Namespace, graph_settings: GeneratedSettings, config: Config) -> None:
    """Train both arms with every seed, on a graph of its own each."""
    arms = {
        "fixed": config.with_values({"training": {"redraw_every": 0}}),
        "redrawn": config.with_values({"training": {"redraw_every": arguments.redraw_every}}),
    }
    about = {
        "graph": vars(graph_settings),
        "settings": config.to_dict(),
        "redraw_every": arguments.redraw_every,
    }
    rows = []
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            generate_store(graph_settings, seed, Path(folder) / "store")
            graph = open_store(Path(folder) / "store")
            row = {"seed": seed} | {name: fit_and_score(graph, one, seed) for name, one in arms.items()}
        rows.append(row)
        write_record(arguments.results, "parts_pair", row, about)
    found = {name: paired(rows, name) for name in SCORES} | {"seeds": len(rows)}
    write_record(arguments.results, "parts", found, about)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=float, default=10_000, help="nodes of the graph (default: 10,000)")
    parser.add_argument("--edges", type=float, default=100_000, help="directed edges (default: 100,000)")
    parser.add_argument("--signal", type=float, default=1.5, help="distance of the classes (default: 1.5)")
    parser.add_argument("--classes", type=int, default=8, help="classes (default: 8)")
    parser.add_argument("--noise", type=float, default=0.3, help="share of spurious edges (default: 0.3)")
    parser.add_argument("--max-nodes", type=int, default=1500, help="training.max_nodes (default: 1,500)")
    parser.add_argument("--redraw-every", type=int, default=5, help="training.redraw_every (default: 5)")
    parser.add_argument("--epochs", type=int, default=30, help="training.epochs (default: 30)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument(
        "--work", type=Path, help="folder for the graphs (default: the system's temporary one)"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    graph_settings = GeneratedSettings(
        nodes=int(arguments.nodes),
        edges=int(arguments.edges),
        classes=arguments.classes,
        noise=arguments.noise,
        signal=arguments.signal,
    )
    training = {"max_nodes": arguments.max_nodes, "epochs": arguments.epochs}
    config = Config().with_values({"training": training} | {name: {"use": False} for name in HEADS})
    measure(arguments, graph_settings, config)


if __name__ == "__main__":
    main()
