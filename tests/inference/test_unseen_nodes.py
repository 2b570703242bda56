"""Nodes and graphs that training did not see, feature columns by name, and directed edges."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import csv

from gdpnet.cli import main
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.data.io.npz import write_npz
from gdpnet.data.io.store import open_store, write_store
from gdpnet.data.noise.registry import corrupt
from gdpnet.errors import GraphError
from gdpnet.estimator import GDPNet
from helpers.commands import refuse
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model

FAST_WORDS = [
    f"--set={part}"
    for part in (
        "training.epochs=2",
        "training.warmup=8",
        "representation.width=8",
        "representation.learning_rate=0.05",
        "policy.hidden=[8,6]",
        "inference.episodes=2",
        "hopwise.use=false",
        "gcn.use=false",
    )
]


def dense(graph: Graph, columns: int = 6) -> Graph:
    """Return the graph with a few dense columns, which hint at the class, in place of its words."""
    noise = np.random.default_rng(0).normal(size=(graph.num_nodes, columns)) * 0.3
    rows = np.eye(columns)[graph.labels] + noise
    return replace(graph, features=torch.from_numpy(rows.astype(np.float32)), truth=None)


def reordered(graph: Graph, seed: int = 0) -> Graph:
    """Return the same graph with its nodes in another order."""
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    place = torch.argsort(order)
    return Graph.build(
        place[torch.stack([graph.neighbour, graph.target])],
        graph.features[order],
        graph.labels[order],
        split=graph.split[order],
        node_ids=graph.node_ids[order.numpy()],
        class_names=graph.class_names,
        directed=True,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Train on some nodes of a graph by the command line; the other nodes are in no file until later."""
    folder = tmp_path_factory.mktemp("unseen")
    whole = dense(noisy_graph(120))
    old = whole.induced(torch.arange(90))
    assert set(old.node_ids) < set(whole.node_ids)
    write_tables(old, folder / "old", "csv")
    write_tables(reordered(whole), folder / "new", "csv")
    assert main(["train", str(folder / "old"), "--out", str(folder / "run"), *FAST_WORDS]) == 0
    return folder


# --- new nodes by the command line ---


def test_nodes_that_were_in_no_file_are_predicted_one_at_a_time_or_many(folders, tmp_path):
    new = [f"{number:03d}" for number in range(90, 120)]
    texts = [(folders / "old" / name).read_text(encoding="utf-8") for name in ("nodes.csv", "edges.csv")]
    assert not any(node in text.replace("\n", ",").split(",") for node in new for text in texts)
    words = ["predict", str(folders / "run"), str(folders / "new")]
    whole, some, one, many = (tmp_path / f"{name}.csv" for name in ("whole", "some", "one", "many"))
    (tmp_path / "ids.txt").write_text("\n".join(reversed(new)) + "\n\n", encoding="utf-8")
    assert main([*words, "--out", str(whole)]) == 0
    assert main([*words, "--nodes", "117,003, 091", "--out", str(some)]) == 0
    assert main([*words, "--nodes", "117", "--out", str(one)]) == 0
    assert main([*words, "--nodes-from", str(tmp_path / "ids.txt"), "--out", str(many)]) == 0
    convert = csv.ConvertOptions(column_types={"id": "string"})
    tables = [csv.read_csv(path, convert_options=convert).to_pylist() for path in (whole, some, one, many)]
    assert [row["id"] for row in tables[1]] == ["117", "003", "091"]
    assert [row["id"] for row in tables[2]] == ["117"]
    assert [row["id"] for row in tables[3]] == new[::-1]
    known = {row["id"]: row for row in tables[0]}
    for row in [part for table in tables[1:] for part in table]:
        assert row["predicted"] == known[row["id"]]["predicted"]
        chances = [value for name, value in row.items() if name.startswith("p_")]
        expected = [value for name, value in known[row["id"]].items() if name.startswith("p_")]
        assert chances == pytest.approx(expected, abs=1e-4)


def test_new_nodes_are_predicted_better_than_by_chance(folders):
    graph = read_graph(folders / "new")
    model = GDPNet.load(folders / "run" / "model.safetensors", device="cpu")
    new = graph.numbers_of([f"{number:03d}" for number in range(90, 120)])
    truth = np.array(graph.class_names)[graph.labels[new]]
    assert (model.predict(graph, new) == truth).mean() > 0.5


