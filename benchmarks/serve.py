"""The server: latency of one unseen node, nodes per second, a store of 10^7 edges, equal bits, and many clients.

A model is fitted on PubMed with all heads and the settings as shipped. Some nodes are taken out of the graph that is
served, and asked about as new nodes with their own edges. The server is a process of its own; all requests go to
127.0.0.1. The large store has copies of the small one side by side, so that both have the same neighbourhoods and
only the size differs. With --gcn the model gets a GCN head with a weight and a threshold whatever its fit found: it
reads the farthest, and its weights as drawn take as long as fitted ones.

--parts names what is measured, so that it can be spread over several runs; `seconds` in the record says how long each
part took.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import make_parser, write_record
from server_process import Server, ask, serving
from server_questions import answer_of_command, numbers_of, random_questions, request_of
from server_soak import CLIENTS, soak

from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import index_type, new_store, open_store, write_store
from gdpnet.estimator import GDPNet
from gdpnet.inference.local import LocalPredictor
from gdpnet.inference.threshold import KEEP_ALL, Choice
from gdpnet.representation.gcn import GCN
from gdpnet.web.server.answers import ANSWERS
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.payload import Question
from gdpnet.web.server.questions import read_question
from gdpnet.web.server.served import Served

UNSEEN = 300
LONGEST = 600.0
"""Seconds that an answer may take whose bits are compared; many clients wait for it."""

PARTS = ("one", "batches", "bits", "large", "soak")


def latencies(server: Server, bodies: list[dict[str, Any]]) -> dict[str, float]:
    """Return percentiles of the time of one question after the other, in milliseconds."""
    connection, seconds, before = server.connect(), [], server.cpu_seconds()
    for body in bodies[:10] + bodies:
        start = time.perf_counter()
        status, answer = ask(connection, "predict", body)
        seconds.append(time.perf_counter() - start)
        assert status == 200, answer
    taken = np.array(seconds[len(bodies[:10]) :]) * 1e3  # without the warm-up
    return {f"p{share}_ms": round(float(np.percentile(taken, share)), 2) for share in (50, 90, 99)} | {
        "cpu_ms": round(1e3 * (server.cpu_seconds() - before) / len(seconds), 2)
    }


def throughput(server: Server, bodies: list[dict[str, Any]]) -> dict[str, float]:
    """Return nodes per second, of the clock and of the processor, over requests of many nodes by two clients."""
    waiting, lock = list(bodies), threading.Lock()

    def client() -> None:
        connection = server.connect()
        while True:
            with lock:
                if not waiting:
                    return
                body = waiting.pop()
            status, answer = ask(connection, "predict", body)
            assert status == 200, answer

    threads = [threading.Thread(target=client) for _ in range(2)]
    start, before = time.perf_counter(), server.cpu_seconds()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    count, clock = sum(len(body["targets"]) for body in bodies), time.perf_counter() - start
    return {
        "per_second": round(count / clock, 1),
        "per_cpu_second": round(count / (server.cpu_seconds() - before), 1),
    }


def compare_bits(
    server: Server, served: Served, run: Path, base: Path, whole: Graph, asked: list[Any], commands: int
) -> dict[str, int]:
    """Ask with many clients at once; compare every answer with what is computed alone, without stored decisions.

    Some are compared with what the command writes.
    """
    answers: list[Any] = [None] * len(asked)

    def client(first: int) -> None:
        connection = server.connect(LONGEST)
        for place in range(first, len(asked), CLIENTS):
            status, answers[place] = ask(connection, *asked[place])
            assert status == 200, answers[place]

    threads = [threading.Thread(target=client, args=(first,)) for first in range(CLIENTS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    different = 0
    for (question, body), answer in zip(asked, answers, strict=True):
        found = read_question(Question.model_validate(body), served, Limits())
        rows = ANSWERS[question](LocalPredictor(served.model, found.graph), found.targets, None)
        want = [{"node_id": name} | row for name, row in zip(found.ids, rows, strict=True)]
        different += json.dumps(want) != json.dumps(answer["results"])
    told = [place for place, (question, _) in enumerate(asked) if question in ("predict", "embed")][:commands]
    by_command = sum(
        answer_of_command(run, base, whole, *asked[place]) != numbers_of(answers[place]) for place in told
    )
    return {
        "requests": len(asked),
        "different": different,
        "commands": len(told),
        "different_commands": by_command,
    }


def write_copies(graph: Graph, copies: int, folder: Path) -> None:
    """Write a store of several copies of a graph side by side, one copy in memory at a time."""
    features, nodes = graph.features, graph.num_nodes
    assert isinstance(features, SparseRows)
    values = features.column.numel()
    with new_store(folder, graph.class_names, features.width) as store:
        for name, row_ptr, step in (("row_ptr", graph.row_ptr, graph.num_edges),
                                    ("feature_row_ptr", features.row_ptr, values)):  # fmt: skip
            with store.array(name, np.int64, (copies * nodes + 1,)) as append:
                append(np.zeros(1, dtype=np.int64))
                for copy in range(copies):
                    append(row_ptr[1:].numpy() + copy * step)
        with store.array("neighbour", index_type(copies * nodes), (copies * graph.num_edges,)) as append:
            for copy in range(copies):
                append(graph.neighbour.numpy() + copy * nodes)
        for name, kind, array in (("feature_column", np.int32, features.column),
                                  ("feature_value", np.float32, features.value),
                                  ("labels", np.int64, graph.labels), ("split", np.int8, graph.split)):  # fmt: skip
            with store.array(name, kind, (copies * array.numel(),)) as append:
                for _ in range(copies):
                    append(array.numpy())


def fit(graph: Graph, folder: Path, seed: int) -> None:
    """Fit a model and save it as a run folder."""
    folder.mkdir(parents=True)
    GDPNet(seed=seed, device="cpu").fit(graph).save(folder / "model.safetensors")


def give_gcn(run: Path, folder: Path, seed: int) -> None:
    """Save a model with a GCN head that reads the cleaned graph, and weights half of what is predicted."""
    model = GDPNet.load(run, device="cpu").trained_
    sizes = model.columns.width, model.config.representation.width, len(model.classes)
    model.networks.gcn = GCN(*sizes, layers=model.config.gcn.layers)
    model.networks.gcn.initialise(torch.Generator().manual_seed(seed))
    weights, threshold = model.weights.with_gcn(0.5), model.threshold
    if threshold.threshold == KEEP_ALL:
        threshold = Choice(0.5)
    folder.mkdir(parents=True)
    replace(model, weights=weights, threshold=threshold).save(folder / "model.safetensors")


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--run", type=Path, help="run folder to serve; if it is not there, the fitted model is saved in it"
    )
    parser.add_argument(
        "--gcn", action="store_true", help="serve the model with a GCN head that reads the cleaned graph"
    )
    parser.add_argument(
        "--requests", type=int, default=1000, help="random requests to compare (default: 1000)"
    )
    parser.add_argument(
        "--commands",
        type=int,
        default=100,
        help="of those that predict or embed, by the command itself (default: 100)",
    )
    parser.add_argument("--unseen", type=int, default=UNSEEN, help="unseen nodes to time (default: 300)")
    parser.add_argument("--batches", type=int, default=20, help="requests of 64 nodes to time (default: 20)")
    parser.add_argument(
        "--copies", type=int, default=116, help="copies of PubMed in the large store (default: 116)"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: everything)"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of many clients (default: 10)")
    parser.add_argument("--seconds", type=float, default=30.0, help="limit of a request (default: 30)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    whole = load_dataset("pubmed", options.data_dir)
    rng = np.random.default_rng(options.seed)
    unseen = sorted(rng.choice(whole.num_nodes, size=max(UNSEEN, options.unseen), replace=False).tolist())
    kept = torch.from_numpy(np.setdiff1d(np.arange(whole.num_nodes), unseen))
    graph = whole.induced(kept)
    graph = Graph(**{**vars(graph), "node_ids": np.arange(graph.num_nodes)})
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        run = options.run or base / "run"
        if not run.exists():
            fit(graph, run, options.seed)
        if options.gcn:
            give_gcn(run, base / "gcn", options.seed)
            run = base / "gcn"
        write_store(graph, base / "store")
        names = {node: str(place) for place, node in enumerate(kept.tolist())}
        metrics = measure(options, whole, unseen, names, run, base, graph)
    config = {"seed": options.seed, "gcn": options.gcn, "seconds": options.seconds}
    config |= {"load_average": os.getloadavg()[1]}
    write_record(options.results, "serve", metrics, config)


def measure(
    options: Any, whole: Graph, unseen: list[int], names: dict[int, str], run: Path, base: Path, graph: Graph
) -> dict[str, Any]:
    """Return all measurements."""
    one = [request_of(whole, [node], names) for node in unseen[: options.unseen]]
    rng = np.random.default_rng(options.seed)
    many = [
        request_of(whole, rng.choice(unseen, size=64, replace=False).tolist(), names)
        for _ in range(options.batches)
    ]
    asked = random_questions(whole, unseen, names, options.requests, options.seed)
    served = Served(GDPNet.load(run, device="cpu").trained_, open_store(base / "store"))
    metrics: dict[str, Any] = {name: served.about[name] for name in ("heads", "hops")}
    seconds = metrics["seconds"] = {}

    def part(name: str, run_part: Callable[[], Any]) -> None:
        if name in options.parts:
            start = time.perf_counter()
            metrics[name] = run_part()
            seconds[name] = round(time.perf_counter() - start, 1)

    def compare(server: Server) -> dict[str, int]:
        return compare_bits(server, served, run, base, whole, asked, options.commands)

    with serving(run, base / "store", base, options.seconds) as server:
        part("one", lambda: latencies(server, one))
        part("batches", lambda: throughput(server, many))
    with serving(run, base / "store", base, LONGEST) as server:  # what is compared is not timed
        part("bits", lambda: compare(server))
    part("large", lambda: large_store(options, whole, unseen, names, run, base, graph))
    with serving(run, base / "store", base, options.seconds) as server:
        part("soak", lambda: soak(server, asked, options.minutes, options.seed))
    return metrics


def large_store(
    options: Any, whole: Graph, unseen: list[int], names: dict[int, str], run: Path, base: Path, graph: Graph
) -> dict[str, Any]:
    """Return the time of one unseen node on a store of many copies, and its ratio to that on one copy."""
    shift = options.copies // 2 * graph.num_nodes
    middle = {node: str(int(name) + shift) for node, name in names.items()}
    asked = unseen[: options.unseen]
    here, there = ([request_of(whole, [node], one) for node in asked] for one in (names, middle))
    with serving(run, base / "store", base, options.seconds) as server:
        small = latencies(server, here)
    start = time.perf_counter()
    write_copies(graph, options.copies, base / "large")
    found: dict[str, Any] = {"edges": options.copies * graph.num_edges}
    found["write_seconds"] = round(time.perf_counter() - start, 1)
    start = time.perf_counter()
    with serving(run, base / "large", base, options.seconds) as server:
        found["start_seconds"] = round(time.perf_counter() - start, 1)
        found |= latencies(server, there) | {"memory_mib": round(server.memory() / 2**20)}
    return found | {f"ratio_{name[:3]}": found[name] / small[name] for name in ("p50_ms", "cpu_ms")}


if __name__ == "__main__":
    main()
