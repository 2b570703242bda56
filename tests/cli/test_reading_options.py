"""Options that say how tables are read: they are remembered by a run, and errors name them."""

import json

import pytest

from helpers.commands import (
    EDGES,
    NODES,
    call,
    last_record,
    refuse,
    rows_of,
    succeed,
    train_words,
    write_csv_graph,
)

pytestmark = pytest.mark.slow  # nearly every test trains a model

LOOSE = EDGES.replace("\n", ",2.5\n").replace("target,2.5", "target,weight") + "n0,n9,1\n,n1,1\n"
"""Edges with weights, and with two whose nodes are not known."""


def test_a_run_reads_its_graph_again_with_the_options_of_training(base, tmp_path, capsys):
    folder, words = write_csv_graph(tmp_path, NODES, LOOSE), train_words(base, tmp_path / "run")
    words[1] = str(folder)
    assert "--drop-unknown" in refuse(capsys, *words)
    out = succeed(capsys, *words, "--drop-unknown", "--no-weights")
    assert (
        "note: 1 edge with 1 unknown id and 1 edge without one of its ids were dropped from edges.csv" in out
    )
    source = json.loads((tmp_path / "run" / "run.json").read_text())["source"]
    assert (source["weights"], source["drop_unknown"]) == (False, True)
    said = succeed(capsys, "evaluate", tmp_path / "run")
    assert "were dropped from edges.csv" in said
    assert "edge weights" not in said
    succeed(capsys, "predict", tmp_path / "run", folder, "--out", tmp_path / "p.csv")
    assert len(rows_of(tmp_path / "p.csv")) == 8
    succeed(capsys, "denoise", tmp_path / "run", "--out", tmp_path / "kept.csv", "--all")
    assert "weight" not in rows_of(tmp_path / "kept.csv")[0]


def test_weights_are_announced(base, tmp_path, capsys):
    folder = write_csv_graph(tmp_path, NODES, LOOSE.replace("n0,n1,2.5", "n0,n1,3"))
    out = succeed(capsys, *train_words(base, tmp_path / "run", folder), "--drop-unknown")
    assert (
        "note: edge weights, 2.5 to 3, are from column 'weight' of edges.csv; --no-weights leaves them out"
        in out
    )


def test_edges_alone_serve_tasks_without_labels(base, tmp_path, capsys):
    path = tmp_path / "friends.tsv"
    path.write_text("from\tto\n" + "".join(f"{n}\t{(n * 7 + k) % 40}\n" for n in range(40) for k in (1, 3)))
    words = train_words(base, tmp_path / "run", path)
    assert refuse(capsys, *words) == (
        "at least one training node must have a label, found none in the graph; --task links and --task clusters "
        "need no labels"
    )
    out = succeed(capsys, *words, "--task", "links")
    assert "note: there is no table of nodes: the edges of friends.tsv name 40, without labels" in out
    (tmp_path / "pairs.tsv").write_text("src\tdst\n0\t1\n5\t9\n")
    words = ["predict", tmp_path / "run", "--pairs", tmp_path / "pairs.tsv", "--out", tmp_path / "p.csv"]
    succeed(capsys, *words)
    assert [row["source"] for row in rows_of(tmp_path / "p.csv")] == ["0", "5"]


def test_a_table_of_nodes_named_as_a_graph_is_refused_with_what_is_expected(base, tmp_path, capsys):
    folder = write_csv_graph(tmp_path, NODES, EDGES)
    said = refuse(capsys, *train_words(base, tmp_path / "run", folder / "nodes.csv"))
    assert said.startswith(
        "a graph must be a folder with tables of nodes and edges, or a table of edges with columns"
    )


def test_comparisons_read_edges_as_the_options_say(tmp_path, capsys):
    path = tmp_path / "edges.csv"
    rows = "".join(f"{n},{(n * 7 + k) % 40},2.5\n" for n in range(40) for k in (1, 3))
    path.write_text("source,target,weight\n" + rows + "3,,\n")
    words = ["tasks", "links", "--dataset", path, "--rates", "0", "--methods", "adamic-adar", "--seeds", "1"]
    words += ["--records", tmp_path / "records.jsonl", "--device", "cpu", "--json"]
    assert "--drop-unknown" in refuse(capsys, *words)
    code, out, _ = call(capsys, *words, "--drop-unknown", "--no-weights")
    assert code == 0
    assert [row["graph"] for row in last_record(out)["rows"]] == [f"{path} (no weights)"]
