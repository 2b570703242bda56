"""Tasks in any order, run twice, or stopped: the folder is the same in every byte, and any engine can go on."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdpnet.cli import main
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import open_store, write_store
from gdpnet.errors import ConfigError, GDPNetError, RunFolderError, WorkError
from gdpnet.estimator import GDPNet
from gdpnet.inference import engine_choice
from gdpnet.inference.engines import engine as engines
from gdpnet.inference.engines.engine import Done, needs_of, problem_here
from gdpnet.inference.engines.one_process import OneProcess
from gdpnet.inference.streaming import denoise_to, embed_to, predict_to
from helpers.setups import random_graph
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # models are trained

EVIDENT = FAST.with_values({"evidence": {"use": True, "trees_per_pass": 10}})


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(7, nodes=40, links=110)


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph, EVIDENT)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def clean(model: GDPNet, graph: Graph, folder: Path, **options: object) -> dict:
    given = {"all_edges": True, "edges_per_shard": 50, "engine": OneProcess()} | options
    return denoise_to(model.trained_, graph, folder, **given)


@pytest.fixture(scope="module")
def whole(model, graph, tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole") / "d"
    clean(model, graph, folder)
    return contents(folder)


class Unruly(OneProcess):
    """Runs tasks in random order, some of them twice, and each with its files opened anew."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def run(self, folder: Path, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        for number in self.random.permutation(np.array(numbers, dtype=int)).tolist():
            self._job = None
            found = next(super().run(folder, name, [number]))
            if self.random.random() < 0.5:
                assert next(super().run(folder, name, [number])).files == found.files
            yield found


class Stopping(OneProcess):
    """Dies after some tasks; what the last one wrote is not noted."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def run(self, folder: Path, name: str, numbers: Sequence[int]) -> Iterator[Done]:
        for done in super().run(folder, name, numbers):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            yield done


@pytest.mark.parametrize("seed", range(3))
def test_order_and_repetition_of_tasks_change_no_byte(seed, model, graph, whole, tmp_path):
    clean(model, graph, tmp_path / "d", engine=Unruly(seed))
    assert contents(tmp_path / "d") == whole


def any_graph(nodes: int, links: int, seed: int, directed: bool) -> Graph:
    """Return a graph with isolated nodes and, every other time, a hub."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(nodes, size=(2, links))
    if seed % 2:
        ends[0, : links // 2] = 0
    features = rng.normal(size=(nodes, 4)).astype(np.float32)
    return Graph.build(ends, features, rng.integers(3, size=nodes), directed=directed)


@pytest.fixture(scope="module")
def plain() -> GDPNet:
    return fitted(random_graph(7, nodes=40, links=110), FAST.with_values({"policy": {"max_candidates": 8}}))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    nodes=st.integers(2, 30),
    links=st.integers(1, 60),
    seed=st.integers(0, 99),
    directed=st.booleans(),
    size=st.integers(1, 70),
    kind=st.sampled_from(["d", "e", "p"]),
)
def test_any_graph_and_block_size_gives_the_same_bytes(
    nodes, links, seed, directed, size, kind, plain, tmp_path_factory
):
    graph = any_graph(nodes, links, seed, directed)
    folder = tmp_path_factory.mktemp("any")
    run = {"d": denoise_to, "e": embed_to, "p": predict_to}[kind]
    for name, engine in (("one", OneProcess()), ("other", Unruly(seed))):
        run(plain.trained_, graph, folder / name, edges_per_shard=size, engine=engine)
    assert contents(folder / "one") == contents(folder / "other")
    if kind == "d":
        given = {"edges_per_shard": size, "all_edges": True, "engine": Unruly(seed)}
        denoise_to(plain.trained_, graph, folder / "all", **given)
        parts = [pq.read_table(path) for path in sorted((folder / "all").glob("part-*"))]
        found = np.concatenate([part["keep_probability"].to_numpy() for part in parts])
        np.testing.assert_allclose(found, plain.denoise(graph).keep_probability, atol=1e-5)


# --- stopped and resumed ---


