"""Passes over blocks: CPU seconds against tables in memory, the gain of two workers, and the memory of a worker.

Each run is a process of its own. ``cost`` takes turns: tables of all nodes in memory, passes in one process, and
(with Ray) one worker and two workers. ``memory`` cleans graphs of N and 4 N nodes by passes over blocks of the same
size, and compares the peaks of anonymous memory: mapped files may be dropped at any time and do not count. ``hub``
cleans a graph in which one node has all others as neighbours, and embeds it; edges lead to the hub alone.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from memory import in_child
from records import make_parser, write_record

from gdpnet.config import Config
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import open_store, write_store
from gdpnet.estimator import GDPNet
from gdpnet.inference.engines.engine import Done, Engine, Needs
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.streaming import denoise_to, embed_to

COMMANDS = {"denoise": partial(denoise_to, threshold=0.5), "embed": embed_to}
MEAN_DEGREE = 20
TRAIN_EDGES = 20_000
EPOCHS = ["training.warmup=2", "training.epochs=4"]


def generate(work: dict[str, Any]) -> None:
    settings = GeneratedSettings(work["edges"] // MEAN_DEGREE, work["edges"], work["features"])
    generate_store(settings, work["seed"], work["store"])


def train(work: dict[str, Any]) -> None:
    config = Config().with_overrides([*EPOCHS, *work["settings"]])
    model = GDPNet.from_config(config, seed=work["seed"], device="cpu").fit(open_store(work["store"]))
    model.save(work["model"])


def star(work: dict[str, Any]) -> None:
    """Write a star whose edges lead to its centre, and train a model on a smaller one."""
    rng = np.random.default_rng(work["seed"])

    def drawn(leaves: int) -> Graph:
        ends = np.stack([np.arange(1, leaves + 1), np.zeros(leaves, dtype=np.int64)])
        label = rng.integers(2, size=leaves + 1)
        features = rng.normal(size=(leaves + 1, work["features"])) + label[:, None]
        return Graph.build(ends, features.astype(np.float32), label, directed=True)

    few = [*EPOCHS, "inference.episodes=1", *work["settings"]]
    config = Config().with_overrides(few)
    GDPNet.from_config(config, seed=work["seed"], device="cpu").fit(drawn(2000)).save(work["model"])
    write_store(drawn(work["edges"]), work["store"])


class Peak(threading.Thread):
    """The peak of this process's anonymous memory, looked at many times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.ends = 0, threading.Event()

    def run(self) -> None:
        while not self.ends.wait(0.02):
            lines = Path("/proc/self/status").read_text().splitlines()
            found = next(line for line in lines if line.startswith("RssAnon:"))
            self.peak = max(self.peak, int(found.split()[1]))


class Counting:
    """An engine that adds up what the tasks of each pass cost, in seconds of the CPU."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.passes = engine, Counter[str]()

    def check(self, needs: Needs) -> None:
        self.engine.check(needs)

    def run(self, folder: Path, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        for done in self.engine.run(folder, name, numbers):
            self.passes[name] += done.cpu_seconds
            yield done


def descendants_cpu() -> float:
    """Return the seconds of the CPU of the processes that this one has started, and those that they have."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = int(path.parent.name), path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[number], ticks[number] = int(rest[1]), sum(map(int, rest[11:15]))
    found, family = 0, {os.getpid()}
    while family:
        family = {number for number, parent in parents.items() if parent in family}
        found += sum(ticks[number] for number in family)
    return found / os.sysconf("SC_CLK_TCK")


def engine_of(name: str) -> AbstractContextManager[Engine | None]:
    if name in ("memory", "blocks"):
        return nullcontext(OneProcess() if name == "blocks" else None)
    from gdpnet.inference.engines.on_ray import OnRay

    return OnRay(workers=int(name.removeprefix("ray-")))


