"""Cost against size: seconds per edge and peak memory of `denoise` in shards, on generated graphs that are mapped.

A model is trained on a small graph; every graph is generated and cleaned in a process of its own, and leaves a record
at once. The cost of an edge is in seconds of the CPU, all threads together, as other work on the machine shall not
count; on a GPU it is in seconds of the clock, from files to files. Beside it stands what the device must do at least
(`limits.py`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from limits import device_limits, least_work, shares
from memory import in_child
from records import make_parser, write_record

from gdpnet._core.files import atomic_path
from gdpnet._core.stopwatch import Stopwatch
from gdpnet.config import Config
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import open_store, write_store
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import denoise_to

MEAN_DEGREE = 20
LEAVES = 1_000_000
WARM_EDGES = 300_000
EPOCHS = ["training.warmup=5", "training.epochs=10"]
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "cost_against_size.png"


def generate(work: dict[str, Any]) -> None:
    """Generate one graph."""
    settings = GeneratedSettings(work["edges"] // MEAN_DEGREE, work["edges"], work["features"])
    generate_store(settings, work["seed"], work["store"])


def train(work: dict[str, Any]) -> None:
    """Train a model on a small graph."""
    config = Config().with_overrides(work["settings"])
    model = GDPNet.from_config(config, seed=work["seed"], device="cpu").fit(open_store(work["store"]))
    model.save(work["model"])


def learn(work: dict[str, Any]) -> dict[str, Any]:
    """Train one epoch of each kind, and choose the threshold and the heads."""
    config = Config().with_overrides(["training.warmup=1", "training.epochs=1"])
    model = GDPNet.from_config(config, seed=work["seed"], device=work["device"])
    return {"validation_f1": model.fit(open_store(work["store"])).validation_f1_}


def clean(work: dict[str, Any]) -> dict[str, Any]:
    """Decide on every edge of a graph, shard by shard, from its files to shards on the disk."""
    began = time.perf_counter()
    model = GDPNet.load(work["model"], device=work["device"])
    if (
        model.device_.type == "cuda"
    ):  # libraries and kernels are loaded before the clock runs; what that took is said
        with tempfile.TemporaryDirectory() as folder:
            denoise_to(model.trained_, open_store(work["warm"]), Path(folder) / "out", threshold=0.5)
        torch.cuda.reset_peak_memory_stats()
    start, stopwatch = time.perf_counter(), Stopwatch()
    graph = open_store(work["store"])
    stopwatch.mark("open", model.device_)
    said = denoise_to(model.trained_, graph, work["out"], threshold=0.5, all_edges=True, stopwatch=stopwatch)
    seconds = time.perf_counter() - start
    found = {"phases": stopwatch.seconds, "wall_seconds": seconds, "start_seconds": start - began}
    if model.device_.type == "cuda":
        found["gpu_peak_gib"] = torch.cuda.max_memory_allocated() / 1024**3
        found["gpu"] = torch.cuda.get_device_name()
    limits = device_limits(model.device_)
    # the share kept at one half stands for the share that an episode keeps
    least = least_work(
        graph.row_ptr,
        graph.num_features,
        graph.num_classes,
        model.config_,
        said["kept_share"],
        model.config_.inference.context_episodes,
    )
    kept = {name: said[name] for name in ("kept_share", "keep_auc")}
    return found | kept | {"limits": limits, **shares(least, limits, stopwatch.seconds, seconds)}


def clean_hub(work: dict[str, Any]) -> dict[str, Any]:
    """Decide on every edge of a star, in one episode each: a node with a million neighbours that have no other."""
    rng = np.random.default_rng(work["seed"])
    ends = np.stack([np.zeros(LEAVES, dtype=np.int64), np.arange(1, LEAVES + 1)])
    label = rng.integers(2, size=LEAVES + 1)
    features = (rng.normal(size=(LEAVES + 1, 16)) + label[:, None]).astype(np.float32)
    few = Graph.build(ends[:, :2000], features[:2001], label[:2001])
    config = Config().with_overrides(["training.warmup=1", "training.epochs=1", "inference.episodes=1"])
    model = GDPNet.from_config(config, seed=work["seed"], device=work["device"]).fit(few)
    write_store(Graph.build(ends, features, label), work["store"])
    return denoise_to(model.trained_, open_store(work["store"]), work["out"], threshold=0.5)


def measure(work: dict[str, Any], threads: int, limit: float | None) -> dict[str, Any]:
    """Generate one graph, unless it was kept, and clean it; return what each took."""
    generated = {"seconds": None, "peak_gib": None}
    if not work["store"].exists():
        generated = in_child(generate, work, threads, limit)
    try:
        cleaned = in_child(clean, work, threads, limit)
    finally:
        shutil.rmtree(work["out"], ignore_errors=True)
        if not work["keep"]:
            shutil.rmtree(work["store"])
    # on a GPU the clock counts, as it is the host that waits; else seconds of the CPU, as the machine is shared
    cost = cleaned["result"]["wall_seconds"] if work["device"] == "cuda" else cleaned["cpu_seconds"]
    return {
        "edges": work["edges"],
        "nodes": work["edges"] // MEAN_DEGREE,
        "features": work["features"],
        "device": work["device"],
        "generate_seconds": generated["seconds"],
        "generate_peak_gib": generated["peak_gib"],
        "denoise_seconds": cleaned["seconds"],
        "denoise_peak_gib": cleaned["peak_gib"],
        "denoise_cpu_seconds": cleaned["cpu_seconds"],
        "microseconds_an_edge": round(1e6 * cost / work["edges"], 3),
    } | cleaned["result"]


def measure_sizes(work: dict[str, Any], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Train a model, then measure one size after the other; each leaves its record at once, failed ones too."""
    config = Config().with_overrides(arguments.settings).to_dict()
    sizes = sorted(int(size) for size in arguments.edges)
    if not work["model"].exists():
        small = work | {"edges": int(arguments.train_edges or sizes[0]), "store": work["folder"] / "small"}
        in_child(generate, small, arguments.threads)
        trained = in_child(train, small, arguments.threads)
        print(f"trained on {small['edges']:,} edges in {trained['seconds']:.1f} s", flush=True)
    if arguments.device == "cuda" and not work["warm"].exists():
        warm = work | {"edges": WARM_EDGES, "store": work["warm"]}
        in_child(generate, warm, arguments.threads)
        warmed = in_child(clean, warm, arguments.threads, arguments.limit)  # compiles the kernels
        shutil.rmtree(work["out"], ignore_errors=True)
        print(f"kernels compiled in {warmed['result']['start_seconds']:.1f} s", flush=True)
    rows = []
    for edges in sizes:
        one = work | {"edges": edges, "store": work["folder"] / f"store-{edges}"}
        try:
            rows.append(measure(one, arguments.threads, arguments.limit))
        except (RuntimeError, TimeoutError) as error:
            write_record(arguments.results, "large_size", {"edges": edges, "failed": str(error)}, config)
            continue
        write_record(arguments.results, "large_size", rows[-1], config)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds per edge and peak memory against the number of edges."""
    from matplotlib.figure import Figure  # a machine that only measures need not have it

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    edges = [row["edges"] for row in rows]
    panels = [
        ("microseconds_an_edge", "microseconds per edge of denoise"),
        ("denoise_peak_gib", "peak memory of denoise, GiB"),
    ]
    for axes, (key, title) in zip(figure.subplots(1, 2), panels, strict=True):
        heights = [row[key] for row in rows]
        axes.plot(edges, heights, marker="o", color="tab:blue")
        axes.set(title=title, xlabel="directed edges", xscale="log", ylim=(0, 1.1 * max(heights)))
        axes.grid(alpha=0.3)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--edges", type=float, nargs="+", default=[1e5, 1e6, 1e7], help="sizes (default: 1e5 1e6 1e7)"
    )
    parser.add_argument("--features", type=int, default=128, help="width of a feature row (default: 128)")
    parser.add_argument("--device", default="cpu", help="where denoise computes (default: cpu)")
    parser.add_argument(
        "--work", type=Path, help="folder for the graphs (default: the system's temporary one)"
    )
    parser.add_argument("--picture", type=Path, default=PICTURE, help="picture to draw")
    parser.add_argument(
        "--model",
        type=Path,
        help="a model file (default: one trained here, and kept there if --keep is given)",
    )
    parser.add_argument("--train-edges", type=float, help="size to train on (default: the smallest one)")
    parser.add_argument(
        "--settings", nargs="*", default=EPOCHS, help="settings to train with, section.key=value"
    )
    parser.add_argument("--keep", type=Path, help="folder where graphs and the model stay for another run")
    parser.add_argument("--limit", type=float, help="most seconds of generating and of cleaning one graph")
    parser.add_argument(
        "what",
        nargs="?",
        default="sizes",
        choices=("sizes", "hub", "training"),
        help="denoise at every size (default), a hub of a million neighbours, or training at the smallest size",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        work: dict[str, Any] = {
            "features": arguments.features,
            "seed": arguments.seed,
            "device": arguments.device,
            "settings": arguments.settings,
            "folder": folder,
            "keep": arguments.keep is not None,
            "model": arguments.model or folder / "model.safetensors",
            "store": folder / "store",
            "warm": folder / "warm",
            "out": Path(temporary) / "out",
        }
        torch.set_num_threads(arguments.threads)
        if arguments.what == "hub":
            metrics = in_child(clean_hub, work, arguments.threads) | {"leaves": LEAVES}
            write_record(arguments.results, "large_hub", metrics, Config().to_dict())
            return
        if arguments.what == "training":
            work["edges"] = int(min(arguments.edges))
            in_child(generate, work, arguments.threads)
            metrics = in_child(learn, work, arguments.threads) | {"edges": work["edges"]}
            write_record(arguments.results, "large_training", metrics, Config().to_dict())
            return
        rows = measure_sizes(work, arguments)
    if not rows:
        sys.exit("no size was measured: see the records")
    costs = [row["microseconds_an_edge"] for row in rows]
    metrics = {"sizes": rows, "ratio": round(max(costs) / min(costs), 3), "device": arguments.device}
    write_record(arguments.results, "large", metrics, Config().with_overrides(arguments.settings).to_dict())
    draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
