"""The command line: each command from end to end, and one sentence, exit code 2 and nothing written on bad input."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet._core.version import __version__
from gdpnet.cli import main
from gdpnet.cli.output import EpochProgress
from gdpnet.config import read_config
from gdpnet.data.graph import Graph
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.errors import ConfigError
from gdpnet.estimator import GDPNet
from helpers.commands import call, last_record, refuse, rows_of, succeed
from helpers.small import FAST, noisy_graph, same_weights, write_folder

COMMANDS = (
    "demo",
    "train",
    "evaluate",
    "embed",
    "predict",
    "denoise",
    "explain",
    "datasets",
    "trials",
    "noise",
    "robustness",
)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Return a folder with a graph, settings and a run."""
    base = tmp_path_factory.mktemp("cli")
    write_folder(base / "graph")
    (base / "fast.toml").write_text(FAST.to_toml())
    assert main(train_words(base, base / "run")) == 0
    return base


def train_words(base: Path, out: Path, graph: Path | None = None) -> list[str]:
    graph = base / "graph" if graph is None else graph
    return ["train", str(graph), "--out", str(out), "--config", str(base / "fast.toml"), "--device", "cpu"]


# --- train ---


def test_train_fills_a_run_folder(base):
    run = base / "run"
    names = {entry.relative_to(run).as_posix() for entry in run.rglob("*") if entry.is_file()}
    assert names == {
        "config.toml",
        "run.json",
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


def test_train_says_what_came_in_how_epochs_went_and_what_came_out(base, tmp_path, capsys):
    out = succeed(capsys, *train_words(base, tmp_path / "run"), "--json")
    assert "80 nodes, 336 directed edges, 300 features, 3 classes" in out
    assert "training 40, validation 16, test 24" in out
    epochs = [line for line in out.splitlines() if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]
    for word in ("loss", "validation F1", "reward", "kept", "KL"):
        assert all(word in line for line in epochs)
    record = last_record(out)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert record == {"run": str(tmp_path / "run"), "graph": str(base / "graph"), "seed": 0} | metrics
    model = GDPNet.load(tmp_path / "run" / "model.safetensors", device="cpu")
    assert metrics["micro_f1"] == model.score(read_graph(base / "graph"))
    assert metrics["validation_f1"] == model.validation_f1_


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


def test_ctrl_c_says_how_to_go_on_and_resume_goes_on(base, tmp_path, capsys, monkeypatch):
    def interrupt(self: EpochProgress, epoch: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EpochProgress, "__call__", interrupt)
    code, _, err = call(capsys, *train_words(base, tmp_path / "run"))
    monkeypatch.undo()
    assert (code, err) == (
        130,
        "gdpnet: interrupted; what ended is kept: train goes on with --resume, other commands when given again\n",
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


# --- using a run ---


def test_evaluate_scores_the_runs_own_graph_unless_another_is_named(base, capsys):
    own = last_record(succeed(capsys, "evaluate", base / "run", "--json", "--device", "cpu"))
    named = last_record(succeed(capsys, "evaluate", base / "run", base / "graph", "--json"))
    metrics = json.loads((base / "run" / "metrics.json").read_text())
    assert own == named
    assert own["micro_f1"] == metrics["micro_f1"]
    assert own["kept_share"] == metrics["kept_share"]
    train = last_record(succeed(capsys, "evaluate", base / "run", "--split", "train", "--json"))
    assert (train["split"], train["nodes"]) == ("train", 40)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_embed_writes_a_row_a_node_under_the_users_ids(suffix, base, tmp_path, capsys):
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
def test_predict_writes_a_class_and_probabilities_a_node(suffix, base, tmp_path, capsys):
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
    assert f"\n{choice.reason}\n" in out
    record = last_record(out)
    assert (record["threshold"], record["reason"]) == (choice.threshold, choice.reason)
    assert len(rows_of(path)) == model.denoise(read_graph(base / "graph")).kept.sum()
    asked = succeed(capsys, *words, "--threshold", "0.25")
    assert "\nthreshold 0.25, as asked for\n" in asked
    assert last_record(asked)["reason"] == "threshold 0.25, as asked for"
    assert last_record(asked)["threshold"] == 0.25


def test_denoise_of_a_run_without_validation_labels_says_that_nothing_was_chosen(base, tmp_path, capsys):
    graph = noisy_graph()
    write_folder(tmp_path / "graph", replace(graph, labels=torch.where(graph.split == 2, -1, graph.labels)))
    succeed(capsys, *train_words(base, tmp_path / "run", tmp_path / "graph"))
    out = succeed(capsys, "denoise", tmp_path / "run", "--out", tmp_path / "edges.csv", "--json")
    assert "\nthreshold 0.5: there was no validation node to choose it on\n" in out
    assert last_record(out)["threshold"] == 0.5


def test_denoise_writes_every_edge_if_asked_and_each_direction_by_itself(base, tmp_path, capsys):
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


def test_a_cleaned_edge_list_is_a_graph_to_go_on_with(base, tmp_path, capsys):
    shutil.copytree(base / "graph", tmp_path / "clean")
    path = tmp_path / "clean" / "edges.csv"
    succeed(capsys, "denoise", base / "run", "--out", path, "--threshold", "0.6")
    kept = len(rows_of(path))
    out = succeed(capsys, "evaluate", base / "run", tmp_path / "clean")
    assert f"80 nodes, {kept} directed edges" in out


def test_explain_tells_the_decisions_in_order(base, capsys):
    out = succeed(capsys, "explain", base / "run", base / "graph", "--node", "007", "--json")
    record = last_record(out)
    graph = read_graph(base / "graph")
    neighbours = graph.node_ids[graph.neighbour[graph.row_ptr[7] : graph.row_ptr[8]]]
    assert record["node"] == "007"
    assert sorted(one["neighbour"] for one in record["decisions"]) == list(neighbours)
    assert f"node 007: predicted '{record['predicted']}' with probability" in out
    for name in neighbours:
        assert f"│ {name} " in out


def test_candidates_two_hops_away_are_trained_with_and_told(base, tmp_path, capsys):
    succeed(capsys, *train_words(base, tmp_path / "far"), "--hops", "2")
    out = succeed(capsys, "explain", tmp_path / "far", base / "graph", "--node", "007", "--json")
    assert " hops " in out
    assert {one["distance"] for one in last_record(out)["decisions"]} == {1, 2}
    succeed(capsys, "denoise", tmp_path / "far", "--out", tmp_path / "edges.csv", "--all")
    assert len(rows_of(tmp_path / "edges.csv")) == read_graph(base / "graph").num_edges


def test_clusters_with_candidates_from_afar_are_refused_before_a_folder_is_made(base, tmp_path, capsys):
    said = refuse(capsys, *train_words(base, tmp_path / "far"), "--hops", "2", "--task", "clusters")
    assert said == "policy.hops must be 1 where the task is clusters: it reads links alone"
    assert not (tmp_path / "far").exists()


def test_a_model_is_used_on_a_graph_that_it_never_saw(base, tmp_path, capsys):
    write_folder(tmp_path / "unseen", noisy_graph(nodes=60, seed=5))
    out = succeed(capsys, "predict", base / "run", tmp_path / "unseen", "--out", tmp_path / "p.csv", "--json")
    assert last_record(out)["nodes"] == 60


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


# --- the others ---


def test_datasets_are_listed_with_their_sizes_and_whether_they_are_here(tmp_path, capsys):
    out = succeed(capsys, "datasets", "--data-dir", tmp_path, "--json")
    rows = {row["name"]: row for row in last_record(out)["datasets"]}
    assert list(rows) == ["cora", "citeseer", "pubmed", "dblp"]
    assert (rows["cora"]["nodes"], rows["cora"]["links"], rows["cora"]["train"]) == (2708, 5278, 1208)
    assert [row["discount"] for row in rows.values()] == [0.95, 1.0, 0.9, 0.95]
    assert [row["here"] for row in rows.values()] == [False] * 4
    assert "synthetic" in out


def test_trials_are_kept_as_records_and_not_run_twice(base, tmp_path, capsys):
    records = tmp_path / "results" / "trials.jsonl"
    words = ("trials", base / "graph", "--seeds", 1, "--records", records, "--device", "cpu")
    words = (*words, "--config", base / "fast.toml", "--json")
    first = last_record(succeed(capsys, *words))
    content = records.read_text()
    lines = [json.loads(line) for line in content.splitlines()]
    assert [(line["variant"], line["seed"]) for line in lines] == [("GDPNet", 0), ("all neighbours", 0)]
    assert [row["trials"] for row in first["summary"]] == [1, 1]
    assert last_record(succeed(capsys, *words)) == first
    assert records.read_text() == content
    succeed(capsys, *words, "--set", "training.epochs=1")
    assert len(records.read_text().splitlines()) == 4


def test_the_demo_tells_scores_and_noise_removed_and_draws_pictures(tmp_path, capsys):
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


def test_the_version_is_told(capsys):
    assert succeed(capsys, "--version") == f"gdpnet {__version__}\n"


@pytest.mark.parametrize("words", [(), ("--help",), *((command, "--help") for command in COMMANDS)])
def test_help_is_given_for_all_and_for_each_command(words, capsys):
    out = succeed(capsys, *words)
    assert "Usage: gdpnet" in out
    if len(words) < 2:
        assert all(command in out for command in COMMANDS)


# --- graphs that are odd but work ---


def folder_of(tmp_path: Path, nodes: str, edges: str) -> Path:
    """Write a graph folder from the text of its tables."""
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder


NODES = "id,label,split,x,y\n" + "".join(
    f"{name},{'cat' if number % 2 else 'dog'},{split},{number % 2},{number}.5\n"
    for number, (name, split) in enumerate(
        [*((f"n{place}", "train") for place in range(6)), ("007", "validation"), ("a b", "test")]
    )
)
EDGES = "source,target\nn0,n1\nn2,n3\nn1,007\n007,a b\n"


def test_a_graph_without_edges_works_with_every_node_alone(base, tmp_path, capsys):
    folder = folder_of(tmp_path, NODES, "source,target\n")
    out = succeed(capsys, *train_words(base, tmp_path / "run", folder))
    assert "note: 8 nodes have no neighbour and stand for themselves" in out
    succeed(capsys, "denoise", tmp_path / "run", "--out", tmp_path / "edges.csv")
    assert rows_of(tmp_path / "edges.csv") == []
    succeed(capsys, "predict", tmp_path / "run", "--out", tmp_path / "p.csv")
    assert [row["id"] for row in rows_of(tmp_path / "p.csv")][-2:] == ["007", "a b"]
    assert "node a b: predicted" in succeed(capsys, "explain", tmp_path / "run", folder, "--node", "a b")


def test_isolated_nodes_self_loops_and_duplicate_edges_are_handled_and_said(base, tmp_path, capsys):
    edges = EDGES + "n0,n0\n007,007\nn1,n0\nn0,n1\n"
    out = succeed(capsys, *train_words(base, tmp_path / "run", folder_of(tmp_path, NODES, edges)))
    assert "8 nodes, 8 directed edges, 2 features, 2 classes" in out
    assert "note: 2 self-loops were removed" in out
    assert "note: 2 duplicate or reciprocal edges were merged" in out
    assert "note: 2 nodes have no neighbour" in out


# --- bad input ---


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        (NODES, EDGES + "n0,n9\n", "column 'target' of {folder}/edges.csv must name nodes of nodes.csv, "
         "found 'n9' in row 5"),
        (NODES + "n0,cat,train,0,0\n", EDGES, "node ids must be unique, found 'n0' 2 times"),
        (NODES.replace("1,5.5", "red,5.5"), EDGES, "must hold numbers, found 'red' in row 6"),
        (NODES.replace("1,5.5", ",5.5"), EDGES, "found nothing for node 'n5'"),
        (NODES.replace("1,5.5", "nan,5.5"), EDGES,
         "must hold a finite number in every row, found nothing for node 'n5'"),
        (NODES.replace("1,5.5", "-inf,5.5"), EDGES, "found -inf for node 'n5'"),
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
    ids=["missing node", "duplicate id", "text feature", "no feature", "nan", "infinity", "no label",
         "no labels", "one class", "empty graph", "empty file", "split", "column"],
)  # fmt: skip
def test_a_graph_that_cannot_be_used_is_refused_before_a_run_begins(
    nodes, edges, sentence, base, tmp_path, capsys
):
    folder = folder_of(tmp_path, nodes, edges)
    said = refuse(capsys, *train_words(base, tmp_path / "run", folder))
    assert sentence.format(folder=folder) in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "cra", "--out", "run"], "there is no dataset, file or folder 'cra'; did you mean 'cora'?"),
        (["train", "no/such", "--out", "run"], "there is no file or folder no/such"),
        (["train", "synthetic", "--out", "run", "--sed", "1"], "--seed"),
        (["trian", "synthetic"], "'train'"),
        (["train", "synthetic"], "Missing option '--out'"),
        (["train", "synthetic", "--out", "run", "--set", "training.epoch=1"], "did you mean 'epochs'?"),
        (["train", "synthetic", "--out", "run", "--set", "trainin.epochs=1"], "did you mean 'training'?"),
        (["train", "synthetic", "--out", "run", "--set", "epochs"], "has the form section.key=value"),
        (["train", "synthetic", "--out", "run", "--set", "ppo.discount=2"], "between 0.0 and 1.0, found 2"),
        (["train", "synthetic", "--out", "run", "--config", "none.toml"], "cannot read the config file"),
        (["train", "synthetic", "--out", "run", "--seed", "-1"], "'--seed'"),
        (["train", "synthetic", "--out", "run", "--seed", "x"], "'--seed'"),
        (["train", "synthetic", "--out", "run", "--split", "half"], "--split must be paper or random"),
        (["train", "synthetic", "--out", "run", "--device", "gpu"], "'cuda'"),
        (["train", "synthetic", "--out", "run", "--resume"], "there is no run folder run"),
        (["train", "synthetic", "--out", "run", "--column", "lable=x"], "did you mean 'label'?"),
        (["train", "synthetic", "--out", "run", "--column", "label"], "--column has the form role=name"),
        (["evaluate", "run"], "there is no run folder run"),
        (["evaluate", "."], "there is no model file model.safetensors"),
        (["embed", "run", "--out", "h.txt"], "--out must end in .csv or .parquet, found 'h.txt'"),
        (["explain", "run", "synthetic"], "Missing option '--node'"),
        (["trials", "synthetic", "--seeds", "0"], "'--seeds'"),
        (["demo", "--set", "training.epoch=1"], "did you mean 'epochs'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_word_is_one_sentence_with_the_nearest_name(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refuse(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_config_file_with_an_unknown_key_is_refused(base, tmp_path, capsys):
    (tmp_path / "config.toml").write_text("[policy]\nhiden = [8, 6]\n")
    said = refuse(
        capsys, "train", base / "graph", "--out", tmp_path / "run", "--config", tmp_path / "config.toml"
    )
    assert said == "there is no setting 'policy.hiden'; did you mean 'hidden'?"
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused_before_a_run_begins(base, tmp_path, capsys):
    sentence = "the device cuda was asked for, but torch finds no CUDA GPU on this machine"
    words = [word if word != "cpu" else "cuda" for word in train_words(base, tmp_path / "run")]
    assert refuse(capsys, *words) == sentence
    assert refuse(capsys, "evaluate", base / "run", "--device", "cuda") == sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["evaluate", "embed", "predict", "denoise", "explain"])
