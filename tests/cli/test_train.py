"""The commands train and demo: what they print and write, and graphs and settings that they refuse."""

import errno
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gdpnet.cli.progress import EpochProgress
from gdpnet.config import read_config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.io.files import read_graph
from gdpnet.estimator import GDPNet
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
from helpers.small import FAST, noisy_graph, same_weights, write_folder

pytestmark = pytest.mark.slow  # nearly every test trains a model


def test_train_fills_a_run_folder(base):
    run = base / "run"
    names = {entry.relative_to(run).as_posix() for entry in run.rglob("*") if entry.is_file()}
    assert names == {
        "config.toml",
        "run.json",
        "split.csv",
        "checkpoint.safetensors",
        "model.safetensors",
        "history.jsonl",
        "metrics.json",
        "figures/training.png",
        "figures/selected_share.png",
        "figures/embedding.png",
    }
    assert read_config(run / "config.toml") == FAST
    assert len((run / "history.jsonl").read_text().splitlines()) == 3


def test_train_prints_the_graph_each_epoch_and_the_scores(base, tmp_path, capsys):
    out = succeed(capsys, *train_words(base, tmp_path / "run"), "--json")
    assert "80 nodes, 336 directed edges, 300 features, 3 classes" in out
    assert "training 40, validation 16, test 24" in out
    epochs = [line for line in out.splitlines() if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]
    for word in ("loss", "aggregator alone, validation F1", "reward", "kept", "KL"):
        assert all(word in line for line in epochs)
    record = last_record(out)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert record == {"run": str(tmp_path / "run"), "graph": str(base / "graph"), "seed": 0} | metrics
    model = GDPNet.load(tmp_path / "run" / "model.safetensors", device="cpu")
    assert metrics["micro_f1"] == model.score(read_graph(base / "graph"))
    assert metrics["validation_f1"] == model.validation_f1_


def test_train_prints_one_line_per_step_with_its_result_and_its_time(base, tmp_path, capsys):
    heads = ("hopwise.use=true", "hopwise.steps=20", "gcn.use=true", "gcn.epochs=4", "gcn.min_validation=5")
    words = [*train_words(base, tmp_path / "run"), *(f"--set={one}" for one in heads)]
    lines = succeed(capsys, *words).splitlines()
    steps = [line for line in lines if " ... " in line]
    assert [line.partition(" ... ")[0] for line in steps] == [
        "preparing the graph",
        "choosing the epoch",
        "deciding on every edge",
        "choosing the threshold of the cleaned graph",
        "fitting the hop-wise head",
        "fitting the GCN head",
        "weighing the heads",
    ]
    assert all(re.search(r" \(\d+\.\d s\)$", line) for line in steps)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert f"validation F1 {metrics['validation_f1']:.3f} (" in steps[-1]


def test_the_command_line_trains_what_python_trains_and_one_seed_makes_one_model(base, tmp_path, capsys):
    succeed(capsys, *train_words(base, tmp_path / "other"), "--seed", 1)
    first = GDPNet.load(base / "run" / "model.safetensors", device="cpu")
    other = GDPNet.load(tmp_path / "other" / "model.safetensors", device="cpu")
    python = GDPNet.from_config(FAST, device="cpu").fit(read_graph(base / "graph"))
    assert same_weights(first, python)
    assert not same_weights(first, other)
    assert (first.seed, other.seed) == (0, 1)


def test_overrides_come_on_top_of_the_config_file(base, tmp_path, capsys):
    words = train_words(base, tmp_path / "run")
    succeed(capsys, *words, "--set", "training.epochs=1", "--set", "reward.kind=paper")
    changed = FAST.with_values({"training": {"epochs": 1}, "reward": {"kind": "paper"}})
    assert read_config(tmp_path / "run" / "config.toml") == changed


