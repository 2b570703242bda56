"""Stores and shards in an object store: the same bytes as in local folders, also after what may fail."""

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gdpnet._core.files import Place, size_of
from gdpnet._core.files.objects import ObjectPath
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.graph import Graph
from gdpnet.data.io import store as stores
from gdpnet.data.io.store import open_store, write_store
from gdpnet.errors import GDPNetError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.inference.engines.engine import Done
from gdpnet.inference.engines.on_ray import OnRay
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.streaming import denoise_to, embed_to, predict_to
from helpers.objects import ObjectServer, need_objects, set_credentials
from helpers.setups import random_graph
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # every test trains a model or starts processes

need_objects()

EVIDENT = {"evidence": {"use": True, "trees_per_pass": 10}}
CASES = {
    "dense": (lambda: random_graph(7, nodes=40, links=110, directed=False), EVIDENT),
    "sparse": (noisy_graph, EVIDENT),
}
OPTIONS = {"threshold": 0.5, "all_edges": True, "edges_per_shard": 60}


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory) -> Iterator[ObjectServer]:
    with pytest.MonkeyPatch.context() as environment:
        set_credentials(environment)
        server = ObjectServer(tmp_path_factory.mktemp("server") / "log")
        yield server
        server.stop()


@pytest.fixture(scope="module", params=CASES)
def trained(request, server, tmp_path_factory) -> tuple[str, GDPNet, Graph, Path]:
    """Return a case, its model, its graph in a local store, and the folder of this store and of its shards."""
    make, settings = CASES[request.param]
    folder = tmp_path_factory.mktemp("local")
    write_store(make(), folder / "store")
    write_store(make(), server.address(f"{request.param}/store"))
    graph = open_store(folder / "store")
    model = fitted(graph, FAST.with_values(settings))
    denoise_to(model.trained_, graph, folder / "whole", **OPTIONS, engine=OneProcess())
    return request.param, model, graph, folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_store_is_written_with_the_same_bytes(trained, server):
    case, _, _, folder = trained
    assert server.contents(f"{case}/store") == contents(folder / "store")


@pytest.mark.parametrize("engine", [None, OneProcess()], ids=["in memory", "by blocks"])
def test_the_cleaned_graph_has_the_same_bytes(trained, engine, server):
    case, model, _, folder = trained
    graph = open_store(server.address(f"{case}/store"))
    out = f"{case}/cleaned-{engine is None}"
    said = denoise_to(model.trained_, graph, server.address(out), **OPTIONS, engine=engine)
    assert said["shards"] > 1
    assert server.contents(out) == contents(folder / "whole")
    assert not (server.place(out) / "work").exists()


@pytest.mark.parametrize("write", [embed_to, predict_to])
def test_embeddings_and_predictions_have_the_same_bytes(trained, write, server):
    case, model, graph, folder = trained
    here = folder / write.__name__
    write(model.trained_, graph, here, edges_per_shard=60, engine=OneProcess())
    there = open_store(server.address(f"{case}/store"))
    write(
        model.trained_,
        there,
        server.address(f"{case}/{write.__name__}"),
        edges_per_shard=60,
        engine=OneProcess(),
    )
    assert server.contents(f"{case}/{write.__name__}") == contents(here)
