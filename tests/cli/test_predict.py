"""The commands that use a trained model: evaluate, predict, embed, denoise and explain."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.estimator import GDPNet
from helpers.commands import EDGES, NODES, last_record, refuse, rows_of, succeed, train_words, write_csv_graph
from helpers.small import noisy_graph, write_folder

pytestmark = pytest.mark.slow  # nearly every test trains a model


def test_evaluate_scores_the_runs_own_graph_unless_another_is_named(base, capsys):
    own = last_record(succeed(capsys, "evaluate", base / "run", "--json", "--device", "cpu"))
    named = last_record(
        succeed(capsys, "evaluate", base / "run", base / "graph", "--json", "--device", "cpu")
    )
    metrics = json.loads((base / "run" / "metrics.json").read_text())
    assert own == named
    assert own["micro_f1"] == metrics["micro_f1"]
    assert own["kept_share"] == metrics["kept_share"]
    train = last_record(succeed(capsys, "evaluate", base / "run", "--split", "train", "--json"))
    assert (train["split"], train["nodes"]) == ("train", 40)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_embed_writes_one_row_per_node_with_the_users_ids(suffix, base, tmp_path, capsys):
    path = tmp_path / "new" / f"h.{suffix}"
    out = succeed(capsys, "embed", base / "run", "--out", path, "--json", "--device", "cpu")
    assert last_record(out)["nodes"] == 80
    rows = rows_of(path)
    assert list(rows[0]) == ["id", *(f"h{number}" for number in range(8))]
    assert [row["id"] for row in rows] == [f"{number:03d}" for number in range(80)]
    model = GDPNet.load(base / "run" / "model.safetensors", device="cpu")
    values = np.array([[float(row[f"h{number}"]) for number in range(8)] for row in rows])
    assert np.allclose(values, model.embed(read_graph(base / "graph")), atol=1e-6)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predict_writes_a_class_and_probabilities_per_node(suffix, base, tmp_path, capsys):
    path = tmp_path / f"predictions.{suffix}"
    out = succeed(capsys, "predict", base / "run", base / "graph", "--out", path, "--json")
    assert last_record(out)["out"] == str(path)
    rows = rows_of(path)
    names = ["topic 0", "topic 1", "topic 2"]
    assert list(rows[0]) == ["id", "predicted", *(f"p_{name}" for name in names)]
    assert rows[7]["id"] == "007"
    for row in rows:
        chances = [float(row[f"p_{name}"]) for name in names]
        assert sum(chances) == pytest.approx(1.0, abs=1e-4)
        assert row["predicted"] == names[int(np.argmax(chances))]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_denoise_writes_the_kept_edges_with_their_probability(suffix, base, tmp_path, capsys):
    path = tmp_path / f"edges.{suffix}"
    words = ("denoise", base / "run", "--out", path, "--threshold", "0.6", "--device", "cpu")
    record = last_record(succeed(capsys, *words, "--json"))
    graph = read_graph(base / "graph")
    cleaned = GDPNet.load(base / "run" / "model.safetensors", device="cpu").denoise(graph, threshold=0.6)
    rows = rows_of(path)
    assert list(rows[0]) == ["source", "target", "keep_probability"]
    assert 0 < len(rows) == cleaned.kept.sum() < 336
    assert record["kept_share"] == pytest.approx(len(rows) / 336)
    expected = zip(graph.node_ids[cleaned.graph.neighbour], graph.node_ids[cleaned.graph.target], strict=True)
    assert [(row["source"], row["target"]) for row in rows] == list(expected)
    assert all(float(row["keep_probability"]) >= 0.6 for row in rows)


def test_denoise_cleans_with_the_threshold_that_was_chosen_and_says_why(base, tmp_path, capsys):
    path = tmp_path / "edges.csv"
    words = ("denoise", base / "run", "--out", path, "--device", "cpu", "--json")
    out = succeed(capsys, *words)
    model = GDPNet.load(base / "run" / "model.safetensors", device="cpu")
    choice = model.threshold_
    assert choice.scores
    record = last_record(out)
    assert f"directed edges are kept ({record['kept_share']:.1%}); {choice.reason}\n" in out
    assert record["summary"].endswith(choice.reason)
    assert (record["threshold"], record["reason"]) == (choice.threshold, choice.reason)
    assert len(rows_of(path)) == model.denoise(read_graph(base / "graph")).kept.sum()
    asked = succeed(capsys, *words, "--threshold", "0.25")
    assert "; threshold 0.25, as asked for\n" in asked
    assert last_record(asked)["reason"] == "threshold 0.25, as asked for"
    assert last_record(asked)["threshold"] == 0.25


def test_denoise_without_validation_labels_says_that_no_threshold_was_chosen(base, tmp_path, capsys):
    graph = noisy_graph()
    write_folder(tmp_path / "graph", replace(graph, labels=torch.where(graph.split == 2, -1, graph.labels)))
    succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "graph"))
    out = succeed(capsys, "denoise", tmp_path / "run", "--out", tmp_path / "edges.csv", "--json")
    assert "; threshold 0.5: there was no validation node to choose it on\n" in out
    assert last_record(out)["threshold"] == 0.5


def test_denoise_writes_all_edges_and_separate_directions_if_asked(base, tmp_path, capsys):
    path = tmp_path / "edges.parquet"
    succeed(capsys, "denoise", base / "run", "--out", path, "--all", "--threshold", "0.6")
    rows = rows_of(path)
    assert len(rows) == 336
    assert all(row["kept"] == (row["keep_probability"] >= 0.6) for row in rows)
    together = {(row["source"], row["target"]): row["keep_probability"] for row in rows}
    assert all(together[target, source] == chance for (source, target), chance in together.items())
    succeed(capsys, "denoise", base / "run", "--out", path, "--all", "--one-way")
    apart = {(row["source"], row["target"]): row["keep_probability"] for row in rows_of(path)}
    assert any(apart[target, source] != chance for (source, target), chance in apart.items())


def test_a_cleaned_edge_list_is_a_graph_that_commands_read(base, tmp_path, capsys):
    shutil.copytree(base / "graph", tmp_path / "clean")
    path = tmp_path / "clean" / "edges.csv"
    words = ("denoise", base / "run", "--out", path, "--threshold", "0.6")
    assert "this command did not write it" in refuse(capsys, *words)
    succeed(capsys, *words, "--force")
    kept = len(rows_of(path))
    out = succeed(capsys, "evaluate", base / "run", tmp_path / "clean")
    assert f"80 nodes, {kept} directed edges" in out


def test_explain_shows_the_decisions_in_order(base, capsys):
    out = succeed(capsys, "explain", base / "run", base / "graph", "--node", "007", "--json")
    record = last_record(out)
    graph = read_graph(base / "graph")
    neighbours = graph.node_ids[graph.neighbour[graph.row_ptr[7] : graph.row_ptr[8]]]
    assert record["node"] == "007"
    assert sorted(one["neighbour"] for one in record["decisions"]) == list(neighbours)
    assert f"node 007: predicted '{record['predicted']}' with probability" in out
    for name in neighbours:
        assert f"│ {name} " in out


def test_explanations_of_many_nodes_are_a_table(base, tmp_path, capsys):
    words = ["explain", base / "run", base / "graph", "--out", tmp_path / "why.csv"]
    assert last_record(succeed(capsys, *words, "--json"))["nodes"] == 80
    rows, graph = rows_of(tmp_path / "why.csv"), read_graph(base / "graph")
    assert len(rows) == graph.num_edges + 80
    succeed(capsys, "predict", base / "run", base / "graph", "--out", tmp_path / "p.csv")
    for said in rows_of(tmp_path / "p.csv")[::7]:
        mine = [row for row in rows if row["node"] == said["id"]]
        assert [row["neighbour"] for row in mine].count("") == 1
        total = sum(float(row["contribution"]) for row in mine)
        assert total == pytest.approx(float(said[f"p_{said['predicted']}"]), abs=1e-5)
    succeed(capsys, *words, "--nodes", "007,003")
    assert {row["node"] for row in rows_of(tmp_path / "why.csv")} == {"007", "003"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--node", "007", "--out", "e.csv"], "explain needs either --node, or --out"),
        (["--node", "007", "--nodes", "003"], "--nodes and --nodes-from name the nodes of --out"),
        (["--out", "e.txt"], "--out must end in .csv or .parquet"),
    ],
)
def test_explain_wants_one_node_or_a_table(words, sentence, base, capsys):
    assert refuse(capsys, "explain", base / "run", base / "graph", *words).startswith(sentence)


def test_brackets_in_ids_and_classes_are_printed_as_they_are(base, tmp_path, capsys):
    graph = noisy_graph()
    names = [f"[/]{number}" for number in range(80)]
    odd = replace(graph, node_ids=np.array(names), class_names=("[red]a", "[/]", ":smile:"))
    write_folder(tmp_path / "odd", odd)
    succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "odd"))
    out = succeed(capsys, "explain", tmp_path / "run", tmp_path / "odd", "--node", "[/]7")
    neighbours = graph.neighbour[graph.row_ptr[7] : graph.row_ptr[8]].tolist()
    assert out.startswith("node [/]7: predicted '")
    for number in neighbours:
        assert f"│ {names[number]} " in out
        assert odd.class_names[graph.labels[number]] in out


def test_candidates_two_hops_away_are_trained_with_and_explained(base, tmp_path, capsys):
    succeed(capsys, *train_words(base, tmp_path / "far"), "--hops", "2")
    out = succeed(capsys, "explain", tmp_path / "far", base / "graph", "--node", "007", "--json")
    assert " hops " in out
    assert {one["distance"] for one in last_record(out)["decisions"]} == {1, 2}
    succeed(capsys, "denoise", tmp_path / "far", "--out", tmp_path / "edges.csv", "--all")
    assert len(rows_of(tmp_path / "edges.csv")) == read_graph(base / "graph").num_edges


def test_a_model_predicts_on_an_unseen_graph(base, tmp_path, capsys):
    write_folder(tmp_path / "unseen", noisy_graph(nodes=60, seed=5))
    out = succeed(capsys, "predict", base / "run", tmp_path / "unseen", "--out", tmp_path / "p.csv", "--json")
    assert last_record(out)["nodes"] == 60


def test_numeric_node_ids_stay_numeric(base, tmp_path, capsys):
    graph: Graph = replace(noisy_graph(), node_ids=np.arange(100, 180))
    write_tables(graph, tmp_path / "graph", "parquet")
    succeed(capsys, "predict", base / "run", tmp_path / "graph", "--out", tmp_path / "p.parquet")
    assert [row["id"] for row in rows_of(tmp_path / "p.parquet")] == list(range(100, 180))


# --- bad input ---


@pytest.mark.parametrize("command", ["evaluate", "embed", "predict", "denoise", "explain"])
def test_features_of_another_width_are_refused_by_every_command(command, base, tmp_path, capsys):
    folder = write_csv_graph(tmp_path, NODES, EDGES)
    more = {"evaluate": [], "explain": ["--node", "n0"]}.get(command, ["--out", tmp_path / "out.csv"])
    said = refuse(capsys, command, base / "run", folder, *more)
    assert said == "the model was trained on 300 features, this graph has 2"
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("harm", ["cut", "flipped", "pickle"])
def test_a_damaged_model_file_is_refused(harm, base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    file = tmp_path / "run" / "model.safetensors"
    content = bytearray(file.read_bytes())
    if harm == "cut":
        content = content[: len(content) // 2]
    elif harm == "flipped":
        content[-1] ^= 1
    else:
        content = bytearray(b"\x80\x04N.")
    file.write_bytes(content)
    said = refuse(capsys, "predict", tmp_path / "run", "--out", tmp_path / "p.csv")
    sentence = "was changed after it was written" if harm == "flipped" else "is not a readable model file"
    assert sentence in said
    assert not (tmp_path / "p.csv").exists()


def test_a_node_that_is_not_in_the_graph_cannot_be_explained(base, capsys):
    said = refuse(capsys, "explain", base / "run", base / "graph", "--node", "7")
    assert said == "the graph has no node '7'"


def test_a_split_without_labels_cannot_be_scored(base, tmp_path, capsys):
    graph = noisy_graph()
    write_folder(tmp_path / "graph", replace(graph, split=graph.split.clamp(max=2)))
    said = refuse(capsys, "evaluate", base / "run", tmp_path / "graph")
    assert said.startswith("the graph has no labelled test node to score on")


def test_a_threshold_that_is_no_probability_is_refused(base, tmp_path, capsys):
    said = refuse(capsys, "denoise", base / "run", "--threshold", "1.5", "--out", tmp_path / "e.csv")
    assert said == "the threshold of a keep probability must lie between 0 and 1, found 1.5"
    assert not (tmp_path / "e.csv").exists()


def test_nodes_from_their_surroundings_must_be_named(base, capsys, tmp_path):
    assert "--nodes" in refuse(capsys, "predict", base / "run", "--as-served", "--out", tmp_path / "p.csv")
    words = ("denoise", base / "run", "--nodes", "007", "--one-way", "--out", tmp_path / "e.csv")
    assert "--one-way" in refuse(capsys, *words)


def test_answers_from_surroundings_are_those_of_the_whole_graph(base, capsys, tmp_path):
    found = []
    for name, words in (("whole", ()), ("near", ("--as-served",))):
        path = tmp_path / f"{name}.csv"
        succeed(
            capsys, "predict", base / "run", "--nodes", "007,011", *words, "--out", path, "--device", "cpu"
        )
        found.append([[float(value) for value in list(row.values())[2:]] for row in rows_of(path)])
    assert np.allclose(*found, atol=1e-6)