def test_ctrl_c_says_how_to_continue_and_resume_continues(base, tmp_path, capsys, monkeypatch):
    def interrupt(self: EpochProgress, epoch: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EpochProgress, "__call__", interrupt)
    code, _, err = call(capsys, *train_words(base, tmp_path / "run"))
    monkeypatch.undo()
    assert (code, err.splitlines()[-1]) == (
        130,
        "gdpnet: interrupted; what was written is kept: continue train with --resume, and other commands by running "
        "them again",
    )
    out = succeed(capsys, "train", base / "graph", "--out", tmp_path / "run", "--resume", "--device", "cpu")
    assert "epoch 1/3" not in out
    assert "epoch 2/3" in out
    whole, resumed = (
        GDPNet.load(path / "model.safetensors", device="cpu") for path in (base / "run", tmp_path / "run")
    )
    assert same_weights(whole, resumed)


def test_a_graph_without_test_labels_trains_and_has_no_test_score(base, tmp_path, capsys):
    graph = noisy_graph()
    labels = torch.where(graph.split == 3, -1, graph.labels)
    write_folder(tmp_path / "graph", replace(graph, labels=labels))
    record = last_record(succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "graph"), "--json"))
    assert "micro_f1" not in record
    assert 0 <= record["validation_f1"] <= 1


def test_a_score_that_does_not_exist_is_null_in_json(base, tmp_path, capsys):
    graph = noisy_graph()
    labels = torch.where(graph.split == 2, -1, graph.labels)
    write_folder(tmp_path / "graph", replace(graph, labels=labels))
    record = last_record(succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "graph"), "--json"))
    assert record["validation_f1"] is None
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["validation_f1"] is None


def test_clusters_with_candidates_two_hops_away_are_refused_before_a_folder_is_made(base, tmp_path, capsys):
    said = refuse(capsys, *train_words(base, tmp_path / "far"), "--hops", "2", "--task", "clusters")
    assert said == "policy.hops must be 1 for the task clusters, found 2"
    assert not (tmp_path / "far").exists()


def test_a_run_remembers_how_its_graph_was_read(base, tmp_path, capsys):
    graph = noisy_graph()
    keep = graph.neighbour < graph.target
    dense = torch.from_numpy(graph.features.to_scipy().toarray()[:, :6])
    write_folder(tmp_path / "graph", replace(graph.keep_edges(keep), features=dense))
    words = train_words(base, tmp_path / "run", tmp_path / "graph")
    read = ("--directed", "--column", "features=f1,f4")
    out = succeed(capsys, *words, *read)
    assert "168 directed edges, 2 features" in out
    assert "168 directed edges, 2 features" in succeed(capsys, "evaluate", tmp_path / "run")
    again = succeed(capsys, "train", tmp_path / "graph", "--out", tmp_path / "run", "--resume")
    assert "168 directed edges, 2 features" in again


def test_columns_are_found_under_the_users_names(base, tmp_path, capsys):
    shutil.copytree(base / "graph", tmp_path / "graph")
    nodes = tmp_path / "graph" / "nodes.csv"
    nodes.write_text(nodes.read_text().replace('"label"', '"topic"', 1))
    out = succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "graph"), "--column", "label=topic")
    assert "3 classes" in out


def test_the_demo_prints_scores_and_removed_noise_and_draws_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gdpnet.benchmark.demo.DEFENCES", ("gcn", "cosine-gcn"))
    small = SyntheticSettings(nodes=300, classes=3, words=300)
    monkeypatch.setattr("gdpnet.data.io.open.synthetic_graph", lambda seed: synthetic_graph(small, seed))
    settings = (
        "training.epochs=1",
        "training.warmup=1",
        "representation.width=8",
        "policy.hidden=[8, 6]",
        "inference.episodes=1",
    )
    overrides = [word for setting in settings for word in ("--set", setting)]
    words = ("demo", "--out", tmp_path / "demo", "--device", "cpu", *overrides)
    out = succeed(capsys, *words, "--json")
    record = last_record(out)
    scores = ("micro_f1", "micro_f1_all_neighbours", "micro_f1_logistic_regression")
    for name in (*scores, "spurious_removed", "genuine_kept", "keep_auc"):
        assert 0 <= record[name] <= 1
        assert f"{record[name]:.3f}" in out
    assert record["micro_f1_logistic_regression"] > 0.3
    names = {"training.png", "selected_share.png", "embedding.png", "keep_probability.png", "reliability.png"}
    assert {path.name for path in (tmp_path / "demo" / "figures").iterdir()} == names
    assert all(str(tmp_path / "demo" / "figures" / name) in out for name in names)
    again = last_record(succeed(capsys, "evaluate", tmp_path / "demo", "--json", "--device", "cpu"))
    assert again["keep_auc"] == record["keep_auc"]


