"""Regimes of a comparison: records name them, they tell trials apart, and hyper-parameters do not cross them."""

import json
import re
from dataclasses import replace

import pytest
import torch

from gdpnet.benchmark import robustness
from gdpnet.benchmark.cases import Setting, counted_graph, noisy_graph, open_case, protocol_of
from gdpnet.benchmark.records import append_record, read_records
from gdpnet.benchmark.robustness import Trial, plan
from gdpnet.cli.trials import cases_of
from gdpnet.data.graph import Graph
from gdpnet.data.noise.registry import corrupt, count_edges
from helpers.commands import call, last_record, refuse, succeed
from helpers.small import FAST, write_folder
from helpers.small import noisy_graph as small_graph


@pytest.fixture
def mine(tmp_path):
    return write_folder(tmp_path / "mine", small_graph(nodes=200))


def words_of(mine, path, *more):
    fixed = ("--rates", "0.5", "--seeds", 1, "--device", "cpu", "--tuned", path.parent / "none.jsonl")
    return ("robustness", "--dataset", mine, "--records", path, *fixed, "--methods", "lr", *more)


def test_the_regime_is_part_of_the_name_of_a_graph_and_the_usual_one_is_not():
    usual = Setting("cora", "paper", "random-links", 0.0, 0)
    names = [
        replace(usual, **change).to_record()["graph"]
        for change in (
            {},
            {"labels": "10%"},
            {"transductive": True},
            {"transductive": False},
            {"labels": "5-per-class", "transductive": True, "split": "random"},
        )
    ]
    assert names == [
        "cora",
        "cora (10% labels)",
        "cora (transductive)",
        "cora (inductive)",
        "cora (random split) (5-per-class labels) (transductive)",
    ]


@pytest.mark.parametrize(
    ("name", "asked", "named"),
    [
        ("cora", False, None),
        ("cora", True, True),
        ("cora-metattack-0.1", True, None),
        ("cora-metattack-0.1", False, False),
        ("my/graph.npz", False, False),
        ("cora", None, None),
    ],
)
def test_a_regime_that_a_dataset_has_anyway_is_not_named(name, asked, named):
    cases = cases_of([name], "random-links", [0.0], [0], transductive=asked)
    assert cases[name][0].transductive is named


def test_a_case_has_the_labels_and_the_regime_that_are_asked_for(mine):
    setting = Setting(str(mine), "paper", "random-links", 0.5, 3, labels="2-per-class", transductive=True)
    graph = open_case(setting)
    protocol = protocol_of(graph, setting)
    assert protocol["labels"] == "2-per-class"
    assert protocol["training"] == "transductive"
    assert protocol["train"] == 6
    assert sum(protocol[name] for name in ("train", "validation", "test", "context")) == graph.num_nodes
    noisy = noisy_graph(setting)
    assert noisy.transductive
    assert protocol_of(noisy, setting) == protocol


@pytest.mark.parametrize("change", [{"labels": "2-per-class"}, {"transductive": True}])
def test_a_record_of_another_regime_does_not_count(change, tmp_path):
    path, setting = tmp_path / "records.jsonl", Setting("mine", "paper", "random-links", 0.5, 0)
    (trial,) = plan([setting], ["gcn"], FAST, "cpu", path)
    append_record(path, trial.stub | {"metrics": {"micro_f1": 0.5}, "commit": "abc"})
    assert plan([setting], ["gcn"], FAST, "cpu", path) == []
    assert len(plan([replace(setting, **change)], ["gcn"], FAST, "cpu", path)) == 1


