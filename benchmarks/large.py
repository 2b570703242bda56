"""Cost against size: seconds an edge and peak memory of `denoise` in shards, on generated graphs that are mapped.

A model is trained on the smallest graph; every graph is generated and cleaned in a process of its own. The cost of an
edge is in seconds of the CPU, all threads together: other work on the machine does not count.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from memory import in_child
from records import make_parser, write_record

from gdpnet.atomic import atomic_path
from gdpnet.config import Config
from gdpnet.graph.generated import GeneratedSettings, generate_store
from gdpnet.graph.graph import Graph
from gdpnet.graph.mapped import open_store
from gdpnet.graph.store import write_store
from gdpnet.model import GDPNet
from gdpnet.streaming import denoise_to

matplotlib.use("Agg")

MEAN_DEGREE = 20
LEAVES = 1_000_000
EPOCHS = ["training.warmup=5", "training.epochs=10"]
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "cost_against_size.png"


def generate(work: dict[str, Any]) -> None:
    """Generate one graph."""
    settings = GeneratedSettings(work["edges"] // MEAN_DEGREE, work["edges"], work["features"])
    generate_store(settings, work["seed"], work["store"])


def train(work: dict[str, Any]) -> None:
    """Train a model on the smallest graph."""
    config = Config().with_overrides(EPOCHS)
    model = GDPNet.from_config(config, seed=work["seed"], device="cpu").fit(open_store(work["store"]))
    model.save(work["model"])


def learn(work: dict[str, Any]) -> dict[str, Any]:
    """Train one epoch of each kind, and choose the threshold and the reader."""
    config = Config().with_overrides(["training.warmup=1", "training.epochs=1"])
    model = GDPNet.from_config(config, seed=work["seed"], device=work["device"])
    return {"validation_f1": model.fit(open_store(work["store"])).validation_f1_}


def clean(work: dict[str, Any]) -> dict[str, Any]:
    """Decide on every edge of a graph, shard by shard."""
    model, graph = GDPNet.load(work["model"], device=work["device"]), open_store(work["store"])
    return denoise_to(model, graph, work["out"], threshold=0.5, all_edges=True)


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
    return denoise_to(model, open_store(work["store"]), work["out"], threshold=0.5)


def measure(work: dict[str, Any], threads: int) -> dict[str, Any]:
    """Generate one graph and clean it; return what each took."""
    generated = in_child(generate, work, threads)
    if not work["model"].exists():
        in_child(train, work, threads)
    cleaned = in_child(clean, work, threads)
    for folder in (work["store"], work["out"]):
        shutil.rmtree(folder)
    return {
        "edges": work["edges"],
        "nodes": work["edges"] // MEAN_DEGREE,
        "features": work["features"],
        "generate_seconds": generated["seconds"],
        "generate_peak_gib": generated["peak_gib"],
        "denoise_seconds": cleaned["seconds"],
        "denoise_peak_gib": cleaned["peak_gib"],
        "denoise_cpu_seconds": cleaned["cpu_seconds"],
        "microseconds_an_edge": round(1e6 * cleaned["cpu_seconds"] / work["edges"], 2),
    } | {name: cleaned["result"][name] for name in ("kept_share", "keep_auc")}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds an edge and peak memory against the number of edges."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    edges = [row["edges"] for row in rows]
    panels = [
        ("microseconds_an_edge", "CPU microseconds an edge of denoise"),
        ("denoise_peak_gib", "peak memory of denoise, GiB"),
    ]
    for axes, (key, title) in zip(figure.subplots(1, 2), panels, strict=True):
        axes.plot(edges, [row[key] for row in rows], marker="o", color="tab:blue")
        axes.set(title=title, xlabel="directed edges", xscale="log", ylim=(0, None))
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
        "--model", type=Path, help="a model file (default: one trained on the smallest graph)"
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="sizes",
        choices=("sizes", "hub", "training"),
        help="denoise at every size (default), a hub of a million neighbours, or training at the smallest size",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        work: dict[str, Any] = {
            "features": arguments.features,
            "seed": arguments.seed,
            "device": arguments.device,
            "model": arguments.model or Path(folder) / "model.safetensors",
            "store": Path(folder) / "store",
            "out": Path(folder) / "out",
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
        rows = []
        for edges in sorted(int(size) for size in arguments.edges):
            rows.append(measure(work | {"edges": edges}, arguments.threads))
            print(rows[-1], flush=True)
    costs = [row["microseconds_an_edge"] for row in rows]
    metrics = {"sizes": rows, "ratio": round(max(costs) / min(costs), 3), "device": arguments.device}
    write_record(arguments.results, "large", metrics, Config().with_overrides(EPOCHS).to_dict())
    draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