def test_embed_writes_the_nodes_that_are_named(folders, tmp_path):
    out = tmp_path / "embedded.parquet"
    assert (
        main(["embed", str(folders / "run"), str(folders / "new"), "--nodes", "119", "--out", str(out)]) == 0
    )
    table = pq.read_table(out)
    assert table["id"].to_pylist() == ["119"]
    graph = read_graph(folders / "new")
    model = GDPNet.load(folders / "run" / "model.safetensors", device="cpu")
    found = [table[f"h{place}"][0].as_py() for place in range(8)]
    np.testing.assert_allclose(found, model.embed(graph, graph.numbers_of(["119"]))[0], atol=1e-5)


def test_nodes_that_cannot_be_written_are_refused(folders, tmp_path, capsys):
    words = ["predict", folders / "run", folders / "new", "--out", tmp_path / "out.csv"]
    assert refuse(capsys, *[*words, "--nodes", "003,nobody"]) == "the graph has no node 'nobody'"
    assert refuse(capsys, *[*words, "--nodes", " , "]).endswith("must name at least one node, found none")
    missing = tmp_path / "missing.txt"
    assert refuse(capsys, *[*words, "--nodes-from", missing]).endswith(
        f"one node id per line, found {missing}"
    )
    shards = [
        "embed",
        folders / "run",
        folders / "new",
        "--shards",
        "--out",
        tmp_path / "s",
        "--nodes",
        "003",
    ]
    assert refuse(capsys, *shards) == "--shards writes all nodes: leave --nodes and --nodes-from out"


def test_numbers_of_ids_follow_the_ids():
    graph = Graph.build([], torch.ones(4, 1), node_ids=np.array([30, 4, 200, 11]))
    assert graph.numbers_of([200, "30", 11]).tolist() == [2, 0, 3]
    assert graph.numbers_of([]).tolist() == []
    with pytest.raises(GraphError, match=r"^the graph has no node '5'$"):
        graph.numbers_of([4, 5])


# --- names of feature columns ---


def test_feature_names_come_back_from_every_kind_of_file(tmp_path):
    names = tuple("fedcba")
    graph = replace(dense(noisy_graph()), feature_names=names)
    write_tables(graph, tmp_path / "tables", "csv")
    write_npz(graph, tmp_path / "graph.npz")
    write_store(graph, tmp_path / "store")
    for found in (
        read_graph(tmp_path / "tables"),
        read_graph(tmp_path / "graph.npz"),
        open_store(tmp_path / "store"),
    ):
        assert found.feature_names == names
        assert torch.equal(found.features, graph.features)
    rows = SparseRows(torch.tensor([0, 1, 1]), torch.tensor([1]), torch.ones(1), 3)
    sparse = replace(Graph.build([[0], [1]], rows), feature_names=("a", "b", "c"))
    write_tables(sparse, tmp_path / "sparse", "parquet")
    found = read_graph(tmp_path / "sparse")
    assert found.feature_names == ("a", "b", "c")
    assert found.features.to_scipy().toarray().tolist() == rows.to_scipy().toarray().tolist()


def test_columns_are_found_by_name_and_a_missing_one_is_refused(tmp_path):
    graph = replace(dense(noisy_graph()), feature_names=tuple("abcdef"))
    model = fitted(graph)
    assert model.feature_names_in_.tolist() == list("abcdef")
    model.save(tmp_path / "model.safetensors")
    model = GDPNet.load(tmp_path / "model.safetensors", device="cpu")
    assert model.feature_names_in_.tolist() == list("abcdef")
    turned = replace(graph, features=graph.features.flip(1), feature_names=tuple("fedcba"))
    assert np.array_equal(model.predict_proba(turned), model.predict_proba(graph))
    with pytest.raises(GraphError, match="must have the feature 'c' of training"):
        model.predict(replace(graph, feature_names=tuple("abzdef")))
    nameless = replace(graph, feature_names=None)
    assert np.array_equal(model.predict(nameless), model.predict(graph))
    assert not hasattr(fitted(nameless), "feature_names_in_")


def test_columns_of_a_table_in_another_order_are_found_by_name(folders, tmp_path):
    graph = read_graph(folders / "new")
    columns = graph.table.columns
    turned = replace(
        graph, table=replace(graph.table, columns=columns.select(list(reversed(columns.column_names))))
    )
    write_tables(turned, tmp_path / "turned", "csv")
    for name, folder in (("turned", tmp_path / "turned"), ("new", folders / "new")):
        words = ["predict", folders / "run", folder, "--out", tmp_path / f"{name}.csv", "--device", "cpu"]
        assert main([str(word) for word in words]) == 0
    assert (tmp_path / "turned.csv").read_text() == (tmp_path / "new.csv").read_text()


# --- one-way edges ---


