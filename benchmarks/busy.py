"""How busy a GPU is during a training epoch of GDPNet on PubMed: launches, synchronisations, and kernel time.

Epochs are whole ones of `train_epochs`, with validation and the injected-edge AUC. They are timed without the
profiler first, and then profiled, which slows the host but not the kernels: `busy` is the time in which a kernel or a
copy ran, overlaps counted once, over the seconds of an epoch without the profiler.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from records import make_parser, write_record
from torch.profiler import ProfilerActivity, profile

from gdpnet._core.random import Key
from gdpnet.config import shipped_config
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.training.data import make_training_data
from gdpnet.training.state import begin_training
from gdpnet.training.trainer import train_epochs

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", default="pubmed", help="dataset (default: pubmed)")
    parser.add_argument("--warm", type=int, default=6, help="epochs before any is measured (default: 6)")
    parser.add_argument("--repeats", type=int, default=10, help="epochs that are timed (default: 10)")
    parser.add_argument("--profiled", type=int, default=3, help="epochs that are profiled (default: 3)")
    parser.add_argument("--trace", type=Path, help="keep the profiler's trace in this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device("cuda")
    graph = load_dataset(arguments.dataset, arguments.data_dir, download=False)
    config = shipped_config(arguments.dataset).with_overrides(["training.warmup=2", "training.patience=1000"])
    data = make_training_data(graph, config, arguments.seed, device)
    key = Key.of(arguments.seed)
    state = begin_training(data, graph.num_classes, config, key, device)

    def epoch() -> None:
        state.best_epoch = state.epoch
        epochs = max(1, state.epoch - config.training.warmup + 1)
        train_epochs(state, data, config.with_overrides([f"training.epochs={epochs}"]), key)
        torch.cuda.synchronize()

    for _ in range(arguments.warm):
        epoch()
    seconds = [_seconds(epoch) for _ in range(arguments.repeats)]
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.trace or Path(folder) / "trace.json"
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            profiled = [_seconds(epoch) for _ in range(arguments.profiled)]
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    metrics = {
        "seconds": statistics.median(seconds),
        "profiled_seconds": statistics.median(profiled),
        **per_epoch(events, arguments.profiled, statistics.median(seconds)),
        "dataset": arguments.dataset,
        "device": torch.cuda.get_device_name(),
    }
    write_record(arguments.results, "busy", metrics, config.to_dict())


def per_epoch(events: Iterable[dict[str, Any]], epochs: int, seconds: float) -> dict[str, Any]:
    """Return the counts and shares of one epoch from the events of a trace."""
    events = list(events)
    calls = Counter(event["name"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver"))
    ran = [event for event in events if event.get("cat") in ON_DEVICE]
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in ran]
    copies = Counter(event["name"].split(" (")[0] for event in ran if event["cat"] == "gpu_memcpy")
    union, total = _union(spans) / 1e6 / epochs, sum(end - begin for begin, end in spans) / 1e6 / epochs
    named = {name: count for name, count in calls.items() if name.startswith(LAUNCHES)}
    return {
        "launches": sum(named.values()) / epochs,
        "launches_by_call": {name: count / epochs for name, count in sorted(named.items())},
        "kernels": sum(event["cat"] == "kernel" for event in ran) / epochs,
        "busy": union / seconds,
        "busy_seconds": union,
        "kernel_seconds": total,
        # the epoch of this script waits once more, after its end
        "waits": sum(count for name, count in calls.items() if name in WAITS) / epochs - 1,
        "waits_by_call": {name: count / epochs for name, count in sorted(calls.items()) if name in WAITS},
        "copies_to_host": copies["Memcpy DtoH"] / epochs,
    }


def _union(spans: list[tuple[float, float]]) -> float:
    """Return the total length of some intervals, overlaps counted once."""
    covered, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def _seconds(job: Callable[[], None]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