@pytest.mark.parametrize("after", [0, 3, 17, 30, 44])
def test_a_stopped_run_is_continued_by_another_engine(after, model, graph, whole, tmp_path):
    folder, steps = tmp_path / "d", []
    with pytest.raises(KeyboardInterrupt):
        clean(model, graph, folder, engine=Stopping(after))
    clean(model, graph, folder, engine=None, progress=lambda what, done, total: steps.append((done, total)))
    assert contents(folder) == whole
    assert (steps[0][0] > 0) == (after > 0)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1][0] == steps[-1][1]


@pytest.mark.parametrize("blocks", [None, range(2)])
def test_a_process_of_another_version_cannot_continue(blocks, model, graph, whole, tmp_path, monkeypatch):
    folder = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt):
        clean(model, graph, folder, engine=Stopping(17))
    found = engines.versions_here()
    with monkeypatch.context() as patched:
        patched.setattr(engines, "versions_here", lambda: found | {"cpu": "ABACUS"})
        with pytest.raises(GDPNetError, match="it has cpu ABACUS, and the process that began has"):
            clean(model, graph, folder, engine=None, blocks=blocks)
    clean(model, graph, folder)
    assert contents(folder) == whole


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", None])
def test_damaged_files_are_made_again(damage, model, graph, whole, tmp_path):
    folder = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt):
        clean(model, graph, folder, engine=Stopping(40))
    for path in sorted((folder / "work").glob("*.npy"))[::2]:
        content = bytearray(path.read_bytes())
        content[-3] ^= 64
        path.write_bytes(bytes(content) if damage is None else damage)
    clean(model, graph, folder)
    assert contents(folder) == whole


def test_a_damaged_list_of_finished_files_is_not_believed(model, graph, whole, tmp_path):
    folder = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt):
        clean(model, graph, folder, engine=Stopping(30))
    path = folder / "work" / "done.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "rubbish", *lines[1:]]))
    clean(model, graph, folder)
    assert contents(folder) == whole


def test_a_finished_run_does_nothing_more_and_another_is_refused(model, graph, whole, tmp_path):
    said = clean(model, graph, tmp_path / "d")
    assert clean(model, graph, tmp_path / "d", engine=Stopping(0)) == said
    with pytest.raises(RunFolderError, match=r"of other settings \(threshold\)"):
        clean(model, graph, tmp_path / "d", threshold=0.9)
    with pytest.raises(RunFolderError, match="of another graph"):
        clean(model, random_graph(8, nodes=40, links=110), tmp_path / "d")


def test_a_lost_shard_of_a_finished_folder_is_made_again(model, graph, whole, tmp_path):
    clean(model, graph, tmp_path / "d")
    (tmp_path / "d" / "part-00001.parquet").unlink()
    clean(model, graph, tmp_path / "d")
    assert contents(tmp_path / "d") == whole


# --- some blocks at a time ---


def test_processes_with_some_blocks_each_finish_pass_after_pass(model, graph, whole, tmp_path):
    folder, blocks = tmp_path / "d", len([name for name in whole if name.startswith("part-")])
    said: dict = {"unfinished": "nothing yet"}
    rounds = 0
    while "unfinished" in said:
        rounds += 1
        for some in (range(2, blocks), range(2)):
            said = clean(model, graph, folder, engine=None, blocks=some)
        assert rounds < 20
    assert contents(folder) == whole
    assert rounds > 3


def test_a_pass_that_is_not_finished_is_named(model, graph, tmp_path):
    said = clean(model, graph, tmp_path / "d", engine=None, blocks=range(1, 3))
    assert said["unfinished"].startswith("pass 'project' (1 of ")
    assert "is finished on 2 of" in said["unfinished"]
    with pytest.raises(ConfigError, match="--blocks must lie within 0:"):
        clean(model, graph, tmp_path / "d", engine=None, blocks=range(3, 999))


# --- what is chosen, and what is refused ---


def test_tables_that_do_not_fit_into_memory_are_files(model, graph, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_choice, "available_memory", lambda: 1000)
    steps = []
    clean(model, graph, tmp_path / "d", engine=None, progress=lambda what, *_: steps.append(what))
    assert contents(tmp_path / "d") == whole
    assert steps[0] == "task project"


