"""Answers of the server: bit for bit those of the command line, whatever else is asked."""

import gc
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gdpnet.cli import main
from gdpnet.data.graph import Graph
from gdpnet.data.io.npz import write_npz
from gdpnet.data.io.store import open_store, write_store
from gdpnet.estimator import GDPNet
from gdpnet.inference.ensemble import HeadWeights
from gdpnet.inference.threshold import Choice
from gdpnet.representation.gcn import GCN
from helpers.commands import last_record, succeed
from helpers.server import ServerProcess, need_server

need_server()

from gdpnet.web.server.served import OTHERS_STAY, Place, Served  # noqa: E402

pytestmark = pytest.mark.slow

NODES = ["n3", "n40", "n7", "<script>alert(1)</script>"]


def rows(command: str, place, path, *words: object, run: str = "run") -> list[dict]:
    """Run a command for named nodes and return what it wrote."""
    named = () if command == "denoise" else ("--as-served",)
    given = [command, place / run, *words, *named, "--out", path, "--device", "cpu", "--force"]
    assert main([str(word) for word in given]) == 0
    return pq.read_table(path).to_pylist()


def test_predictions_of_stored_nodes_are_those_of_the_command_line(server, place, tmp_path, capsys):
    written = rows("predict", place, tmp_path / "p.parquet", place / "store", "--nodes", ",".join(NODES))
    found = server.results("predict", targets=NODES)
    assert [one["node_id"] for one in found] == NODES
    for one, other in zip(found, written, strict=True):
        assert one["predicted"] == other["predicted"]
        assert {f"p_{name}": value for name, value in one["probabilities"].items()} == {
            name: value for name, value in other.items() if name.startswith("p_")
        }


def test_embeddings_of_stored_nodes_are_those_of_the_command_line(server, place, tmp_path, capsys):
    written = rows("embed", place, tmp_path / "h.parquet", place / "store", "--nodes", ",".join(NODES))
    found = server.results("embed", targets=NODES)
    assert [one["embedding"] for one in found] == [list(other.values())[1:] for other in written]


def test_decisions_on_edges_are_those_of_the_command_line(server, place, tmp_path, capsys):
    words = (place / "store", "--nodes", ",".join(NODES), "--all", "--threshold", 0.4)
    written = rows("denoise", place, tmp_path / "e.parquet", *words)
    found = server.results("denoise", targets=NODES, threshold=0.4)
    told = [edge | {"target": one["node_id"]} for one in found for edge in one["edges"]]
    assert len(told) == len(written) > 5
    for one, other in zip(told, written, strict=True):
        assert (one["src_node_id"], one["target"]) == (other["source"], other["target"])
        assert one["dest_node_id"] == one["target"]
        for name in ("keep_probability", "genuine_probability", "kept"):
            assert one[name] == other[name]


def test_explanations_are_those_of_the_command_line(server, place, capsys):
    words = (
        "explain",
        place / "run",
        place / "store",
        "--node",
        "n31",
        "--as-served",
        "--json",
        "--device",
        "cpu",
    )
    written = last_record(succeed(capsys, *words))
    (found,) = server.results("explain", targets=["n31"])
    assert len(found["decisions"]) > 3
    for name in ("predicted", "probability", "probability_alone", "threshold"):
        assert found[name] == written[name]
    for one, other in zip(found["decisions"], written["decisions"], strict=True):
        assert one["evidence"]
        assert {name: one[name] for name in other if name in one} == {
            n: v for n, v in other.items() if n in one
        }


def new_nodes() -> dict:
    """Return a request with two new nodes, attached to each other and to stored ones."""
    return {
        "nodes": [
            {"node_id": "x", "features": [0.9, 0.1, 0.2, -0.3, 0.4]},
            {"node_id": "y", "features": {"wings": 0.1, "legs": 1, "fur": 0.2, "weight": 0.0, "age": 0.5}},
        ],
        "edges": [
            {"src_node_id": "x", "dest_node_id": "n3"},
            {"src_node_id": "y", "dest_node_id": "x"},
            {"src_node_id": "n8", "dest_node_id": "y"},
        ],
    }