def test_features_of_another_width_are_refused_by_every_command(command, base, tmp_path, capsys):
    folder = folder_of(tmp_path, NODES, EDGES)
    more = {"evaluate": [], "explain": ["--node", "n0"]}.get(command, ["--out", tmp_path / "out.csv"])
    said = refuse(capsys, command, base / "run", folder, *more)
    assert said == "the model was trained on 300 features, this graph has 2"
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("harm", ["cut", "flipped", "pickle"])
def test_a_model_file_that_was_harmed_is_refused(harm, base, tmp_path, capsys):
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


def test_a_run_folder_that_holds_a_run_is_refused_and_left_alone(base, capsys):
    before = {path: path.read_bytes() for path in (base / "run").rglob("*") if path.is_file()}
    for words in (train_words(base, base / "run"), ["demo", "--out", str(base / "run")]):
        assert "holds a run" in refuse(capsys, *words)
    assert {path: path.read_bytes() for path in (base / "run").rglob("*") if path.is_file()} == before


def test_a_run_does_not_go_on_with_another_graph_or_other_settings(base, tmp_path, capsys):
    write_folder(tmp_path / "other", noisy_graph(seed=1))
    said = refuse(capsys, "train", tmp_path / "other", "--out", base / "run", "--resume")
    assert said.startswith("the run was trained on another graph than this one")
    said = refuse(capsys, *train_words(base, base / "run"), "--resume")
    assert (
        said == "--resume goes on with the run's own settings: leave --config, --set, --task and --hops out"
    )