def test_robustness_records_its_protocol_and_does_not_repeat_a_regime(mine, tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    for more in ((), ("--labels", "3-per-class"), ("--labels", "3-per-class", "--transductive")):
        first = last_record(succeed(capsys, *words_of(mine, path, *more), "--json"))
        again = last_record(succeed(capsys, *words_of(mine, path, *more), "--json"))
        assert (first["trials"], again["trials"]) == (1, 0)
        assert len(again["rows"]) == 1
    plain, few, whole = (record["protocol"] for record in read_records(path))
    assert (plain["labels"], plain["training"]) == ("all", "inductive")
    assert (few["labels"], few["training"], few["train"]) == ("3-per-class", "inductive", 9)
    assert whole == few | {"training": "transductive"}
    assert few["test"] == plain["test"]
    assert few["context"] > plain["context"]


def test_the_protocol_is_said_before_anything_runs(mine, tmp_path, capsys):
    code, _, err = call(capsys, *words_of(mine, tmp_path / "r.jsonl", "--labels", "10%", "--transductive"))
    assert code == 0
    said = err.splitlines()[0]
    assert said.startswith(f"{mine} (10% labels) (transductive): transductive, nodes: ")
    assert re.search(
        r": (19|20|21) train, (19|20|21) validation, \d+ test, \d+ context \(without labels\)$", said
    )


def test_a_wrong_rate_of_labels_is_refused(mine, tmp_path, capsys):
    said = refuse(capsys, *words_of(mine, tmp_path / "r.jsonl", "--labels", "some"))
    assert said == (
        "--labels must be all, a number per class such as 20-per-class, or a percentage such as 10%, found 'some'"
    )


@pytest.mark.slow
def test_hyper_parameters_are_searched_and_used_within_one_regime(mine, tmp_path, capsys, monkeypatch):
    from gdpnet.benchmark import tuning

    run, path = tuning.run_task, tmp_path / "settings.jsonl"
    monkeypatch.setattr(
        tuning,
        "run_task",
        lambda name, task, seed, device, settings: run(name, task, seed, device, replace(settings, epochs=2)),
    )
    words = (
        "tune",
        "--dataset",
        mine,
        "--records",
        path,
        "--rates",
        "0",
        "--methods",
        "gcn",
        "--device",
        "cpu",
    )
    found = json.loads(call(capsys, *words, "--labels", "3-per-class", "--json")[1])
    assert [one["graph"] for one in found["settings"]] == [f"{mine} (3-per-class labels)"]
    assert tuning.searched_settings(path).keys() == {(f"{mine} (3-per-class labels)", "gcn")}


# --- counts of edges ---


@pytest.mark.parametrize("noise", ["random-links", "deleted-links", "rewired-links"])
def test_edges_are_counted_before_and_after_the_noise(mine, noise):
    setting = Setting(str(mine), "paper", noise, 0.5, 0)
    before = open_case(setting)
    graph, counts = counted_graph(setting)
    assert counts["edges_before"] == before.num_edges
    assert counts["edges_after"] == graph.num_edges
    changed = before.num_edges // 2 // 2 * 2
    wanted = {
        "random-links": (changed, 0),
        "deleted-links": (0, changed),
        "rewired-links": (changed, changed),
    }
    assert (counts["edges_added"], counts["edges_removed"]) == pytest.approx(wanted[noise], abs=2)
    assert counts["edges_after"] == before.num_edges + counts["edges_added"] - counts["edges_removed"]


def test_every_edge_of_a_directed_graph_counts_once():
    graph = Graph.build([[0, 1, 2], [1, 2, 3]], torch.eye(6), directed=True)
    noisy = corrupt(graph, "random-links", 1.0, seed=0)
    assert count_edges(graph, noisy) == {
        "edges_before": 3,
        "edges_added": 3,
        "edges_removed": 0,
        "edges_after": 6,
    }


@pytest.mark.slow
def test_counts_of_edges_are_recorded_and_printed_also_for_methods_that_do_not_clean(mine, tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    words = [word if word != "lr" else "lr,cosine-gcn" for word in words_of(mine, path)]
    out = succeed(capsys, *words)
    plain, cleaning = (
        next(one["metrics"] for one in read_records(path) if one["method"] == name)
        for name in ("lr", "cosine-gcn")
    )
    before, after = plain["edges_before"], plain["edges_after"]
    assert after == before + plain["edges_added"]
    assert "edges_kept" not in plain
    assert cleaning["edges_kept"] == round(cleaning["kept_share"] * after)
    assert "number of directed edges" in out
    for count in (before, after, cleaning["edges_kept"]):
        assert f"{count:,}" in out


def test_a_failed_trial_has_its_counts_too(mine, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(robustness, "run_method", broken)
    (record,) = Trial(Setting(str(mine), "paper", "random-links", 0.5, 0), ("lr",), FAST, "cpu").run()
    assert record["metrics"]["error"] == "out of memory"
    assert record["metrics"]["edges_after"] > record["metrics"]["edges_before"] > 0
