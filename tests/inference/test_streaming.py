"""Denoise and embed shard by shard: equal to the whole graph at once, resumed runs, and full disks."""

import copy
import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import roc_auc_score

from gdpnet._core.files import disk
from gdpnet._core.stopwatch import Stopwatch
from gdpnet.cli import main
from gdpnet.data.graph import Graph
from gdpnet.data.io.store import open_store, write_store
from gdpnet.errors import ConfigError, GDPNetError, GraphError, RunFolderError, WorkError
from gdpnet.estimator import GDPNet
from gdpnet.inference import in_memory
from gdpnet.inference import select as inference
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.streaming import denoise_to, embed_to
from gdpnet.representation.aggregator import HopwiseNetwork
from helpers.setups import random_graph
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model


@pytest.fixture(scope="module")
def model() -> GDPNet:
    return fitted(noisy_graph())


def stored(graph: Graph, folder: Path) -> Graph:
    write_store(graph, folder)
    return open_store(folder)


def rows(folder: Path) -> dict[str, np.ndarray]:
    """Return the columns of all shards, one after the other."""
    parts = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    names = parts[0].column_names
    return {name: np.concatenate([part.column(name).to_numpy() for part in parts]) for name in names}


def trained(**values: dict) -> tuple[GDPNet, Graph]:
    """Return a model with dense features and the graph that it was trained on."""
    graph = random_graph(7, nodes=40, links=110, directed=values.pop("directed", False))
    return fitted(graph, FAST.with_values(values)), graph


# --- the same as in memory ---


@pytest.fixture(scope="module")
def by_hops() -> dict[int, tuple[GDPNet, Graph]]:
    return {hops: trained(representation={"hops": hops, "width": 8}) for hops in (1, 2)}


def with_inference(model: GDPNet, **inference: object) -> GDPNet:
    """Return the model with other settings of inference."""
    found = copy.copy(model)
    config = model.config_.with_values({"inference": inference})
    found._set_trained(replace(model.trained_, config=config))
    return found


def embedded(folder: Path) -> np.ndarray:
    values = rows(folder)
    assert values.pop("id").tolist() == list(range(40))
    return np.stack(list(values.values()), axis=1)


@pytest.mark.parametrize("mode", ["greedy", "sampled"])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("symmetrise", [False, True], ids=["one way", "symmetrised"])
def test_shards_equal_the_result_for_the_whole_graph(mode, hops, symmetrise, by_hops, tmp_path):
    model, graph = by_hops[hops]
    model = with_inference(model, mode=mode, symmetrise=symmetrise)
    whole = model.denoise(graph, threshold=0.5)
    denoise_to(model.trained_, graph, tmp_path / "d", threshold=0.5, all_edges=True, edges_per_shard=80)
    found = rows(tmp_path / "d")
    assert np.array_equal(found["source"], graph.neighbour.numpy())
    assert np.array_equal(found["target"], graph.target.numpy())
    assert np.allclose(found["keep_probability"], whole.keep_probability, atol=1e-6)
    assert np.array_equal(found["kept"], whole.kept)
    embed_to(model.trained_, graph, tmp_path / "e", edges_per_shard=80)
    assert np.allclose(embedded(tmp_path / "e"), model.embed(graph), atol=1e-5)


@pytest.mark.parametrize("size", [1, 17, 1000])
def test_neither_the_shard_size_nor_memory_mapping_changes_the_result(size, by_hops, tmp_path):
    model, graph = by_hops[2]
    denoise_to(
        model.trained_, stored(graph, tmp_path / "s"), tmp_path / "d", all_edges=True, edges_per_shard=size
    )
    whole = model.denoise(graph)
    assert np.allclose(rows(tmp_path / "d")["keep_probability"], whole.keep_probability, atol=1e-6)


@pytest.mark.parametrize("settings", [{"policy": {"state": "paper"}}, {"policy": {"state": "pairs"}}])
def test_other_states_and_directed_edges_stream_too(settings, tmp_path):
    model, graph = trained(**settings, directed=True)
    denoise_to(model.trained_, graph, tmp_path / "d", symmetric=False, all_edges=True, edges_per_shard=13)
    whole = model.denoise(graph, symmetric=False)
    assert np.allclose(rows(tmp_path / "d")["keep_probability"], whole.keep_probability, atol=1e-6)


@pytest.mark.parametrize("normalise", ["none", "row"])
def test_features_that_are_not_of_length_one_stream_too(normalise, tmp_path):
    model, graph = trained(features={"normalise": normalise})
    denoise_to(
        model.trained_, stored(graph, tmp_path / "s"), tmp_path / "d", all_edges=True, edges_per_shard=31
    )
    whole = model.denoise(graph)
    assert np.allclose(rows(tmp_path / "d")["keep_probability"], whole.keep_probability, atol=1e-6)