def extended(graph: Graph, request: dict) -> Graph:
    """Return the stored graph with the nodes and edges of a request, built at once."""
    names = {
        str(one): place
        for place, one in enumerate([*graph.node_ids, *(n["node_id"] for n in request["nodes"])])
    }
    given = [
        list(n["features"].values()) if isinstance(n["features"], dict) else n["features"]
        for n in request["nodes"]
    ]
    ends = [[names[edge[side]] for edge in request["edges"]] for side in ("src_node_id", "dest_node_id")]
    return Graph.build(
        np.concatenate([graph.edge_index.numpy(), np.array(ends)], axis=1),
        np.concatenate([graph.features.numpy(), np.array(given, dtype=np.float32)]),
        [*graph.labels.tolist(), *[-1] * len(given)],
        node_ids=list(names),
        class_names=graph.class_names,
    ).with_feature_names(graph.feature_names)


def test_new_nodes_get_the_answers_of_a_graph_that_has_them(server, place, tmp_path, capsys):
    request = new_nodes()
    write_npz(extended(open_store(place / "store"), request), tmp_path / "whole.npz")
    names = ["x", "y", "n3"]
    written = rows(
        "predict", place, tmp_path / "p.parquet", tmp_path / "whole.npz", "--nodes", ",".join(names)
    )
    found = server.results("predict", **request, targets=names)
    assert [list(one["probabilities"].values()) for one in found] == [
        list(row.values())[2:] for row in written
    ]


def test_a_request_may_be_a_graph_of_its_own_in_graphstorms_form(server, place, tmp_path, capsys):
    request = new_nodes()
    request["edges"] = request["edges"][1:2]
    empty = Graph.build(
        [[0], [1]], [[0.9, 0.1, 0.2, -0.3, 0.4], [0.1, 1, 0.2, 0, 0.5]], node_ids=["x", "y"]
    ).with_feature_names(open_store(place / "store").feature_names)
    write_npz(empty, tmp_path / "own.npz")
    written = rows("predict", place, tmp_path / "p.parquet", tmp_path / "own.npz", "--nodes", "x,y")
    body = {"version": "gs-realtime-v0.1", "gml_task": "node_classification", "request_uid": "u1"}
    body |= {"graph": request, "targets": [{"node_id": "x", "node_type": "animal"}, {"node_id": "y"}]}
    status, answer, _ = server.ask("POST", "/v1/predict", body)
    assert (status, answer["request_uid"]) == (200, "u1")
    assert [list(one["probabilities"].values()) for one in answer["results"]] == [
        list(row.values())[2:] for row in written
    ]


def test_random_requests_get_the_same_bits_alone_and_among_others(server):
    rng, requests = np.random.default_rng(0), []
    for number in range(40):
        near = [f"n{one}" for one in rng.choice(50, size=rng.integers(0, 4), replace=False)]
        body = {
            "nodes": [{"node_id": "new", "features": rng.normal(size=5).tolist()}],
            "edges": [{"src_node_id": "new", "dest_node_id": one} for one in near],
            "targets": ["new", *near],
        }
        requests.append((("predict", "embed", "denoise", "explain")[number % 4], body))
    alone = [server.results(question, **body) for question, body in requests]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda one: server.results(one[0], **one[1]), [*requests, *requests[::-1]]))
    assert json.dumps(together[:40]) == json.dumps(alone)
    assert json.dumps(together[40:][::-1]) == json.dumps(alone)
    assert "gdpnet_batch_requests_count" in server.ask("GET", "/metrics")[1]


@pytest.fixture(scope="module")
def deep(place):
    """Return the folder with one more run: its GCN head reads the cleaned graph."""
    model = GDPNet.load(place / "run", device="cpu")
    trained = model.trained_
    trained.networks.gcn = GCN(5, 8, 3)
    trained.networks.gcn.initialise(torch.Generator().manual_seed(0))
    weights = HeadWeights(aggregator=0.5, gcn=0.5)
    (place / "deep").mkdir()
    replace(trained, weights=weights, threshold=Choice(0.5)).save(place / "deep" / "model.safetensors")
    return place


