"""Tasks without labels on the command line: edges are predicted and scored, clusters are reported."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from gdpnet.cli import main
from gdpnet.data.io.files import read_graph
from gdpnet.data.link_split import split_links
from gdpnet.estimator import GDPNet
from helpers.commands import last_record, refuse, rows_of, succeed
from helpers.small import FAST, noisy_graph, write_folder

pytestmark = pytest.mark.slow  # nearly every test trains a model


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Return a folder with a graph and a run of each task without labels."""
    base = tmp_path_factory.mktemp("tasks")
    write_folder(base / "graph")
    (base / "fast.toml").write_text(FAST.to_toml())
    for task in ("links", "clusters"):
        words = [
            "train",
            base / "graph",
            "--out",
            base / task,
            "--config",
            base / "fast.toml",
            "--task",
            task,
        ]
        assert main([*map(str, words), "--device", "cpu"]) == 0
    return base


def write_pairs(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("\n".join(["source,target", *(",".join(row) for row in rows)]) + "\n")
    return path


# --- links ---


def test_a_run_of_links_is_scored_on_the_links_that_were_held_out(base, capsys):
    out = succeed(capsys, "evaluate", base / "links", "--json")
    record = last_record(out)
    graph, model = read_graph(base / "graph"), GDPNet.load(base / "links" / "model.safetensors", device="cpu")
    split = split_links(graph, model.seed, test=0.0)
    chance = model.predict_links(split.train, split.validation.ends)
    assert record["hidden_links"] == int(split.validation.linked.sum())
    assert record["roc_auc"] == pytest.approx(roc_auc_score(split.validation.linked, chance))
    # training chose by the mean of both measures on the same links; only the draws of its episodes were others
    assert (record["roc_auc"] + record["average_precision"]) / 2 == pytest.approx(
        model.validation_f1_, abs=0.1
    )
    assert "average precision" in out


def test_a_run_of_links_is_scored_on_a_graph_that_it_never_saw(base, tmp_path, capsys):
    write_folder(tmp_path / "unseen", noisy_graph(nodes=60, seed=5))
    record = last_record(succeed(capsys, "evaluate", base / "links", tmp_path / "unseen", "--json"))
    assert 0.0 <= record["roc_auc"] <= 1.0
    assert record["hidden_links"] == read_graph(tmp_path / "unseen").num_edges // 2 // 20


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pairs_of_a_table_are_scored_in_its_order_and_by_its_ids(base, tmp_path, capsys, suffix):
    pairs = write_pairs(tmp_path / "pairs.csv", [("007", "003"), ("011", "042")])
    out = tmp_path / f"said{suffix}"
    record = last_record(succeed(capsys, "predict", base / "links", "--pairs", pairs, "--out", out, "--json"))
    assert record["pairs"] == 2
    rows = rows_of(out)
    assert [(row["source"], row["target"]) for row in rows] == [("007", "003"), ("011", "042")]
    model = GDPNet.load(base / "links" / "model.safetensors", device="cpu")
    graph = read_graph(base / "graph")
    expected = model.predict_links(graph, torch.tensor([[7, 11], [3, 42]]))
    assert np.allclose([float(row["probability"]) for row in rows], expected, atol=1e-6)


def test_pairs_that_cannot_be_scored_are_refused_in_a_sentence(base, tmp_path, capsys):
    words = ("predict", base / "links", "--out", tmp_path / "said.csv")
    assert refuse(capsys, *words) == (
        "a model of task links predicts edges: name a table of node pairs with --pairs"
    )
    strange = write_pairs(tmp_path / "strange.csv", [("007", "nobody")])
    assert refuse(capsys, *words, "--pairs", strange) == "the graph has no node 'nobody'"
    pairs = write_pairs(tmp_path / "pairs.csv", [("007", "003")])
    assert refuse(capsys, *words, "--pairs", pairs, "--nodes", "007") == (
        "--pairs names pairs of nodes: leave --nodes and --nodes-from out"
    )
    (tmp_path / "pairs.xlsx").write_text("source\ttarget\n")
    assert refuse(capsys, *words, "--pairs", tmp_path / "pairs.xlsx") == (
        "--pairs must end in .csv, .tsv, .txt, .csv.gz, .tsv.gz, .txt.gz or .parquet, found 'pairs.xlsx'"
    )
    (tmp_path / "short.csv").write_text("source,other\n007,003\n")
    assert "must have a column 'target'" in refuse(capsys, *words, "--pairs", tmp_path / "short.csv")
    assert refuse(capsys, "predict", base / "clusters", "--pairs", pairs, "--out", tmp_path / "said.csv") == (
        "links are predicted by a model of task links, found clusters"
    )
    assert not (tmp_path / "said.csv").exists()


# --- clusters ---


def test_an_explanation_names_the_cluster_that_predict_gives(base, tmp_path, capsys):
    succeed(capsys, "predict", base / "clusters", "--nodes", "007", "--out", tmp_path / "one.csv")
    cluster = rows_of(tmp_path / "one.csv")[0]["predicted"]
    out = succeed(capsys, "explain", base / "clusters", base / "graph", "--node", "007", "--json")
    record = last_record(out)
    assert record["cluster"] == cluster
    assert cluster in {"0", "1", "2"}  # a number: no class was read
    said = f"node 007: in cluster '{cluster}', predicted community '{record['predicted']}' with probability"
    assert said in out


def test_an_explanation_of_links_speaks_of_communities(base, capsys):
    out = succeed(capsys, "explain", base / "links", base / "graph", "--node", "007", "--json")
    assert last_record(out)["cluster"] is None
    assert "node 007: neighbours predicted to be in community '" in out