def test_sparse_features_and_ids_of_the_user_stream_too(model, tmp_path):
    graph = noisy_graph()
    whole = model.denoise(graph, threshold=0.6)
    said = denoise_to(
        model.trained_, stored(graph, tmp_path / "s"), tmp_path / "d", threshold=0.6, edges_per_shard=50
    )
    found = rows(tmp_path / "d")
    assert np.array_equal(found["source"], graph.node_ids[graph.neighbour.numpy()[whole.kept]])
    assert np.allclose(found["keep_probability"], whole.keep_probability[whole.kept], atol=1e-6)
    assert said["kept"] == whole.kept.sum()


def test_a_model_without_selection_keeps_everything(tmp_path):
    model, graph = trained(training={"selection": False, "epochs": 2})
    said = denoise_to(model.trained_, graph, tmp_path / "d", edges_per_shard=20)
    assert said["kept_share"] == 1.0
    embed_to(model.trained_, graph, tmp_path / "e", edges_per_shard=20)
    assert np.allclose(embedded(tmp_path / "e"), model.embed(graph), atol=1e-5)


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_hopwise_head_embeds_the_same_shard_by_shard(hops, share, by_hops, tmp_path):
    model, graph = by_hops[hops]
    hopwise = HopwiseNetwork(4, 8, 3, 2, hops=hops + 1)
    hopwise.initialise(torch.Generator().manual_seed(0))
    networks, before = copy.deepcopy(model.networks_), model.embed(graph)
    networks.hopwise = hopwise
    model = copy.copy(model)
    weights = HeadWeights().with_hopwise(share)
    model._set_trained(replace(model.trained_, networks=networks, weights=weights))
    embed_to(model.trained_, stored(graph, tmp_path / "s"), tmp_path / "e", edges_per_shard=37)
    assert np.allclose(embedded(tmp_path / "e"), model.embed(graph), atol=1e-5)
    assert np.array_equal(model.embed(graph), before) == (share < 1.0)


def test_the_summary_is_that_of_the_whole(model, tmp_path):
    graph = noisy_graph()
    whole = model.denoise(graph, threshold=0.7)
    said = denoise_to(model.trained_, graph, tmp_path / "d", threshold=0.7, edges_per_shard=50)
    spurious = graph.truth.spurious.numpy()
    assert said["edges"] == graph.num_edges
    assert said["kept_share"] == pytest.approx(whole.kept.mean())
    assert said["summary"] == whole.summary
    assert said["spurious_removed"] == pytest.approx((~whole.kept[spurious]).mean())
    assert said["genuine_kept"] == pytest.approx(whole.kept[~spurious].mean())
    assert said["keep_auc"] == pytest.approx(roc_auc_score(~spurious, whole.keep_probability), abs=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="runs the kernel in the interpreter, on the CPU")
def test_the_gpu_path_gives_the_same(monkeypatch, tmp_path):
    pytest.importorskip("triton", reason="Triton is not installed")
    model, graph = trained(representation={"width": 8}, inference={"episodes": 3})
    whole = model.denoise(graph)
    monkeypatch.setattr(inference, "can_share", lambda *_: True)
    monkeypatch.setattr(in_memory, "_threads", lambda device: 2)
    stopwatch = Stopwatch()
    said = denoise_to(
        model.trained_,
        graph,
        tmp_path / "d",
        all_edges=True,
        edges_per_shard=80,
        stopwatch=stopwatch,
        threshold=0.5,
    )
    assert np.allclose(rows(tmp_path / "d")["keep_probability"], whole.keep_probability, atol=1e-5)
    assert said["edges"] == graph.num_edges
    assert stopwatch.seconds.keys() == {
        "read", "node tables", "neighbourhoods", "pair features", "context", "decide", "write"
    }  # fmt: skip


# --- stopped and resumed ---


def stop_after(count: int, monkeypatch) -> None:
    """Let the disk be full once so many files were written."""
    plain, left = disk.flush_file, [count]

    def flush(path: Path) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        plain(path)

    monkeypatch.setattr(disk, "flush_file", flush)


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("files", [3, 9, 17])
def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on(
    files, threads, model, tmp_path, monkeypatch
):
    graph = noisy_graph()
    monkeypatch.setattr(in_memory, "_threads", lambda device: threads)  # a GPU has threads that write
    denoise_to(model.trained_, graph, tmp_path / "whole", all_edges=True, edges_per_shard=60)
    with monkeypatch.context() as patch:
        stop_after(files, patch)
        with pytest.raises(WorkError, match=r"No space left on device; .* finished and stay valid") as caught:
            denoise_to(model.trained_, graph, tmp_path / "d", all_edges=True, edges_per_shard=60)
    finished = sorted((tmp_path / "d").glob("part-*.parquet"))
    total = len(list((tmp_path / "whole").glob("part-*")))
    assert f"{len(finished)} of {total} shards" in str(caught.value)
    before = [(path.stat().st_mtime_ns, pq.read_table(path).num_rows) for path in finished]
    denoise_to(model.trained_, graph, tmp_path / "d", all_edges=True, edges_per_shard=60)
    assert [(path.stat().st_mtime_ns, pq.read_table(path).num_rows) for path in finished] == before
    for name, column in rows(tmp_path / "whole").items():
        assert np.array_equal(rows(tmp_path / "d")[name], column)
    assert sorted(path.name for path in (tmp_path / "d").iterdir() if "part" not in path.name) == [
        "shards.json"
    ]


