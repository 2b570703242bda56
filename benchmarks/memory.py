"""Peak resident memory: training on PubMed, and a hub of 100,000 neighbours; each in a process of its own."""

from __future__ import annotations

import multiprocessing
import queue
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import make_parser, write_record

from gdpnet.config import Config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.estimator import GDPNet

LEAVES = 100_000
EPOCHS = ["training.warmup=2", "training.epochs=3"]
JOBS = ("pubmed", "hub_dense", "hub_one_hot")


def train_on_pubmed(data_dir: Path | None) -> None:
    """Train for five epochs, three of them with selection, and predict all nodes."""
    graph = load_dataset("pubmed", data_dir, download=False)
    GDPNet.from_config(Config().with_overrides(EPOCHS), device="cpu").fit(graph).predict(graph)


def train_on_hub(features: str) -> None:
    """Train one epoch of each kind on a star, and decide on all of its edges."""
    rng = np.random.default_rng(0)
    nodes = LEAVES + 1
    edges = np.stack([np.zeros(LEAVES, dtype=np.int64), np.arange(1, nodes)])
    label = rng.integers(3, size=nodes)
    dense = (rng.normal(size=(nodes, 32)) + label[:, None]).astype(np.float32)
    split = rng.choice([1, 2, 3], size=nodes, p=[0.6, 0.2, 0.2])
    split[0] = 1
    table = SparseRows.identity(nodes) if features == "one-hot" else dense
    graph = Graph.build(edges, table, label, split=split)
    narrow = ["representation.width=16"] if features == "one-hot" else []
    config = Config().with_overrides(["training.warmup=1", "training.epochs=1", *narrow])
    GDPNet.from_config(config, device="cpu").fit(graph).denoise(graph)


def _measured(
    job: Callable[..., object], argument: object, threads: int, answer: multiprocessing.Queue
) -> None:  # type: ignore[type-arg]
    torch.set_num_threads(threads)
    start, busy = time.perf_counter(), time.process_time()
    result = job(argument)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    found = {"peak_gib": peak, "seconds": seconds, "cpu_seconds": busy}
    answer.put({name: round(value, 3) for name, value in found.items()} | {"result": result})


def in_child(
    job: Callable[..., object], argument: object, threads: int, limit: float | None = None
) -> dict[str, Any]:
    """Run a job in a fresh process and return its peak memory, seconds of the clock and of the CPU, and result.

    A job that fails, or that takes longer than the limit in seconds, raises an error here.
    """
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    child = context.Process(target=_measured, args=(job, argument, threads, answer))
    child.start()
    start = time.perf_counter()
    while True:
        try:
            result: dict[str, Any] = answer.get(timeout=1)
            break
        except queue.Empty:
            if not child.is_alive():
                raise RuntimeError(f"{job.__name__} ended with status {child.exitcode}") from None
            if limit is not None and time.perf_counter() - start > limit:
                child.kill()
                raise TimeoutError(f"{job.__name__} took more than {limit:g} seconds") from None
    child.join()
    return result


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", choices=JOBS, help="measure one of them (default: all)")
    arguments = parser.parse_args()
    jobs: dict[str, tuple[Callable[..., None], object]] = {
        "pubmed": (train_on_pubmed, arguments.data_dir),
        "hub_dense": (train_on_hub, "dense"),
        "hub_one_hot": (train_on_hub, "one-hot"),
    }
    metrics = {}
    for name in JOBS if arguments.only is None else (arguments.only,):
        job, argument = jobs[name]
        found = in_child(job, argument, arguments.threads)
        metrics[name] = {key: found[key] for key in ("peak_gib", "seconds")}
    write_record(arguments.results, "memory", metrics, Config().to_dict())


if __name__ == "__main__":
    main()