def one_way(nodes: int = 80) -> Graph:
    """Return the noisy graph with one direction of each link alone, from the higher number to the lower."""
    graph = dense(noisy_graph(nodes))
    return graph.keep_edges(graph.neighbour > graph.target)


def test_a_target_aggregates_from_the_sources_of_its_edges_only():
    graph = one_way()
    config = FAST.with_values({"representation": {"hops": 1}})
    model = fitted(graph, config)
    node = int(graph.degree.argmax())
    source = int(graph.neighbour[graph.row_ptr[node]])
    before = model.embed(graph)
    changed = graph.features.clone()
    changed[source] = changed[source].flip(0) * 3.0 + 1.0
    differs = before[node] != model.embed(replace(graph, features=changed))[node]
    assert differs.any()
    changed = graph.features.clone()
    changed[node] = changed[node].flip(0) * 3.0 + 1.0
    after = model.embed(replace(graph, features=changed))
    receivers = set(graph.target[graph.neighbour == node].tolist())
    assert source not in receivers
    np.testing.assert_allclose(after[source], before[source], atol=1e-6)


def test_a_directed_run_stays_directed_and_one_without_the_flag_has_edges_both_ways(tmp_path, capsys):
    graph = one_way()
    write_tables(graph, tmp_path / "graph", "csv")
    for flag, edges in ((["--directed"], graph.num_edges), ([], 2 * graph.num_edges)):
        run = str(tmp_path / f"run{len(flag)}")
        assert main(["train", str(tmp_path / "graph"), "--out", run, *FAST_WORDS, *flag]) == 0
        out = tmp_path / f"edges{len(flag)}.parquet"
        for words in (["denoise", run, "--all"], ["denoise", run, str(tmp_path / "graph"), "--all"]):
            assert main([*words, "--out", str(out)]) == 0
            assert pq.read_table(out).num_rows == edges
        write_tables(graph, tmp_path / f"other{len(flag)}", "csv")
        other = ["denoise", run, str(tmp_path / f"other{len(flag)}"), "--all", "--out", str(out)]
        assert main(other) == 0
        assert pq.read_table(out).num_rows == edges
        assert main([*other, "--undirected"]) == 0
        assert pq.read_table(out).num_rows == 2 * graph.num_edges
        assert main([*other, "--directed"]) == 0
        assert pq.read_table(out).num_rows == graph.num_edges
        for command in ("predict", "embed"):
            table = tmp_path / f"{command}{len(flag)}.parquet"
            assert main([command, run, "--out", str(table)]) == 0
            assert pq.read_table(table).num_rows == graph.num_nodes


def test_noise_and_comparisons_keep_the_direction(tmp_path):
    graph = one_way()
    write_tables(graph, tmp_path / "graph", "csv")
    noisy = tmp_path / "noisy"
    words = ["noise", str(tmp_path / "graph"), "--kind", "random-links=0.5", "--out", str(noisy)]
    assert main([*words, "--directed"]) == 0
    found = read_graph(noisy / "graph.npz")
    assert found.num_edges == corrupt(graph, "random-links", 0.5, 0).graph.num_edges
    assert found.num_edges < 2 * graph.num_edges
    records = tmp_path / "records.jsonl"
    compare = [
        "robustness",
        "--dataset",
        str(tmp_path / "graph"),
        "--directed",
        "--rates",
        "0.5",
        "--seeds",
        "1",
    ]
    compare += ["--methods", "gdpnet,gcn", "--records", str(records), "--device", "cpu", *FAST_WORDS]
    assert main(compare) == 0
    text = records.read_text(encoding="utf-8")
    assert text.count("(directed)") == 2
    assert '"error"' not in text


@pytest.mark.parametrize("name", ["id", "label", "split"])
def test_a_feature_with_the_name_of_another_column_does_not_overwrite_it(tmp_path, name):
    rows = np.arange(6.0).reshape(3, 2)
    graph = Graph.build([[0, 1], [1, 2]], rows, [0, 1, 0], split=[1, 2, 3], class_names=["a", "b"])
    write_tables(graph.with_feature_names([name, "x"]), tmp_path / "graph")
    again = read_graph(tmp_path / "graph")
    assert again.labels.tolist() == [0, 1, 0]
    assert again.node_ids.tolist() == [0, 1, 2]
    assert np.allclose(again.features.numpy(), rows)


def test_names_must_be_as_many_as_columns():
    graph = Graph.build([[0], [1]], np.ones((2, 3)))
    with pytest.raises(GraphError, match="there must be a name for each of 3 feature columns, found 1"):
        graph.with_feature_names(["a"])