def test_a_process_that_has_other_versions_or_sees_no_store_cannot_take_part(graph, tmp_path, monkeypatch):
    write_store(graph, tmp_path / "s")
    needs = needs_of(tmp_path / "s", tmp_path / "out" / "d")
    assert problem_here(needs) is None
    assert needs.folder == str(tmp_path)
    (tmp_path / "s" / "graph.json").write_text("{}")
    assert "it sees another store at" in str(problem_here(needs))
    assert "it does not see the store" in str(problem_here(needs._replace(store=str(tmp_path / "no"))))
    assert "it does not see the folder" in str(problem_here(needs._replace(folder=str(tmp_path / "no"))))
    monkeypatch.setattr(engines, "versions_here", lambda: needs.versions | {"torch": "0.1"})
    assert "it has torch 0.1, and the process that began has" in str(problem_here(needs))


def test_nothing_is_written_where_the_engine_refuses(model, graph, tmp_path):
    class Refusing(OneProcess):
        def check(self, needs):
            engines.refuse("machine 10.0.0.7", "it has torch 0.1")

    with pytest.raises(RunFolderError, match=r"machine 10\.0\.0\.7 cannot take part: it has torch 0\.1"):
        clean(model, graph, tmp_path / "d", engine=Refusing())
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_a_task_says_what_stays(model, graph, tmp_path):
    class Failing(OneProcess):
        def run(self, folder, name, numbers):
            if name == "decide":
                raise WorkError("cannot write it: no space left")
            return super().run(folder, name, numbers)

    with pytest.raises(WorkError, match=r"no space left; 0 of \d shards are finished and stay valid"):
        clean(model, graph, tmp_path / "d", engine=Failing())


def test_a_model_without_labels_is_refused(tmp_path):
    graph = noisy_graph()
    model = fitted(graph, FAST.with_values({"task": {"kind": "clusters"}, "clusters": {"steps": 2}}))
    with pytest.raises(ConfigError, match="reads the whole graph at once"):
        predict_to(model.trained_, graph, tmp_path / "p")


# --- the commands ---


def test_commands_work_by_blocks(model, graph, tmp_path, capsys):
    write_store(graph, tmp_path / "s")
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.safetensors")
    words = [str(tmp_path / "run"), str(tmp_path / "s"), "--shards", "--shard-edges", "50", "--json"]
    assert main(["predict", *words, "--out", str(tmp_path / "p")]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["nodes"] == 40
    found = pq.read_table(tmp_path / "p" / "part-00000.parquet")
    assert found.column_names[:2] == ["id", "predicted"]
    assert main(["embed", *words, "--out", str(tmp_path / "e"), "--low-memory"]) == 0
    assert main(["denoise", *words, "--out", str(tmp_path / "d"), "--blocks", "0:2"]) == 0
    out = capsys.readouterr()
    assert "pass 'project' (1 of " in json.loads(out.out.splitlines()[-1])["unfinished"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--low-memory"], "--low-memory needs --shards"),
        (["--blocks", "0:2"], "--blocks needs --shards"),
        (["--shards", "--blocks", "2"], "--blocks must be two numbers such as 0:100"),
        (["--shards", "--blocks", "2:1"], "--blocks must be two numbers such as 0:100"),
        (["--shards", "--blocks", "0:2", "--workers", "2"], "leave --workers and --ray out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, sentence, tmp_path, capsys):
    assert main(["denoise", str(tmp_path), str(tmp_path), "--out", str(tmp_path / "d"), *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_an_open_store_is_used_where_it_lies(model, graph, tmp_path):
    write_store(graph, tmp_path / "s")
    with pytest.raises(KeyboardInterrupt):
        clean(model, open_store(tmp_path / "s"), tmp_path / "d", engine=Stopping(3))
    assert not (tmp_path / "d" / "work" / "graph").exists()
    with pytest.raises(KeyboardInterrupt):
        clean(model, graph, tmp_path / "e", engine=Stopping(3))
    assert (tmp_path / "e" / "work" / "graph" / "graph.json").exists()


def test_errors_of_workers_are_found_in_what_ray_raises():
    inner = WorkError("no space")
    outer = RuntimeError("ray")
    outer.cause = inner  # type: ignore[attr-defined]
    assert engines.as_error(outer) is inner
    assert engines.as_error(ValueError("other")) is None
    assert isinstance(engines.as_error(GDPNetError("x")), GDPNetError)
    assert torch.device("cpu") == OneProcess().device