def test_a_graph_without_edges_is_trained_on_features_alone(base, tmp_path, capsys):
    folder = write_csv_graph(tmp_path, NODES, "source,target\n")
    out = succeed(capsys, *train_words(base, tmp_path / "run", folder))
    assert "note: 8 nodes have no neighbour and are represented by their own features" in out
    succeed(capsys, "denoise", tmp_path / "run", "--out", tmp_path / "edges.csv")
    assert rows_of(tmp_path / "edges.csv") == []
    succeed(capsys, "predict", tmp_path / "run", "--out", tmp_path / "p.csv")
    assert [row["id"] for row in rows_of(tmp_path / "p.csv")][-2:] == ["007", "a b"]
    assert "node a b: predicted" in succeed(capsys, "explain", tmp_path / "run", folder, "--node", "a b")


def test_isolated_nodes_self_loops_and_duplicate_edges_are_handled_and_noted(base, tmp_path, capsys):
    edges = EDGES + "n0,n0\n007,007\nn1,n0\nn0,n1\n"
    out = succeed(capsys, *train_words(base, tmp_path / "run", write_csv_graph(tmp_path, NODES, edges)))
    assert "8 nodes, 8 directed edges, 2 features, 2 classes" in out
    assert "note: 2 self-loops were removed" in out
    assert "note: 1 duplicate edge was merged" in out
    assert "note: 1 edge is given in both directions and counts once" in out
    assert "note: 2 nodes have no neighbour" in out


# --- bad input ---


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (NODES, EDGES + "n0,n9\n", "both ends of every edge in {folder}/edges.csv must be nodes of nodes.csv, "
         "found 1 edge with 1 unknown id, such as 'n9' (first in row 5); --drop-unknown"),
        (NODES + "n0,cat,train,0,0\n", EDGES, "node ids must be unique, found 'n0' 2 times"),
        (NODES.replace("dog,train", ",train").replace("cat,train", ",train"), EDGES,
         "at least one training node must have a label, found none"),
        ("id,x\nn0,1\nn1,2\n", "source,target\nn0,n1\n",
         "at least one training node must have a label, found none"),
        (NODES.replace("cat", "dog"), EDGES,
         "training nodes must be of two classes or more, found one class alone"),
        ("id,label,x\n", "source,target\n", "the graph is empty: it has no node"),
        ("", EDGES, "nodes.csv cannot be read as a CSV table: Empty CSV file"),
        (NODES.replace("train", "trian"), EDGES, "'trian'"),
        (NODES, EDGES.replace("source", "from"), "must have a column 'source'"),
    ],
    ids=["missing node", "duplicate id", "no label", "no labels",
          "one class", "empty graph", "empty file", "split", "column"],
)  # fmt: skip
def test_a_graph_that_cannot_be_used_is_refused_before_a_run_begins(
    nodes, edges, sentence, base, tmp_path, capsys
):
    folder = write_csv_graph(tmp_path, nodes, edges)
    said = refuse(capsys, *train_words(base, tmp_path / "run", folder))
    assert sentence.format(folder=folder) in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph"]


def test_a_config_file_with_an_unknown_key_is_refused(base, tmp_path, capsys):
    (tmp_path / "config.toml").write_text("[policy]\nhiden = [8, 6]\n")
    said = refuse(
        capsys, "train", base / "graph", "--out", tmp_path / "run", "--config", tmp_path / "config.toml"
    )
    assert said == "there is no setting 'policy.hiden'; did you mean 'hidden'?"
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_refused_before_a_run_begins(base, tmp_path, capsys):
    sentence = "the device cuda was asked for, but torch finds no CUDA GPU on this machine"
    words = [word if word != "cpu" else "cuda" for word in train_words(base, tmp_path / "run")]
    assert refuse(capsys, *words) == sentence
    assert refuse(capsys, "evaluate", base / "run", "--device", "cuda") == sentence
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_that_holds_a_run_is_refused_and_left_alone(base, capsys):
    before = {path: path.read_bytes() for path in (base / "run").rglob("*") if path.is_file()}
    for words in (train_words(base, base / "run"), ["demo", "--out", str(base / "run")]):
        assert "holds a run" in refuse(capsys, *words)
    assert {path: path.read_bytes() for path in (base / "run").rglob("*") if path.is_file()} == before


