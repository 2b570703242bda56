"""A graph without features: clean it in shards, from its links alone, with a model trained on a smaller one.

Rows made of links mean the same on every graph, so that the model need not have seen this one. Graphs are generated
and mapped; training (one epoch of each kind), cleaning and the rows of all nodes are each measured in a process of
their own. `--train-nodes` as large as `--nodes` trains at full size.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from memory import in_child
from records import make_parser, write_record

from gdpnet.config import Config
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.io.store import open_store
from gdpnet.data.structural_features import structural_rows
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import denoise_to

SETTINGS = [
    "training.warmup=1",
    "training.epochs=1",
    "inference.episodes=2",
    "features.missing=structural",
]


def generate(work: dict[str, Any]) -> None:
    """Generate the graph."""
    generate_store(GeneratedSettings(work["nodes"], work["edges"], 0), work["seed"], work["store"])


def describe(work: dict[str, Any]) -> None:
    """Make the rows of all nodes."""
    structural_rows(open_store(work["store"]))


def learn(work: dict[str, Any]) -> dict[str, Any]:
    """Train one epoch of each kind, and choose the threshold and the heads."""
    config = Config().with_overrides(SETTINGS)
    model = GDPNet.from_config(config, seed=work["seed"], device=work["device"])
    model.fit(open_store(work["store"])).save(work["model"])
    return {"validation_f1": model.validation_f1_}


def clean(work: dict[str, Any]) -> dict[str, Any]:
    """Decide on every edge, shard by shard."""
    model, graph = GDPNet.load(work["model"], device=work["device"]), open_store(work["store"])
    return denoise_to(model.trained_, graph, work["out"], threshold=0.5)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=float, default=1e6, help="number of nodes (default: 1e6)")
    parser.add_argument("--edges", type=float, default=5e6, help="directed edges (default: 5e6)")
    parser.add_argument(
        "--train-nodes", type=float, default=5e4, help="nodes of the smaller graph (default: 5e4)"
    )
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    parser.add_argument(
        "--work", type=Path, help="folder for the graph (default: the system's temporary one)"
    )
    arguments = parser.parse_args()
    metrics: dict[str, Any] = {"nodes": int(arguments.nodes), "edges": int(arguments.edges)}
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        work: dict[str, Any] = {
            "nodes": metrics["nodes"],
            "edges": metrics["edges"],
            "seed": arguments.seed,
            "device": arguments.device,
            "model": Path(folder) / "model.safetensors",
            "store": Path(folder) / "store",
            "out": Path(folder) / "out",
        }
        share = int(arguments.train_nodes) / metrics["nodes"]
        small = work | {"nodes": int(arguments.train_nodes), "edges": int(share * metrics["edges"])}
        small |= {"store": Path(folder) / "small", "seed": arguments.seed + 1}
        in_child(generate, small, arguments.threads)
        metrics["train_nodes"] = small["nodes"]
        for job, on in ((generate, work), (describe, work), (learn, small), (clean, work)):
            metrics[job.__name__] = in_child(job, on, arguments.threads)
            print(job.__name__, metrics[job.__name__], flush=True)
    metrics["device"] = arguments.device
    write_record(arguments.results, "featureless", metrics, Config().with_overrides(SETTINGS).to_dict())


if __name__ == "__main__":
    main()