def clean(work: dict[str, Any]) -> dict[str, Any]:
    """Clean a graph; return seconds of the clock and of the CPU, and the peak of memory.

    ``tasks_cpu`` is that of all tasks, wherever they run; ``cpu`` that of this process; ``children_cpu`` that of all
    processes of Ray, from their start until the shards are written.
    """
    peak = Peak()
    peak.start()
    model, graph = GDPNet.load(work["model"], device="cpu"), open_store(work["store"])
    with engine_of(work["engine"]) as engine:
        counting = None if engine is None else Counting(engine)
        seconds, cpu = time.perf_counter(), time.process_time()
        options = {"edges_per_shard": work["block"], "engine": counting}
        said = COMMANDS[work["command"]](model.trained_, graph, work["out"], **options)
        seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
        children = descendants_cpu()
    peak.ends.set()
    found = {"seconds": seconds, "cpu": cpu, "children_cpu": children, "anonymous_gib": peak.peak / 1024**2}
    passes = {} if counting is None else dict(counting.passes)
    return found | {"kept": said.get("kept"), "tasks_cpu": sum(passes.values()) or cpu, "passes_cpu": passes}


def run(work: dict[str, Any], engine: str) -> dict[str, Any]:
    given = work | {"engine": engine}
    try:
        found = in_child(clean, given, work["threads"])
    finally:
        shutil.rmtree(work["out"], ignore_errors=True)
    return {"cpu_seconds": found["cpu_seconds"]} | found["result"]


def cost(work: dict[str, Any], turns: int, engines: list[str]) -> dict[str, Any]:
    in_child(generate, work, work["threads"])
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
    for turn in range(turns):
        for engine in engines:
            runs[engine].append(run(work, engine))
            print(turn, engine, runs[engine][-1], flush=True)
    ratios = {
        engine: {
            "tasks_cpu_ratio": ratio_of([one["tasks_cpu"] for one in found], runs["memory"]),
            "all_cpu_ratio": ratio_of([one["cpu"] + one["children_cpu"] for one in found], runs["memory"]),
        }
        for engine, found in runs.items()
    }
    return {"edges": work["edges"], "block": work["block"], "runs": runs, "ratios": ratios}


def ratio_of(cpu: list[float], today: list[dict[str, Any]]) -> float:
    """Return the median over turns of the CPU seconds against those with tables in memory."""
    return statistics.median(one / other["cpu"] for one, other in zip(cpu, today, strict=True))


def memory(work: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for times in (1, 4):
        size = work | {"edges": work["edges"] * times}
        in_child(generate, size, work["threads"])
        found[f"nodes_{size['edges'] // MEAN_DEGREE}"] = run(size, "blocks")
        print(times, found, flush=True)
        shutil.rmtree(work["store"])
    first, second = (one["anonymous_gib"] for one in found.values())
    return {"edges": work["edges"], "block": work["block"], "runs": found, "ratio": second / first}


def hub(work: dict[str, Any]) -> dict[str, Any]:
    in_child(star, work, work["threads"])
    runs = {}
    for command in COMMANDS:
        runs[command] = run(work | {"command": command}, "blocks")
        print(command, runs, flush=True)
    return {"neighbours": work["edges"], "features": work["features"], "runs": runs}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("what", choices=["cost", "memory", "hub"])
    parser.add_argument("--edges", type=float, default=1e6)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--block", type=int, default=1 << 16, help="edges of a block (default: 65,536)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--engines", nargs="+", default=None, help="memory, blocks, ray-1, ray-2")
    parser.add_argument("--set", dest="settings", action="append", default=[], help="a setting of the model")
    arguments = parser.parse_args()
    engines = arguments.engines or ["memory", "blocks"]
    if arguments.engines is None and importlib.util.find_spec("ray") is not None:
        engines += ["ray-1", "ray-2"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = vars(arguments) | {"store": folder / "store", "model": folder / "model.safetensors"}
        work |= {"out": folder / "out", "edges": int(arguments.edges)}
        work["command"] = "denoise"
        small = work | {"store": folder / "small", "edges": TRAIN_EDGES}
        if arguments.what != "hub":
            in_child(generate, small, arguments.threads)
            in_child(train, small, arguments.threads)
        if arguments.what == "cost":
            found = cost(work, arguments.turns, engines)
        else:
            found = {"memory": memory, "hub": hub}[arguments.what](work)
    config = Config().with_overrides(arguments.settings).to_dict()
    write_record(arguments.results, f"blocks_{arguments.what}", found, config)


if __name__ == "__main__":
    main()
