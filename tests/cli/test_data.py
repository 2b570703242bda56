"""The commands that list, corrupt, generate and store graphs."""

import inspect
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gdpnet.cli import main
from gdpnet.cli.data import NOISE_KINDS, generate
from gdpnet.cli.options import COLUMN_ROLES, FEATURE_KINDS, SUFFIXES, TaskKind
from gdpnet.config import FeaturesSettings, TaskSettings
from gdpnet.data.datasets.streamed import GeneratedSettings
from gdpnet.data.graph import Graph
from gdpnet.data.io import csv_parquet as tables
from gdpnet.data.io.files import Columns, read_graph, write_tables
from gdpnet.data.io.npz import write_npz
from gdpnet.data.noise import folder as writing
from gdpnet.data.noise.adversarial import attacks
from gdpnet.data.noise.folder import write_noisy
from gdpnet.data.noise.registry import NOISES, corrupt_all
from gdpnet.errors import GDPNetError, GraphError
from helpers.commands import call, last_record, refuse, succeed, write_csv_graph
from helpers.graphs import assert_same, small_graph, without_truth
from helpers.small import FAST, noisy_graph, write_folder

STEPS = [("random-links", 0.5), ("deleted-links", 0.2), ("flipped-bits", 0.3), ("flipped-labels", 0.2)]
WORDS = [word for kind, rate in STEPS for word in ("--kind", f"{kind}={rate}")]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Return a folder with a graph and its corrupted self."""
    base = tmp_path_factory.mktemp("noise")
    write_folder(base / "graph")
    assert main(["noise", str(base / "graph"), "--out", str(base / "noisy"), *WORDS, "--seed", "3"]) == 0
    return base


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_folder_is_read_back_with_ids_and_split_and_the_npz_file_with_the_truth(base):
    expected = corrupt_all(read_graph(base / "graph"), STEPS, 3).graph
    assert_same(read_graph(base / "noisy"), without_truth(expected))
    assert_same(read_graph(base / "noisy" / "graph.npz"), expected)
    assert names_in(base / "noisy") == {
        "nodes.parquet",
        "edges.parquet",
        "features.parquet",
        "graph.npz",
        "changes.parquet",
        "changes.json",
    }
    edges = pq.read_table(base / "noisy" / "edges.parquet")
    assert edges["spurious"].to_pylist() == expected.truth.spurious.tolist()


def test_the_list_of_changes_turns_the_old_graph_into_the_new_one(base):
    before, after = read_graph(base / "graph"), read_graph(base / "noisy")
    rows = pq.read_table(base / "noisy" / "changes.parquet").to_pylist()
    links = {link_ids(before, one) for one in range(before.num_edges)}
    for row in rows:
        if row["change"] in ("added", "removed"):
            link = frozenset((row["source"], row["target"]))
            assert (link in links) == (row["change"] == "removed")
            links ^= {link}
    assert links == {link_ids(after, one) for one in range(after.num_edges)}
    labels = {row["node"]: (row["was"], row["now"]) for row in rows if row["change"] == "label"}
    for number, name in enumerate(before.node_ids):
        was, now = (graph.class_names[graph.labels[number]] for graph in (before, after))
        assert labels.get(name, (was, was)) == (was, now)
    differ = (before.features.to_scipy() != after.features.to_scipy()).toarray().any(axis=1)
    named = {row["node"] for row in rows if row["change"] == "features"}
    assert named == set(before.node_ids[differ])


def link_ids(graph: Graph, edge: int) -> frozenset[str]:
    return frozenset((graph.node_ids[graph.neighbour[edge]], graph.node_ids[graph.target[edge]]))


def test_the_command_says_what_it_changed(base, tmp_path, capsys):
    code, out, err = call(
        capsys, "noise", base / "graph", "--out", tmp_path / "new", *WORDS, "--seed", 3, "--json"
    )
    assert code == 0, err
    rows = pq.read_table(base / "noisy" / "changes.parquet")["change"].to_pylist()
    count = {
        "links_added": rows.count("added"),
        "links_removed": rows.count("removed"),
        "features_changed": rows.count("features"),
        "labels_changed": rows.count("label"),
    }
    assert min(count.values()) > 0
    kinds = [{"kind": kind, "rate": rate} for kind, rate in STEPS]
    about = {"graph": str(base / "graph"), "seed": 3, "kinds": kinds}
    edges = {
        "edges_before": read_graph(base / "graph").num_edges,
        "edges_added": 2 * count["links_added"],
        "edges_removed": 2 * count["links_removed"],
        "edges_after": read_graph(tmp_path / "new").num_edges,
    }
    assert json.loads(out) == about | {"out": str(tmp_path / "new")} | count | edges
    assert json.loads((base / "noisy" / "changes.json").read_text()) == about | {"directed": False} | count
    for name, value in (count | edges).items():
        assert f"{name.replace('_', ' ')}: {value}" in err
    for name in ("nodes.parquet", "edges.parquet", "features.parquet", "changes.parquet", "changes.json"):
        assert (tmp_path / "new" / name).read_bytes() == (base / "noisy" / name).read_bytes()


def test_the_corrupted_graph_trains(base, tmp_path, capsys):
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    settings = ("--config", tmp_path / "fast.toml", "--device", "cpu")
    code, _, err = call(capsys, "train", base / "noisy", "--out", tmp_path / "run", *settings)
    assert code == 0, err
    code, out, _ = call(capsys, "evaluate", tmp_path / "run", base / "noisy" / "graph.npz", "--device", "cpu")
    assert code == 0
    assert "spurious removed" in out  # the npz file knows which links are noise


def test_an_attack_is_a_kind_of_noise(tmp_path, capsys, monkeypatch):
    from gdpnet.data.noise import adversarial as attack

    monkeypatch.setattr(attack, "STEPS", 5)
    monkeypatch.setattr(attack, "BLOCK", 1000)
    write_npz(noisy_graph(), tmp_path / "graph.npz")
    words = ("--kind", "prbcd=0.1", "--device", "cpu", "--json")
    code, out, err = call(capsys, "noise", tmp_path / "graph.npz", "--out", tmp_path / "noisy", *words)
    assert code == 0, err
    record = json.loads(out.splitlines()[-1])
    assert 0 < record["links_added"] + record["links_removed"] <= 17  # a tenth of 168 links


def test_a_directed_graph_stays_directed(tmp_path, capsys):
    graph = without_truth(noisy_graph())
    graph = graph.keep_edges(graph.neighbour < graph.target)
    write_tables(graph, tmp_path / "graph")
    words = ("--directed", "--kind", "random-links=0.5", "--seed", 1)
    code, out, _ = call(capsys, "noise", tmp_path / "graph", "--out", tmp_path / "noisy", *words)
    assert code == 0
    assert "train on it with --directed" in out
    expected = corrupt_all(graph, [("random-links", 0.5)], 1).graph
    assert_same(read_graph(tmp_path / "noisy", directed=True), without_truth(expected))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("node_ids", [[30, 10, 20, 40], ["n1", "007", "a, b", "é"]], ids=["numbers", "text"])
def test_ids_unknown_labels_and_weights_come_back(tmp_path, sparse, node_ids):
    graph = small_graph(sparse=sparse, node_ids=node_ids)
    graph = replace(graph, edge_weight=torch.arange(1, 7) / 7)
    noisy = corrupt_all(graph, [("random-links", 0.4), ("swapped-features", 0.5)], 0)
    write_noisy(graph, noisy, tmp_path / "noisy")
    assert_same(read_graph(tmp_path / "noisy", directed=True), without_truth(noisy.graph))
    assert_same(read_graph(tmp_path / "noisy" / "graph.npz"), noisy.graph)
    rows = pq.read_table(tmp_path / "noisy" / "changes.parquet").to_pylist()
    added = [(row["source"], row["target"]) for row in rows if row["change"] == "added"]
    assert added == [(node_ids[left], node_ids[right]) for left, right in noisy.added.T.tolist()]


# --- the other commands ---


def test_datasets_are_listed_with_their_sizes_and_whether_they_are_here(tmp_path, capsys):
    out = succeed(capsys, "datasets", "--data-dir", tmp_path, "--json")
    rows = {row["name"]: row for row in last_record(out)["datasets"]}
    attacked = [f"cora-metattack-{rate}" for rate in ("0.05", "0.1", "0.15", "0.2", "0.25")]
    assert list(rows) == ["cora", "citeseer", "pubmed", "dblp", *attacked]
    assert (rows["cora"]["nodes"], rows["cora"]["links"], rows["cora"]["train"]) == (2708, 5278, 1208)
    assert [row["discount"] for row in rows.values()][:4] == [0.95, 1.0, 0.9, 0.95]
    assert [row["here"] for row in rows.values()] == [False] * 9
    assert "synthetic" in out


def test_the_options_of_generate_have_the_defaults_of_a_generated_graph():
    options = inspect.signature(generate).parameters
    for name in ("nodes", "features", "classes", "noise"):
        assert options[name].default == getattr(GeneratedSettings, name)


@pytest.mark.parametrize(("nodes", "edges"), [(30, 210), (500, 10_000), (10_000, GeneratedSettings.edges)])
def test_a_generated_graph_has_edges_that_fit_its_nodes_by_default(nodes, edges, capsys, tmp_path):
    out = succeed(capsys, "generate", "--nodes", nodes, "--out", tmp_path / "graph", "--json")
    assert last_record(out)["edges"] == edges


def test_names_that_the_help_lists_are_those_that_the_package_knows():
    assert set(NOISE_KINDS) == set(NOISES | attacks(torch.device("cpu")))
    assert [field.name for field in fields(Columns)] == [
        *COLUMN_ROLES,
        "drop",
        "text",
        "category",
        "edge_features",
        "dropped_edge_columns",
        "or_usual",
    ]
    assert SUFFIXES == tables.SUFFIXES
    choices = {item.metadata["choices"] for item in (*fields(TaskSettings), *fields(FeaturesSettings))}
    assert {get_args(TaskKind), FEATURE_KINDS} <= choices


# --- bad input ---


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("random-edges=0.5", "there is no noise 'random-edges'; did you mean 'random-links'?"),
        ("prbc=0.5", "there is no noise 'prbc'; did you mean 'prbcd'?"),
        ("random-links", "--kind must have the form kind=rate, found 'random-links'"),
        ("random-links=half", "--kind must have the form kind=rate, found 'random-links=half'"),
        ("deleted-links=2", "the rate of deleted-links is a share and must lie between 0 and 1, found 2"),
        ("deleted-links=nan", "the rate of deleted-links must be a number from 0, found nan"),
        (
            "random-links=90",
            "random-links=90 asks for 15,120 new links, but only 2,992 pairs of nodes are unlinked",
        ),
    ],
)
def test_bad_kinds_are_one_sentence_and_write_nothing(base, tmp_path, capsys, kind, sentence):
    assert refuse(capsys, "noise", base / "graph", "--out", tmp_path / "new", "--kind", kind) == sentence
    assert names_in(tmp_path) == set()


def test_a_command_without_a_kind_or_with_an_unknown_split_is_refused(base, tmp_path, capsys):
    words = ("noise", base / "graph", "--out", tmp_path / "new")
    assert "--kind" in refuse(capsys, *words)
    said = refuse(capsys, *words, "--kind", "deleted-links=0.1", "--split", "odd")
    assert said == "--split must be paper, random or shares that sum to 100, such as 60/20/20, found 'odd'"


def test_a_folder_with_files_and_a_file_are_refused_and_an_empty_folder_is_taken(base, tmp_path, capsys):
    words = ("noise", base / "graph", "--kind", "deleted-links=0.1", "--out")
    before = (base / "noisy" / "changes.json").read_bytes()
    sentence = refuse(capsys, *words, base / "noisy")
    assert (
        sentence
        == f"{base / 'noisy'} must be a new or an empty folder, found 'changes.json' in it; choose another --out"
    )
    assert (base / "noisy" / "changes.json").read_bytes() == before
    (tmp_path / "file").write_text("mine")
    assert refuse(capsys, *words, tmp_path / "file").endswith("found a file")
    (tmp_path / "empty").mkdir()
    assert call(capsys, *words, tmp_path / "empty")[0] == 0
    assert read_graph(tmp_path / "empty").num_nodes == 80


@pytest.mark.parametrize("problem", [OSError(28, "No space left"), GraphError("no"), KeyboardInterrupt()])
def test_a_folder_is_written_whole_or_not_at_all(tmp_path, monkeypatch, problem):
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(writing, "write_table", fail)
    graph = small_graph()
    with pytest.raises((GDPNetError, KeyboardInterrupt)):
        write_noisy(graph, corrupt_all(graph, [("deleted-links", 0.5)], 0), tmp_path / "new")
    assert names_in(tmp_path) == set()


def test_a_class_that_lost_all_its_nodes_is_still_named_in_the_changes(tmp_path):
    graph = Graph.build([[0], [1]], np.eye(2), [0, 1], split=[1, 0], class_names=["cat", "dog"])
    noisy = corrupt_all(graph, [("pair-labels", 1.0)], 0)
    write_noisy(graph, noisy, tmp_path / "noisy")
    (row,) = pq.read_table(tmp_path / "noisy" / "changes.parquet").to_pylist()
    assert row == {"change": "label", "source": None, "target": None, "node": 0, "was": "cat", "now": "dog"}
    assert read_graph(tmp_path / "noisy" / "graph.npz").class_names == ("cat", "dog")


@pytest.mark.parametrize("command", ["noise", "store"])
def test_numbers_as_labels_are_refused_unless_they_are_to_be_predicted(command, tmp_path, capsys):
    nodes = "id,label,x\n" + "".join(f"n{place},{place / 7:.3f},{place % 3}\n" for place in range(40))
    edges = "source,target\n" + "".join(f"n{place},n{place + 1}\n" for place in range(39))
    folder = write_csv_graph(tmp_path, nodes, edges)
    words = [command, folder, *(["--kind", "random-links=0.5"] if command == "noise" else [])]
    assert "labels are fractions such as 0.143: use --task regression" in refuse(
        capsys, *words, "--out", tmp_path / "out"
    )
    said = succeed(capsys, *words, "--task", "regression", "--out", tmp_path / "out")
    assert "numbers to predict; training 24, validation 8, test 8" in said
    again = read_graph(tmp_path / "out", task="regression")
    np.testing.assert_allclose(
        np.sort(again.targets.numpy()), [round(place / 7, 3) for place in range(40)], rtol=1e-6
    )