def test_decisions_made_before_a_stop_are_not_made_again(model, tmp_path, monkeypatch):
    graph = noisy_graph()
    with monkeypatch.context() as patch:
        stop_after(12, patch)
        with pytest.raises(GDPNetError, match="No space"):
            denoise_to(model.trained_, graph, tmp_path / "d", edges_per_shard=50)
    reports = []
    denoise_to(
        model.trained_,
        graph,
        tmp_path / "d",
        edges_per_shard=50,
        progress=lambda what, done, total: reports.append((what, done)),
    )
    assert not [done for what, done in reports if what == "first"]
    assert next(done for what, done in reports if what == "decided") > 1


def test_a_finished_run_does_nothing_more(model, tmp_path, monkeypatch):
    graph = noisy_graph()
    said = denoise_to(model.trained_, graph, tmp_path / "d", edges_per_shard=50)
    monkeypatch.setattr(in_memory, "Blockwise", None)
    assert denoise_to(model.trained_, graph, tmp_path / "d", edges_per_shard=50) == said


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            lambda m, g, d: denoise_to(fitted(g, seed=1).trained_, g, d, edges_per_shard=50),
            "holds shards of another model",
        ),
        (
            lambda m, g, d: denoise_to(m.trained_, noisy_graph(seed=1), d, edges_per_shard=50),
            "of another graph",
        ),
        (lambda m, g, d: embed_to(m.trained_, g, d, edges_per_shard=50), "of another command"),
        (
            lambda m, g, d: denoise_to(m.trained_, g, d, edges_per_shard=50, threshold=0.9),
            r"of other settings \(threshold\)",
        ),
        (lambda m, g, d: denoise_to(m.trained_, g, d, edges_per_shard=60), r"of other settings \(shards\)"),
    ],
)
def test_two_different_runs_are_not_mixed(other, sentence, model, tmp_path):
    graph = noisy_graph()
    denoise_to(model.trained_, graph, tmp_path / "d", edges_per_shard=50)
    with pytest.raises(RunFolderError, match=sentence):
        other(model, graph, tmp_path / "d")


def test_a_folder_with_other_files_or_a_file_is_refused(model, tmp_path):
    graph = noisy_graph()
    (tmp_path / "x").write_text("mine")
    with pytest.raises(RunFolderError, match="must be a new or an empty folder or hold shards"):
        denoise_to(model.trained_, graph, tmp_path)
    with pytest.raises(RunFolderError, match="is a file, shards need a folder"):
        denoise_to(model.trained_, graph, tmp_path / "x")
    with pytest.raises(ConfigError, match="a shard must hold at least one edge, found 0"):
        denoise_to(model.trained_, graph, tmp_path / "y", edges_per_shard=0)
    with pytest.raises(GraphError, match="was trained on 300 features"):
        denoise_to(model.trained_, random_graph(1), tmp_path / "y")


# --- hubs ---


def test_a_hub_is_a_shard_by_itself_and_decided_as_in_memory(tmp_path, monkeypatch):
    leaves = 90
    edges = np.stack([np.zeros(leaves, dtype=np.int64), np.arange(1, leaves + 1)])
    rng = np.random.default_rng(0)
    label = np.arange(leaves + 1) % 2
    graph = Graph.build(edges, rng.normal(size=(leaves + 1, 4)) + label[:, None], label)
    model = fitted(graph, FAST.with_values({"policy": {"max_candidates": 8, "hidden": [8, 6]}}))
    whole = model.denoise(graph)
    monkeypatch.setattr("gdpnet.inference.select._CANDIDATES_AT_ONCE", 20)
    denoise_to(model.trained_, graph, tmp_path / "d", all_edges=True, edges_per_shard=50)
    about = json.loads((tmp_path / "d" / "shards.json").read_text())
    assert about["shards"][0] == [0, 1]
    assert np.allclose(rows(tmp_path / "d")["keep_probability"], whole.keep_probability, atol=1e-5)


# --- the commands ---


def test_denoise_and_embed_write_shards(model, tmp_path, capsys):
    write_store(noisy_graph(), tmp_path / "s")
    (tmp_path / "run").mkdir()
    model.save(tmp_path / "run" / "model.safetensors")
    words = [str(tmp_path / "run"), str(tmp_path / "s"), "--shards", "--edges-a-shard", "50", "--json"]
    assert main(["denoise", *words, "--out", str(tmp_path / "d"), "--all"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["shards"] == len(list((tmp_path / "d").glob("part-*.parquet"))) > 3
    assert len(rows(tmp_path / "d")["source"]) == said["edges"]
    assert main(["embed", *words, "--out", str(tmp_path / "e")]) == 0
    assert "80 embeddings of width 8" in capsys.readouterr().err
    assert main(["denoise", *words, "--out", str(tmp_path / "d.parquet")]) == 2
    assert "with --shards --out must be a folder" in capsys.readouterr().err
