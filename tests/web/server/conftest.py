"""A model, a stored graph, and a server of both that the tests share."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gdpnet.data.graph import Graph
from gdpnet.data.io.store import write_store
from helpers.server import ServerProcess
from helpers.small import FAST, fitted

COLUMNS = ("wings", "legs", "fur", "weight", "age")


def animals(nodes: int = 60) -> Graph:
    """Return a graph of named columns and text ids, some with characters that pages act on."""
    rng = np.random.default_rng(0)
    labels = np.arange(nodes) % 3
    same = np.array([(a, b) for a in range(nodes) for b in range(a) if labels[a] == labels[b]])
    ends = same[rng.random(len(same)) < 0.09].T
    rows = np.eye(5)[labels] + 0.4 * rng.normal(size=(nodes, 5))
    ids = [f"n{number}" for number in range(nodes - 1)] + ["<script>alert(1)</script>"]
    graph = Graph.build(
        ends,
        rows.astype(np.float32),
        labels,
        split=rng.choice([1, 2, 3], size=nodes),
        node_ids=ids,
        class_names=["bird", "cat", 'the "third"'],
    )
    return replace(graph, feature_names=COLUMNS)


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """Return a folder with a run, another run, and a store; tests must not change it."""
    base = tmp_path_factory.mktemp("served")
    graph = animals()
    config = FAST.with_values({"evidence": {"use": True}})
    for name, seed in (("run", 0), ("other", 1)):
        (base / name).mkdir()
        fitted(graph, config, seed).save(base / name / "model.safetensors")
    write_store(graph, base / "store")
    return base


@pytest.fixture(scope="session")
def server(place):
    """Return a server with the usual limits."""
    running = ServerProcess(place / "run", place / "store", place / "log", "--max-bytes", 100_000)
    yield running
    assert running.stop() == 0