def test_settings_that_no_longer_fit_the_checkpoint_are_one_sentence(base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    wider = FAST.with_values({"representation": {"width": 9}})
    (tmp_path / "run" / "config.toml").write_text(wider.to_toml())
    said = refuse(capsys, "train", base / "graph", "--out", tmp_path / "run", "--resume")
    assert "does not fit the run's settings" in said


def test_an_out_path_below_a_file_cannot_be_written(base, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    run = tmp_path / "file" / "run"
    said = refuse(capsys, *train_words(base, run))
    assert said == f"cannot write {run / 'config.toml'}: Not a directory"
    assert refuse(capsys, *train_words(base, tmp_path / "file")).endswith("is a file, a run needs a folder")
    for command in ("embed", "predict", "denoise"):
        said = refuse(capsys, command, base / "run", "--out", tmp_path / "file" / "out.csv")
        assert said.startswith(f"cannot write {tmp_path / 'file' / 'out.csv'}: ")
    assert (tmp_path / "file").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_one_sentence_and_the_run_can_go_on_afterwards(base, tmp_path, capsys, monkeypatch):
    def full(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    said = refuse(capsys, *train_words(base, tmp_path / "run"))
    monkeypatch.undo()
    run = tmp_path / "run"
    assert said == f"cannot write {run / 'checkpoint.safetensors'}: No space left on device"
    assert {entry.name for entry in run.iterdir()} == {"config.toml", "run.json"}
    succeed(capsys, "train", base / "graph", "--out", run, "--resume", "--device", "cpu")
    assert same_weights(
        GDPNet.load(run / "model.safetensors", device="cpu"),
        GDPNet.load(base / "run" / "model.safetensors", device="cpu"),
    )


def test_a_node_that_is_not_in_the_graph_cannot_be_explained(base, capsys):
    said = refuse(capsys, "explain", base / "run", base / "graph", "--node", "7")
    assert said == "the graph has no node '7'"


def test_a_split_without_labels_cannot_be_scored(base, tmp_path, capsys):
    unsplit = replace(noisy_graph(), split=torch.zeros(80, dtype=torch.int8))
    write_folder(tmp_path / "graph", unsplit)
    said = refuse(capsys, "evaluate", base / "run", tmp_path / "graph")
    assert said == "the graph has no labelled test node to score on"


def test_a_threshold_that_is_no_probability_is_refused(base, tmp_path, capsys):
    said = refuse(capsys, "denoise", base / "run", "--threshold", "1.5", "--out", tmp_path / "e.csv")
    assert said == "the threshold of a keep probability must lie between 0 and 1, found 1.5"
    assert not (tmp_path / "e.csv").exists()


def test_training_that_diverges_is_one_sentence(base, tmp_path, capsys):
    words = train_words(base, tmp_path / "run")
    assert "training diverged" in refuse(capsys, *words, "--set", "representation.learning_rate=1e30")


def test_debug_lets_the_error_through(base, tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'epochs'"):
        main([*train_words(base, tmp_path / "run"), "--set", "training.epoch=1", "--debug"])


def test_a_graph_in_numbers_of_its_own_comes_back_in_numbers(base, tmp_path, capsys):
    graph: Graph = replace(noisy_graph(), node_ids=np.arange(100, 180))
    write_tables(graph, tmp_path / "graph", "parquet")
    succeed(capsys, "predict", base / "run", tmp_path / "graph", "--out", tmp_path / "p.parquet")
    assert [row["id"] for row in rows_of(tmp_path / "p.parquet")] == list(range(100, 180))
