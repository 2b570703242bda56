"""Questions to a server about stored and unseen nodes, and the answers of the command line to them."""

from __future__ import annotations

import contextlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from gdpnet._core.csr import offsets_of
from gdpnet.cli import main as run_command
from gdpnet.data.features import SparseRows, stack_rows, take_rows
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import open_store, write_store

QUESTIONS = ("predict", "embed", "denoise", "explain")


def request_of(graph: Graph, nodes: list[int], names: dict[int, str]) -> dict[str, Any]:
    """Return a request about unseen nodes, with their features and their edges to stored nodes and to each other."""
    assert isinstance(graph.features, SparseRows)
    rows = graph.features.take(torch.tensor(nodes)).to_scipy().toarray()
    asked = {node: f"new{node}" for node in nodes}
    edges = []
    for node in nodes:
        near = graph.neighbour[int(graph.row_ptr[node]) : int(graph.row_ptr[node + 1])].tolist()
        known = [names.get(one) or asked.get(one) for one in near]
        edges += [{"src_node_id": asked[node], "dest_node_id": one} for one in known if one is not None]
    given = [
        {"node_id": asked[node], "features": row.tolist()} for node, row in zip(nodes, rows, strict=True)
    ]
    return {"nodes": given, "edges": edges, "targets": list(asked.values())}


def random_questions(
    graph: Graph, unseen: list[int], names: dict[int, str], count: int, seed: int
) -> list[Any]:
    """Return questions about stored nodes, unseen ones and both."""
    rng, found = np.random.default_rng(seed), []
    stored = list(names.values())
    for number in range(count):
        body: dict[str, Any] = {"targets": []}
        if number % 2:
            body = request_of(
                graph, rng.choice(unseen, size=int(rng.integers(1, 4)), replace=False).tolist(), names
            )
        body["targets"] += rng.choice(stored, size=int(rng.integers(0 if number % 2 else 1, 4))).tolist()
        found.append((QUESTIONS[number % 4], body))
    return found


def numbers_of(answer: dict[str, Any]) -> list[list[float]]:
    """Return the probabilities or the embeddings of an answer."""
    return [
        list(row["probabilities"].values()) if "probabilities" in row else row["embedding"]
        for row in answer["results"]
    ]


def answer_of_command(
    run: Path, base: Path, whole: Graph, question: str, body: dict[str, Any]
) -> list[list[float]]:
    """Return what the command writes; new nodes are given to it at the end of a graph that has them."""
    with tempfile.TemporaryDirectory() as folder:
        store, out = base / "store", Path(folder) / "out.parquet"
        if "nodes" in body:
            store = Path(folder) / "store"
            write_store(with_new_nodes(open_store(base / "store"), whole, body), store)
        words = [question, run, store, "--nodes", ",".join(body["targets"]), "--as-served", "--out", out]
        with contextlib.redirect_stdout(io.StringIO()):
            assert run_command([str(word) for word in [*words, "--device", "cpu", "--quiet"]]) == 0
        first = 2 if question == "predict" else 1
        return [list(row.values())[first:] for row in pq.read_table(out).to_pylist()]


def with_new_nodes(stored: Graph, whole: Graph, body: dict[str, Any]) -> Graph:
    """Return the stored graph with the nodes of a request after its own."""
    new = [node["node_id"] for node in body["nodes"]]
    number = {name: stored.num_nodes + place for place, name in enumerate(new)}
    ends = [
        [number.get(edge[side]) or int(edge[side]) for edge in body["edges"]]
        for side in ("src_node_id", "dest_node_id")
    ]
    both = torch.tensor([ends[0] + ends[1], ends[1] + ends[0]], dtype=torch.long)
    target = torch.cat([stored.target, both[1]])
    neighbour = torch.cat([stored.neighbour.long(), both[0]])
    nodes = stored.num_nodes + len(new)
    order = torch.argsort(target * nodes + neighbour)
    edge, count = torch.unique(torch.stack([target, neighbour])[:, order], dim=1), len(new)
    rows = take_rows(whole.features, torch.tensor([int(name.removeprefix("new")) for name in new]))
    return replace(
        stored,
        row_ptr=offsets_of(torch.bincount(edge[0], minlength=nodes)),
        neighbour=edge[1],
        features=stack_rows([stored.features, rows]),
        labels=torch.cat([stored.labels, torch.full((count,), -1)]),
        split=torch.cat([stored.split, stored.split.new_zeros(count)]),
        node_ids=np.array([*map(str, range(stored.num_nodes)), *new]),
        stored=None,
    )