def test_stored_decisions_give_the_bits_of_the_command_line_and_are_made_once(deep, tmp_path, capsys):
    request, names = new_nodes(), ["x", "y", "n3"]
    write_npz(extended(open_store(deep / "store"), request), tmp_path / "whole.npz")
    words = (tmp_path / "p.parquet", tmp_path / "whole.npz", "--nodes", ",".join(names))
    written = rows("predict", deep, *words, run="deep")
    answers, made, tables = [], [], tmp_path / "tables"
    for number, option in enumerate((("--tables", tables), ("--tables", tables), ("--no-tables",))):
        running = ServerProcess(deep / "deep", deep / "store", tmp_path / f"log{number}", *option)
        answers.append(running.results("predict", **request, targets=names))
        assert running.ask("GET", "/v1/model")[1]["stored_decisions"] == (number < 2)
        if number < 2:
            running.wait_for("tables of the stored graph")
            made.append({path: path.stat().st_mtime_ns for path in tables.rglob("decision-*.npy")})
        assert running.stop() == 0
    assert json.dumps(answers[0]) == json.dumps(answers[1]) == json.dumps(answers[2])
    assert len(made[0]) == 1
    assert made[0] == made[1]
    found = [list(one["probabilities"].values()) for one in answers[0]]
    assert found == [list(row.values())[2:] for row in written]


def table_folders(folder):
    """Return the names of the folders of tables."""
    return sorted(path.name for path in folder.iterdir())


def test_tables_of_what_the_store_was_before_are_deleted_and_those_of_other_models_named(deep, tmp_path):
    store, tables = tmp_path / "store", tmp_path / "store.tables"
    graph = open_store(deep / "store")
    shutil.copytree(deep / "store", store)
    other = GDPNet.load(deep / "deep", device="cpu").trained_
    (tmp_path / "other").mkdir()
    replace(other, threshold=Choice(0.6)).save(tmp_path / "other" / "model.safetensors")
    first = Served.load(Place(deep / "deep", store, tables=tables, tables_named=False))
    Served.load(Place(tmp_path / "other", store, tables=tables, tables_named=False))
    gc.collect()  # the second is not in use any more
    before = table_folders(tables)
    assert len(before) == 2
    (tables / "notes").mkdir()
    (tables / f"{'0' * 16}-{'0' * 16}").mkdir()  # not tables, whatever its name says
    shutil.rmtree(store)
    write_store(graph.induced(torch.arange(graph.num_nodes - 1)), store)
    running = ServerProcess(deep / "deep", store, tmp_path / "log")
    told = running.wait_for(OTHERS_STAY)
    assert first.stored.folder.name in told  # it is in use
    assert running.stop() == 0
    after = table_folders(tables)
    assert first.stored.folder.name in after
    assert len(set(before) & set(after)) == 1
    del first
    gc.collect()
    Served.load(Place(deep / "deep", store, tables=tables, tables_named=False))
    assert not set(before) & set(table_folders(tables))
    assert {"notes", f"{'0' * 16}-{'0' * 16}"} < set(table_folders(tables))


@pytest.mark.parametrize("name", ["tables", "store.tables"])
def test_tables_in_a_folder_that_was_named_are_never_deleted(deep, name, tmp_path):
    store, tables = tmp_path / "store", tmp_path / name
    graph = open_store(deep / "store")
    shutil.copytree(deep / "store", store)
    for number in range(2):
        running = ServerProcess(deep / "deep", store, tmp_path / f"log{number}", "--tables", tables)
        running.wait_for("tables of the stored graph")
        assert running.stop() == 0
        shutil.rmtree(store)
        write_store(graph.induced(torch.arange(graph.num_nodes - 1)), store)
    assert len(table_folders(tables)) == 2


def test_tables_that_cannot_be_written_are_refused_in_one_sentence(deep, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    given = ["serve", deep / "deep", "--graph", deep / "store", "--tables", tmp_path / "file", "--port", "0"]
    assert main([str(word) for word in given]) == 1
    said = capsys.readouterr().err
    assert f"cannot write {tmp_path / 'file'}" in said
    assert "Traceback" not in said
