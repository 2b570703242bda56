"""Stores and shards in an object store: the same bytes as in local folders, also after what may fail."""

import importlib.util
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet._core.files import Place, fetched, size_of
from gdpnet._core.files.objects import ObjectPath
from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.graph import Graph
from gdpnet.data.io import mapped
from gdpnet.data.io import store as stores
from gdpnet.data.io.store import open_store, write_store
from gdpnet.errors import GDPNetError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.inference.engines import on_ray
from gdpnet.inference.engines.engine import Done, Needs
from gdpnet.inference.engines.on_ray import OnRay
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.passes.job import open_job
from gdpnet.inference.passes.tasks import run_task
from gdpnet.inference.streaming import denoise_to, embed_to, predict_to
from helpers.killed_worker import dying
from helpers.objects import ObjectServer, running_server
from helpers.setups import random_graph
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # every test trains a model or starts processes

EVIDENT = {"evidence": {"use": True, "trees_per_pass": 10}}


def with_columns_of_edges() -> Graph:
    """Return a directed graph whose edges have weights and features."""
    graph = random_graph(7, nodes=40, links=110, directed=True)
    random = torch.Generator().manual_seed(1)
    rows = torch.randn(graph.num_edges, 2, generator=random)
    weight = 0.5 + torch.rand(graph.num_edges, generator=random)
    return replace(graph, edge_weight=weight, edge_features=rows, edge_feature_names=("amount", "age"))


CASES = {
    "dense": (lambda: random_graph(7, nodes=40, links=110, directed=False), EVIDENT),
    "sparse": (noisy_graph, EVIDENT),
    "edges": (with_columns_of_edges, EVIDENT | {"inference": {"symmetrise": True, "episodes": 2}}),
}
OPTIONS = {"threshold": 0.5, "all_edges": True, "edges_per_shard": 60}
SMALL = OPTIONS | {"edges_per_shard": 700}


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory) -> Iterator[ObjectServer]:
    with running_server(tmp_path_factory.mktemp("server") / "log") as server:
        yield server


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


class Forgetful:
    """An engine whose tasks know nothing of what others have read, like those of many machines."""

    def __init__(self) -> None:
        self.present: list[float] = []
        """The share of the neighbours that each task has brought."""

    def check(self, needs: Needs) -> None:
        pass

    def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        for number in numbers:
            stores._FETCHED.clear()
            job = open_job(folder, torch.device("cpu"))
            yield Done(number, run_task(job, name, number), 0.0)
            self.present.append(float(job.source._arrays["neighbour"].fetched._present.mean()))


def test_tasks_bring_all_that_they_read_and_not_much_more(trained, server, monkeypatch):
    case, model, graph, folder = trained
    options = OPTIONS | {"edges_per_shard": 150}
    denoise_to(model.trained_, graph, folder / "few", **options, engine=OneProcess())
    monkeypatch.setattr(stores, "_FETCHED", {})  # what other tests have read, in larger chunks
    monkeypatch.setattr(fetched, "CHUNK", 128)
    monkeypatch.setattr(mapped, "_MOST_HEADER", 128)
    monkeypatch.setattr(fetched, "_GAP", 1)
    engine, out = Forgetful(), f"{case}/few"
    there = open_store(server.address(f"{case}/store"))
    denoise_to(model.trained_, there, server.address(out), **options, engine=engine)
    assert server.contents(out) == contents(folder / "few")
    assert np.mean(engine.present) < 0.9