def test_a_run_does_not_continue_with_another_graph_or_other_settings(base, tmp_path, capsys):
    write_folder(tmp_path / "other", noisy_graph(seed=1))
    said = refuse(capsys, "train", tmp_path / "other", "--out", base / "run", "--resume")
    assert said.startswith("the run was trained on another graph than this one")
    words = [*train_words(base, base / "run"), "--resume"]
    assert refuse(capsys, *words, "--set", "ppo.discount=0.5") == (
        "with --resume, ppo.discount must be that of the run, 0.95, found 0.5; only training.epochs and "
        "training.seconds may be larger: leave the setting out or choose another --out"
    )
    assert "training.epochs must be that of the run, 2, found 1" in refuse(
        capsys, *words, "--set", "training.epochs=1"
    )
    assert refuse(capsys, *words, "--seed", 1) == (
        "with --resume, --seed must be that of the run, 0, found 1; leave it out or choose another --out"
    )
    assert "--split must be that of the run, paper" in refuse(capsys, *words, "--split", "50/25/25")


def test_settings_that_no_longer_fit_the_checkpoint_are_one_sentence(base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    wider = FAST.with_values({"representation": {"width": 9}})
    (tmp_path / "run" / "config.toml").write_text(wider.to_toml())
    (tmp_path / "run" / "metrics.json").unlink()
    said = refuse(capsys, "train", base / "graph", "--out", tmp_path / "run", "--resume")
    assert "does not fit the run's settings" in said


def test_an_out_path_below_a_file_cannot_be_written(base, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    run = tmp_path / "file" / "run"
    said = refuse(capsys, *train_words(base, run), code=1)
    assert said == f"cannot write {run}: Not a directory"
    assert refuse(capsys, *train_words(base, tmp_path / "file")).endswith("is a file, a run needs a folder")
    for command in ("embed", "predict", "denoise"):
        out = tmp_path / "file" / "out.csv"  # refused before anything is computed
        said = refuse(capsys, command, base / "run", "--out", out)
        assert said == f"--out {out} cannot be a file: {out.parent} is no folder"
    assert (tmp_path / "file").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_one_sentence_and_the_run_can_continue_afterwards(base, tmp_path, capsys, monkeypatch):
    def full(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    said = refuse(capsys, *train_words(base, tmp_path / "run"), code=1)
    monkeypatch.undo()
    run = tmp_path / "run"
    assert said == f"cannot write {run / 'checkpoint.safetensors'}: No space left on device"
    assert {entry.name for entry in run.iterdir()} == {"config.toml", "run.json"}
    succeed(capsys, "train", base / "graph", "--out", run, "--resume", "--device", "cpu")
    assert same_weights(
        GDPNet.load(run / "model.safetensors", device="cpu"),
        GDPNet.load(base / "run" / "model.safetensors", device="cpu"),
    )


def test_training_that_diverges_is_one_sentence(base, tmp_path, capsys):
    words = train_words(base, tmp_path / "run")
    rate = ("--set", "representation.learning_rate=1e30")
    assert "training diverged" in refuse(capsys, *words, *rate, code=1)


def test_train_decides_on_the_graph_once_after_fitting_and_predict_once(tmp_path, capsys, monkeypatch):
    from gdpnet.inference import predictor

    decided, select = [], predictor.select

    def counted(*arguments):
        decided.append(arguments[3].numel())
        return select(*arguments)

    monkeypatch.setattr(predictor, "select", counted)
    folder, run = write_folder(tmp_path / "graph"), tmp_path / "run"
    (tmp_path / "fast.toml").write_text(FAST.to_toml())
    succeed(capsys, "train", folder, "--out", run, "--config", tmp_path / "fast.toml", "--device", "cpu")
    assert decided == [80]
    succeed(capsys, "predict", run, folder, "--out", tmp_path / "predictions.csv", "--device", "cpu")
    assert decided == [80, 80]
