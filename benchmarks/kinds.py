"""Graphs of other kinds, clean and noisy, with many labels and few: GDPNet beside simple methods.

    python benchmarks/kinds.py [--kinds social,featureless] [--labels all,10%] [--seeds 2] [--first-seed 0]

Does the selection do harm where nobody tuned it? Every graph is generated (`graph_kinds.py`), given noise with known
truth, and read by all methods with the same split and their default settings. With few labels graphs are transductive
and the self-trained rivals join; with all labels they are inductive, but for graphs without features. One record per
graph, noise, labels and seed is written; those that the file has are not run again. Test nodes are read by the
final scores alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graph_kinds import KINDS, generate, smaller
from records import commit

from gdpnet import GDPNet
from gdpnet.benchmark.baselines.methods import run_method
from gdpnet.benchmark.evaluation import calibration, f1_on_test, link_metrics
from gdpnet.data.graph import Graph
from gdpnet.data.label_rate import ALL, LabelRate
from gdpnet.data.noise.registry import corrupt
from gdpnet.data.splits import with_few_labels, with_split

SIMPLE = ("gcn", "graphsage", "structural-gcn")
SELF_TRAINED = ("gcn-self", "structural-gcn-self")
NOISES = {"clean": None, "random": ("random-links", 1.0), "hostile": ("similar-links", 0.25)}
"""Noise by name; without features `hostile` edges join any nodes of different classes."""

_NOISE_NAMES = {"clean": "clean", "random": "+100 % random", "hostile": "+25 % between classes"}
LABELS = (ALL, "10%", "20-per-class", "5-per-class")
SPLIT = "40/20/40"


@dataclass(frozen=True)
class Cell:
    """One generated graph with one noise and one label rate."""

    kind: str
    noise: str
    labels: str
    seed: int
    nodes: int

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """Return what tells its record from others."""
        return self.kind, self.noise, self.labels, self.seed, self.nodes

    def graph(self) -> Graph:
        """Return the graph with its noise and split."""
        kind = smaller(KINDS[self.kind], self.nodes)
        graph = with_split(generate(kind, self.seed), SPLIT, self.seed)
        bare = kind.features == "none"
        if NOISES[self.noise] is not None:
            name, rate = NOISES[self.noise]
            name = "cross-class-links" if bare and self.noise == "hostile" else name
            graph = corrupt(graph, name, rate, self.seed).graph
        graph = replace(graph, transductive=bare or self.labels != ALL)
        return with_few_labels(graph, LabelRate.of(self.labels), self.seed)


def run(cell: Cell) -> dict[str, Any]:
    """Fit all methods to a cell; return its record."""
    torch.set_num_threads(1)
    graph, seed, rivals = cell.graph(), cell.seed, SIMPLE + (SELF_TRAINED if cell.labels != ALL else ())
    scores, seconds = {}, {}
    for name in rivals:
        found = run_method(name, graph, seed)
        scores[name], seconds[name] = f1_on_test(graph, found.logits), round(found.seconds, 1)
    for name, settings in (("without selection", {"training__selection": False}), ("gdpnet", {})):
        start = time.perf_counter()
        model = GDPNet(seed=seed, device="cpu", **settings).fit(graph)
        seconds[name] = round(time.perf_counter() - start, 1)
        scores[name] = f1_on_test(graph, torch.from_numpy(model.predict_proba(graph)))
    cleaned = model.denoise(graph)
    edges = link_metrics(graph, cleaned.keep_probability, cleaned.kept) | calibration(graph, cleaned)
    edges = {name: value for name, value in edges.items() if isinstance(value, float)}
    if cleaned.genuine_probability is not None:  # also of clean graphs, where it should be one
        edges["genuine_mean"] = float(cleaned.genuine_probability.mean())
    trained = model.trained_
    heads = {"weights": str(trained.weights), "threshold": cleaned.threshold, "reason": cleaned.reason}
    about = {
        "graph": cell.kind,
        "noise": cell.noise,
        "labels": cell.labels,
        "seed": seed,
        "nodes": cell.nodes,
    }
    return about | {
        "commit": commit(),
        "micro_f1": scores,
        "edges": edges,
        "heads": heads,
        "seconds": seconds,
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; none if there is no such file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def key_of(record: dict[str, Any]) -> tuple[str, str, str, int, int]:
    """Return what tells a record from others, as `Cell.key`."""
    return tuple(record[name] for name in ("graph", "noise", "labels", "seed", "nodes"))


def table(records: list[dict[str, Any]]) -> Iterator[str]:
    """Return the lines of a Markdown table: means over seeds, and the best of the other methods."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in records:
        groups.setdefault(key_of(one)[:3], []).append(one)
    header = (
        "graph",
        "noise",
        "labels",
        "seeds",
        "GDPNet",
        "without selection",
        "best of the others",
        "edges kept",
    )
    header += ("AUC of genuine probability", "calibration error")
    yield from ("| " + " | ".join(header) + " |", "|---" * len(header) + "|")
    for (kind, noise, labels), mine in groups.items():
        means = {name: 100 * np.mean([one["micro_f1"][name] for one in mine]) for name in mine[0]["micro_f1"]}
        best = max(set(means) - {"gdpnet", "without selection"}, key=lambda name: means[name])
        names = ("kept_share", "genuine_auc", "genuine_calibration_error")
        edges = [
            f"{np.mean([one['edges'][name] for one in mine]):.2f}" if name in mine[0]["edges"] else ""
            for name in names
        ]
        scores = f"{means['gdpnet']:.1f}", f"{means['without selection']:.1f}", f"{means[best]:.1f} ({best})"
        cells = (KINDS[kind].about, _NOISE_NAMES[noise], labels, str(len(mine)), *scores, *edges)
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run the cells that the file lacks, write a record of each, and print the means of all that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/kinds.jsonl"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--labels", default=",".join(LABELS))
    parser.add_argument("--nodes", type=int, default=900)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    asked = product(given.kinds.split(","), given.noises.split(","), given.labels.split(","), seeds)
    cells = [Cell(*one, given.nodes) for one in asked]
    done = {key_of(record) for record in read(given.out)}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for record in pool.map(run, [cell for cell in cells if cell.key not in done]):
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(*list(table([record]))[2:], flush=True)
    wanted = {cell.key for cell in cells}
    print(*table([record for record in read(given.out) if key_of(record) in wanted]), sep="\n")


if __name__ == "__main__":
    main()