class Stopping(OneProcess):
    """An engine that is stopped after some tasks."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        for done in super().run(folder, name, numbers):
            yield done
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.fixture(scope="module")
def small(server, tmp_path_factory) -> tuple[GDPNet, Path]:
    """Return a model and a folder with a generated store and its shards; the same store is in the object store."""
    folder = tmp_path_factory.mktemp("small")
    settings = GeneratedSettings(300, 3000, 8)
    generate_store(settings, 0, folder / "store")
    generate_store(settings, 0, server.address("small/store"))
    graph = open_store(folder / "store")
    model = fitted(graph)
    model.save(folder / "model.safetensors")
    denoise_to(model.trained_, graph, folder / "whole", **SMALL, engine=OneProcess())
    return model, folder


def clean(model: GDPNet, server: ObjectServer, out: str, **options: object) -> dict:
    graph = open_store(server.address("small/store"))
    return denoise_to(model.trained_, graph, server.address(out), **SMALL, **options)


def test_a_stopped_run_goes_on_where_it_was(small, server):
    model, folder = small
    with pytest.raises(KeyboardInterrupt):
        clean(model, server, "stopped", engine=Stopping(7))
    done = {one.name for one in (server.place("stopped") / "work").glob("*.npy")}
    assert done
    before = len(server.requests("POST", "/bucket/stopped/work/"))
    clean(model, server, "stopped", engine=OneProcess())
    again = [line for line in server.requests("POST", "/bucket/stopped/work/")[before:] if "uploads" in line]
    assert not [line for line in again if any(f"/{name}?" in line for name in done)]
    assert server.contents("stopped") == contents(folder / "whole")


def test_objects_that_are_lost_or_changed_are_made_again(small, server):
    model, folder = small
    with pytest.raises(KeyboardInterrupt):
        clean(model, server, "damaged", engine=Stopping(7))
    work = server.place("damaged") / "work"
    first, second, *_ = sorted(work.glob("*.npy"), key=str)
    first.unlink()
    second.put_bytes(bytes(size_of(second) or 0))
    clean(model, server, "damaged", engine=OneProcess())
    assert server.contents("damaged") == contents(folder / "whole")
    shard = server.place("damaged") / "part-00001.parquet"
    shard.put_bytes(shard.read_bytes()[:-1])
    clean(model, server, "damaged", engine=OneProcess())
    assert server.contents("damaged") == contents(folder / "whole")


def test_processes_that_share_the_blocks_end_with_the_same_bytes(small, server):
    model, folder = small
    said: dict = {"unfinished": "not begun"}
    while "unfinished" in said:
        for blocks in (range(2), range(2, 5)):
            said = clean(model, server, "shared", blocks=blocks)
    assert said["shards"] == 5
    assert server.contents("shared") == contents(folder / "whole")


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (gdpnet[ray])")
def test_two_workers_one_of_them_killed_end_with_the_same_bytes(small, server, tmp_path, monkeypatch):
    model, folder = small
    monkeypatch.setattr(on_ray, "_work", dying(tmp_path / "killed"))
    with OnRay(workers=2) as engine:
        clean(model, server, "workers", engine=engine)
    assert (tmp_path / "killed").exists()
    assert server.contents("workers") == contents(folder / "whole")


def test_another_command_on_the_same_folder_is_noticed(small, server):
    model, _ = small

    class Disturbed(OneProcess):
        def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
            yield from super().run(folder, name, numbers)
            if name == "write":
                about = folder / "shards.json"
                about.put_bytes(about.read_bytes().replace(b'"threshold": 0.5', b'"threshold": 0.25'))

    with pytest.raises(RunFolderError, match="was begun anew by another command"):
        clean(model, server, "twice", engine=Disturbed())


def test_a_run_whose_work_another_one_deleted_is_one_sentence_and_can_be_repeated(small, server):
    model, folder = small

    class Overtaken(OneProcess):
        def run(self, folder: Place, name: str, numbers: Sequence[int]) -> Iterator[Done]:
            yield from super().run(folder, name, numbers)
            if name == "pairs":
                (folder / "work").remove_all()

    with pytest.raises(
        GDPNetError, match=r"cannot read s3://bucket/overtaken/work/.* no such object; 0 of 5 shards"
    ):
        clean(model, server, "overtaken", engine=Overtaken())
    clean(model, server, "overtaken", engine=OneProcess())
    assert server.contents("overtaken") == contents(folder / "whole")


def test_shards_of_other_settings_are_refused(small, server):
    model, _ = small
    clean(model, server, "other", engine=OneProcess())
    graph = open_store(server.address("small/store"))
    options = SMALL | {"threshold": 0.25}
    with pytest.raises(RunFolderError, match="holds shards of other settings"):
        denoise_to(model.trained_, graph, server.address("other"), **options, engine=OneProcess())


def test_a_worker_reads_only_the_rows_that_its_blocks_need(server, monkeypatch):
    """A ring whose neighbours are near: a block needs its own rows and a few around it."""
    monkeypatch.setattr("gdpnet._core.files.fetched.CHUNK", 1 << 8)
    nodes = 2000
    ends = [[node, (node + 1) % nodes] for node in range(nodes)]
    rng = np.random.default_rng(0)
    graph = Graph.build(np.array(ends).T, rng.normal(size=(nodes, 16)), np.arange(nodes) % 2)
    write_store(graph, server.address("ring"))
    arrays, _ = stores.map_store(server.place("ring"))
    table = arrays["features"]
    assert table.fetched is not None
    whole = open_whole(server, "ring")
    rows = np.arange(100, 150)
    np.testing.assert_array_equal(table.bring(rows)[rows], whole[rows])
    present = table.fetched._present
    assert 0 < present.mean() < 0.1
    assert not table.values[1000:1200].any()


def open_whole(server: ObjectServer, name: str) -> np.ndarray:
    """Return the features of a store, read as one object."""
    return np.load(io.BytesIO((server.place(name) / "features.npy").read_bytes()))


def test_an_array_that_is_put_anew_while_it_is_read_is_refused(server):
    graph = random_graph(3, nodes=40, links=110, directed=False)
    write_store(graph, server.address("changed"))
    arrays, _ = stores.map_store(server.place("changed"))
    place = server.place("changed") / "features.npy"
    arrays["features"].fetched._present[:] = False
    content = place.read_bytes()
    place.put_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(GDPNetError, match=r"features\.npy was changed while it was read"):
        arrays["features"].bring(np.array([0]))
    place.unlink()
    with pytest.raises(GDPNetError, match=r"cannot read s3://bucket/changed/features\.npy"):
        arrays["features"].bring(np.array([0]))


def test_a_store_that_was_replaced_is_read_anew(server):
    for seed in (1, 2):
        graph = random_graph(seed, nodes=40, links=110, directed=False)
        place = server.place("replaced")
        place.remove_all()
        write_store(graph, place)
        found = open_store(place)
        assert found.features.equal(graph.features)
        assert isinstance(found.stored.folder, ObjectPath)
    features = server.place("replaced") / "features.npy"
    content = features.read_bytes()
    features.put_bytes(content[:-4] + np.float32(7.5).tobytes())
    assert open_store(place).features[-1, -1] == 7.5
