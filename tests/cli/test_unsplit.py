"""Every command on a graph with labels and without a split, and splits by shares."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gdpnet.data.io.files import read_graph
from gdpnet.data.io.open import open_graph
from gdpnet.errors import ConfigError
from gdpnet.training.run_folder import create_run
from helpers.commands import call, last_record, refuse, succeed, train_words
from helpers.small import FAST, noisy_graph, write_folder

FEW = ("--rates", "0", "--seeds", "1", "--device", "cpu")


@pytest.fixture(scope="module")
def unsplit(tmp_path_factory) -> Path:
    """Return the folder of a graph without a split."""
    graph = noisy_graph()
    folder = tmp_path_factory.mktemp("unsplit") / "graph"
    return write_folder(folder, replace(graph, split=torch.zeros_like(graph.split)))


def counts(graph) -> list[int]:
    return [graph.nodes_in(part).numel() for part in ("train", "validation", "test")]


def test_a_graph_without_a_split_gets_one_by_class_and_says_so(unsplit):
    graph = open_graph(str(unsplit))
    assert sum(counts(graph)) == 80
    assert "split 60/20/20 of the labelled nodes, class by class, with seed 0" in " ".join(graph.notes)
    assert torch.equal(graph.split, open_graph(str(unsplit)).split)
    assert not torch.equal(graph.split, open_graph(str(unsplit), seed=1).split)


def test_a_split_of_the_files_stays_unless_another_is_asked_for(base):
    graph = open_graph(str(base / "graph"))
    assert counts(graph) == [40, 16, 24]
    train, validation, test = counts(open_graph(str(base / "graph"), split="80/10/10"))
    assert train + validation + test == 80
    assert train > 55
    assert open_graph("synthetic", split="50/25/25").nodes_in("test").numel() > 0
    with pytest.raises(ConfigError, match="must sum to 100"):
        open_graph(str(base / "graph"), split="80/10/20")


def test_a_graph_without_labels_stays_without_a_split(tmp_path):
    graph = noisy_graph()
    none = replace(graph, labels=torch.full_like(graph.labels, -1), split=torch.zeros_like(graph.split))
    assert not open_graph(str(write_folder(tmp_path / "graph", none))).split.any()


@pytest.mark.slow
def test_every_command_takes_a_graph_without_a_split_and_shares(unsplit, base, tmp_path, capsys):
    run = tmp_path / "run"
    record = last_record(succeed(capsys, *train_words(base, run, unsplit), "--json", "--split", "70/15/15"))
    assert 0 <= record["micro_f1"] <= 1
    assert json.loads((run / "run.json").read_text())["split"] == "70/15/15"
    own = last_record(succeed(capsys, "evaluate", run, "--json"))
    assert own["micro_f1"] == record["micro_f1"]
    shares = ("--split", "50/25/25")
    for words in (
        ["evaluate", run],
        ["predict", run, *shares, "--out", tmp_path / "p.csv"],
        ["embed", run, *shares, "--out", tmp_path / "e.csv"],
        ["denoise", run, unsplit, *shares, "--out", tmp_path / "d.csv"],
        ["explain", run, unsplit, *shares, "--node", "007"],
        ["noise", unsplit, "--kind", "flipped-labels=0.3", "--out", tmp_path / "noisy"],
        ["noise", unsplit, "--kind", "hidden-labels=0.3", *shares, "--out", tmp_path / "hidden"],
        ["store", unsplit, "--out", tmp_path / "store"],
        ["robustness", "--dataset", unsplit, "--methods", "lr", "--records", tmp_path / "r.jsonl", *FEW],
        ["robustness", "--dataset", unsplit, "--methods", "lr", "--records", tmp_path / "r.jsonl", *FEW, *shares],
        ["tasks", "clusters", "--dataset", unsplit, "--methods", "kmeans", "--records", tmp_path / "t.jsonl", *FEW],
        ["report", run, "--out", tmp_path / "report.html"],
    ):  # fmt: skip
        code, _, err = call(capsys, *words)
        assert code == 0, err
    assert "may have trained on" in refuse(capsys, "evaluate", run, unsplit, *shares)
    resumed = succeed(capsys, *train_words(base, run, unsplit), "--resume", "--split", "70/15/15")
    assert "nothing was changed" in resumed


def test_shares_that_are_none_are_refused(base, tmp_path, capsys):
    words = ("train", base / "graph", "--out", tmp_path / "run", "--split")
    assert "such as 60/20/20, found '60/40'" in refuse(capsys, *words, "60/40")
    assert "such as 60/20/20, found '60/20/30'" in refuse(capsys, *words, "60/20/30")
    assert "such as 60/20/20, found 'tests'" in refuse(capsys, "evaluate", base / "run", "--split", "tests")


@pytest.mark.slow
def test_a_run_from_before_splits_were_drawn_is_not_scored_on_nodes_that_it_trained_on(
    unsplit, tmp_path, capsys
):
    graph, path = read_graph(unsplit), tmp_path / "run"
    run = create_run(path, FAST, str(unsplit), graph, seed=0)
    about = json.loads(run.about.read_text())
    del about["draws_split"]
    run.about.write_text(json.dumps(about))
    words = ("train", unsplit, "--out", path, "--device", "cpu")
    record = last_record(succeed(capsys, *words, "--resume", "--json"))
    assert "micro_f1" not in record
    assert "the graph has no labelled test node to score on" in refuse(capsys, "evaluate", path)
