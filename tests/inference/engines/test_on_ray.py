"""Ray: the same bytes with one worker, two, several machines, and after whatever was killed."""

import importlib.util
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from gdpnet.data.datasets.streamed import GeneratedSettings, generate_store
from gdpnet.data.io.store import open_store
from gdpnet.errors import ConfigError, GDPNetError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.inference.engines import on_ray
from gdpnet.inference.engines.engine import Done
from gdpnet.inference.engines.on_ray import OnRay
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.streaming import denoise_to, embed_to
from helpers.killed_worker import dying
from helpers.small import FAST, fitted

pytestmark = [pytest.mark.slow]

BLOCK = 3000
SETTINGS = GeneratedSettings(1000, 20_000, 16)


def test_without_ray_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"workers need Ray, which is not installed: install gdpnet\[ray\]"):
        OnRay(workers=2)._connect()


def test_there_must_be_a_worker():
    with pytest.raises(ConfigError, match="at least one worker, found 0"):
        OnRay(workers=0)


def test_one_machine_does_not_start_processes_without_bound(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert OnRay(workers=32).workers == 32
    with pytest.raises(ConfigError, match="this machine can have at most 32 workers, found 33"):
        OnRay(workers=33)
    assert OnRay("auto", workers=1000).workers == 1000  # tasks at a time of a cluster


needs_ray = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
if importlib.util.find_spec("ray") is None:
    needs_ray.append(pytest.mark.skip(reason="Ray is not installed (gdpnet[ray])"))


def marked(test):
    """Mark a test that starts Ray."""
    for mark in needs_ray:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a store, a model, and the shards that one process makes."""
    folder = tmp_path_factory.mktemp("ray")
    generate_store(SETTINGS, 0, folder / "store")
    model = fitted(open_store(folder / "store"), FAST.with_values({"training": {"epochs": 1}}))
    model.save(folder / "model.safetensors")
    clean(folder, "whole", OneProcess())
    return folder


def clean(folder: Path, name: str, engine: object) -> dict:
    model = GDPNet.load(folder / "model.safetensors", device="cpu")
    options = {"threshold": 0.5, "all_edges": True, "edges_per_shard": BLOCK, "engine": engine}
    return denoise_to(model.trained_, open_store(folder / "store"), folder / name, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def same(folder: Path, name: str) -> bool:
    return contents(folder / name) == contents(folder / "whole")


@marked
def test_one_worker_makes_the_same_bytes(folder):
    with OnRay(workers=1) as engine:
        clean(folder, "one", engine)
    assert same(folder, "one")


@marked
def test_two_workers_one_of_them_killed_make_the_same_bytes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "_work", dying(tmp_path / "killed"))
    with OnRay(workers=2) as engine:
        clean(folder, "killed", engine)
        assert (tmp_path / "killed").exists()
        assert same(folder, "killed")
        with pytest.raises(GDPNetError, match=r"shards\.json"):  # the error of a task is that of the command
            list(engine.run(tmp_path, "decide", [0]))


def noting(folder: Path) -> Callable:
    """Return a task that notes when it began and ended."""

    def run(*given) -> tuple:
        from gdpnet.inference.engines.on_ray import _work

        start = time.monotonic()
        found = _work(*given)
        time.sleep(0.3)
        (folder / f"{given[-2]}-{given[-1]}").write_text(f"{start} {time.monotonic()}")
        return found

    return run


@marked
def test_a_machine_runs_no_more_tasks_than_it_has_memory_for(folder, tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(on_ray, "_work", noting(tmp_path))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "memory": 800_000_000})
    try:
        with OnRay(cluster.address) as engine:
            model = GDPNet.load(folder / "model.safetensors", device="cpu")
            options = {"edges_per_shard": 4 * BLOCK, "engine": engine}
            embed_to(model.trained_, open_store(folder / "store"), folder / "narrow", **options)
    finally:
        cluster.shutdown()
    times = sorted(tuple(map(float, path.read_text().split())) for path in tmp_path.iterdir())
    assert len(times) > 4
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times))


class Changing(OnRay):
    """Removes a machine from the cluster during a pass, and adds another."""

    cluster = None

    def run(self, folder: Path, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        for count, done in enumerate(super().run(folder, name, numbers)):
            if name == "context" and count == 1:
                self.cluster.remove_node(self.lost, allow_graceful=False)
            if name == "decide" and count == 1:
                self.cluster.add_node(num_cpus=1)
            yield done


@marked
def test_machines_that_come_and_go_change_no_byte(folder):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        with Changing(cluster.address) as engine:
            engine.cluster, engine.lost = cluster, nodes[1]
            clean(folder, "machines", engine)
        assert same(folder, "machines")
    finally:
        cluster.shutdown()


DRIVER = """
import sys
from pathlib import Path
from gdpnet.data.io.store import open_store
from gdpnet.estimator import GDPNet
from gdpnet.inference.engines.on_ray import OnRay
from gdpnet.inference.streaming import denoise_to
folder = Path(sys.argv[1])
model = GDPNet.load(folder / "model.safetensors", device="cpu")
with OnRay(workers=2) as engine:
    denoise_to(model.trained_, open_store(folder / "store"), folder / sys.argv[2], threshold=0.5, all_edges=True,
               edges_per_shard=int(sys.argv[3]), engine=engine)
"""


@marked
def test_after_a_killed_driver_ray_or_one_process_goes_on(folder):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), "left", str(BLOCK)])
    done, until = folder / "left" / "work" / "done.jsonl", time.monotonic() + 120
    while time.monotonic() < until and not (done.exists() and '"context-0000' in done.read_text()):
        assert driver.poll() is None, "the driver ended too early"
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    time.sleep(1.0)  # its workers end by themselves
    subprocess.run(["cp", "-r", str(folder / "left"), str(folder / "again")], check=True)
    clean(folder, "left", OneProcess())
    assert same(folder, "left")
    with OnRay(workers=2) as engine:
        clean(folder, "again", engine)
    assert same(folder, "again")


@marked
def test_a_machine_with_other_versions_is_refused_before_anything_is_written(folder, monkeypatch):
    found = on_ray.problem_here
    monkeypatch.setattr(
        on_ray, "problem_here", lambda needs: found(needs._replace(versions={"torch": "0.1"}))
    )
    with OnRay(workers=1) as engine, pytest.raises(RunFolderError, match=r"cannot take part: it has torch"):
        clean(folder, "refused", engine)
    assert not (folder / "refused").exists()
    assert torch.__version__ != "0.1"
