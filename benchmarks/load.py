"""Load: graphs with one very large dimension, trained on and cleaned; peak memory and seconds of each.

Each graph has a process of its own, with a bound on its memory and time, and leaves a record at once. A graph that
takes more than its bound fails the benchmark.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from memory import in_child
from records import make_parser, write_record

from gdpnet.config import Config
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet

EPOCHS = ["training.warmup=2", "training.epochs=3"]
GIB = 1 << 30


def million_edges(rng: np.random.Generator) -> Graph:
    """Return a graph of 50,000 nodes and about a million directed edges, four in five within a class."""
    nodes, pairs = 50_000, 500_000
    label = rng.integers(8, size=nodes)
    by_class = np.argsort(label, kind="stable")
    source = rng.integers(nodes, size=pairs)
    starts, sizes = np.searchsorted(label[by_class], np.arange(8)), np.bincount(label)
    alike = by_class[starts[label[source]] + (rng.random(pairs) * sizes[label[source]]).astype(int)]
    target = np.where(rng.random(pairs) < 0.8, alike, rng.integers(nodes, size=pairs))
    return _graph(rng, np.stack([source, target]), label, _dense(rng, label, 32))


def hub(rng: np.random.Generator) -> Graph:
    """Return a star of a million leaves."""
    leaves = 1_000_000
    label = rng.integers(2, size=leaves + 1)
    edges = np.stack([np.zeros(leaves, dtype=np.int64), np.arange(1, leaves + 1)])
    return _graph(rng, edges, label, _dense(rng, label, 16))


def isolated(rng: np.random.Generator) -> Graph:
    """Return a graph of 102,000 nodes, of which 100,000 have no edge."""
    nodes, linked = 102_000, 2_000
    label = rng.integers(4, size=nodes)
    return _graph(rng, rng.integers(linked, size=(2, 8_000)), label, _dense(rng, label, 32))


def many_classes(rng: np.random.Generator) -> Graph:
    """Return a graph of 20,000 nodes in 2,000 classes, with edges mostly between nodes of one class."""
    nodes, classes = 20_000, 2_000
    label = np.arange(nodes) % classes
    source = rng.integers(nodes, size=60_000)
    alike = label[source] + classes * rng.integers(nodes // classes, size=source.size)
    target = np.where(rng.random(source.size) < 0.8, alike, rng.integers(nodes, size=source.size))
    return _graph(rng, np.stack([source, target]), label, _dense(rng, label, 64))


def many_columns(rng: np.random.Generator) -> Graph:
    """Return a graph of 5,000 nodes with 30 words each out of 50,000."""
    nodes, words, width = 5_000, 30, 50_000
    label = rng.integers(6, size=nodes)
    topic = (label[:, None] * 500 + rng.integers(500, size=(nodes, words // 3))) % width
    other = rng.integers(width, size=(nodes, words - words // 3))
    column = np.concatenate([topic, other], axis=1).ravel()
    row = np.repeat(np.arange(nodes), words)
    features = sp.csr_matrix((np.ones(row.size, dtype=np.float32), (row, column)), shape=(nodes, width))
    return _graph(rng, rng.integers(nodes, size=(2, 15_000)), label, features)


def _dense(rng: np.random.Generator, label: np.ndarray, width: int) -> np.ndarray:
    centre = rng.normal(size=(int(label.max()) + 1, width))
    return (rng.normal(size=(label.size, width)) + centre[label]).astype(np.float32)


def _graph(rng: np.random.Generator, edges: np.ndarray, label: np.ndarray, features: Any) -> Graph:
    split = rng.choice([1, 2, 3], size=label.size, p=[0.6, 0.2, 0.2])
    return Graph.build(edges, features, label, split=split)


CASES: dict[str, tuple[Callable[[np.random.Generator], Graph], float, float]] = {
    "edges": (million_edges, 6.0, 1200.0),
    "hub": (hub, 8.0, 1800.0),
    "isolated": (isolated, 3.0, 600.0),
    "classes": (many_classes, 6.0, 1200.0),
    "columns": (many_columns, 4.0, 600.0),
}
"""Graphs by name, with the memory in GiB and the CPU seconds, all threads together, that each may take."""

_PATIENCE = 4
"""Seconds of the clock per CPU second that are allowed, as other work on the machine shall not count."""


def train_and_clean(work: dict[str, Any]) -> dict[str, Any]:
    """Make a graph, train on it and decide on all of its edges; return its size and the seconds of both."""
    limit = (
        int(2 * CASES[work["case"]][1] * GIB) + 4 * GIB
    )  # of addresses, so that a mistake cannot take the machine
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    graph = CASES[work["case"]][0](np.random.default_rng(work["seed"]))
    start = time.perf_counter()
    model = GDPNet.from_config(Config().with_overrides(EPOCHS), seed=work["seed"], device="cpu").fit(graph)
    fitted = time.perf_counter()
    kept = model.denoise(graph)
    cleaned = time.perf_counter()
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "fit_seconds": round(fitted - start, 1),
        "denoise_seconds": round(cleaned - fitted, 1),
        "kept_share": round(kept.graph.num_edges / max(1, graph.num_edges), 4),
        "validation_f1": round(model.validation_f1_, 4),
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="graphs to load (default: all)")
    arguments = parser.parse_args()
    beyond = []
    for name in arguments.cases or CASES:
        _, memory, seconds = CASES[name]
        metrics: dict[str, Any] = {"case": name, "most_gib": memory, "most_cpu_seconds": seconds}
        try:
            work = {"case": name, "seed": arguments.seed}
            found = in_child(train_and_clean, work, arguments.threads, _PATIENCE * seconds)
            metrics |= {key: value for key, value in found.items() if key != "result"} | found["result"]
            beyond += [name] if found["peak_gib"] > memory or found["cpu_seconds"] > seconds else []
        except (RuntimeError, TimeoutError) as error:
            metrics["failed"] = str(error)
            beyond.append(name)
        write_record(arguments.results, "load", metrics, Config().with_overrides(EPOCHS).to_dict())
    if beyond:
        sys.exit(f"beyond their bound: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
