"""Methods compared under noise: which trials are run, what is recorded, and numbers by hand."""

import json
import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from gdpnet.benchmark import robustness, sweep
from gdpnet.benchmark.ablations import CLEANED, VARIANTS, variant_of
from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.baselines.methods import METHODS
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.figures import draw_curves
from gdpnet.benchmark.records import append_record, read_records
from gdpnet.benchmark.robustness import Trial, check_methods, plan, summarise
from gdpnet.benchmark.sweep import run_all
from gdpnet.benchmark.tuning import searched_settings
from gdpnet.cli import main
from gdpnet.config import Config
from gdpnet.data.datasets.known import DATASETS, is_present
from gdpnet.data.io.files import read_graph, write_tables
from gdpnet.data.io.open import content_of
from gdpnet.errors import ConfigError, GDPNetError
from gdpnet.inference.threshold import Choice
from helpers.commands import call, refuse, succeed
from helpers.small import FAST, fitted, write_folder
from helpers.small import noisy_graph as small_noisy_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model

FAMILY = ("gdpnet", "gdpnet>gcn", "gdpnet>gat")

SETTING = Setting("mine", "paper", "random-links", 0.5, 0)


def record_of(
    method: str = "gcn", score: float | None = 0.8, seed: int = 0, rate: float = 0.5, **more
) -> dict:
    """Return a record of a method; one that failed if it has no score."""
    metrics = {"error": "it broke"} if score is None else {"micro_f1": score}
    auc = more.pop("link_auc", None)
    if auc is not None:
        metrics["link_auc"] = auc
    config = asdict(METHODS[method].settings) if method in METHODS else FAST.to_dict()
    if method in CLEANED:
        config["backbone"] = asdict(METHODS[CLEANED[method]].settings)
    about = {
        "kind": "robustness",
        "graph": "mine",
        "noise": "random-links",
        "config": config,
        "torch": "2.13.0",
        "commit": "abc",
    }
    about |= more
    return about | {"method": method, "rate": rate, "seed": seed, "metrics": metrics}


def methods_of(trials: list[Trial]) -> list[tuple[str, ...]]:
    return [trial.methods for trial in trials]


# --- planning ---


def test_gdpnet_and_the_networks_on_its_cleaned_graph_are_one_trial_and_every_other_method_is_its_own(
    tmp_path,
):
    settings = [SETTING, replace(SETTING, seed=1)]
    trials = plan(settings, ["gcn", *FAMILY, "gdpnet-ro"], FAST, "cpu", tmp_path / "none.jsonl")
    assert methods_of(trials) == 2 * [FAMILY, ("gdpnet-ro",), ("gcn",)]
    assert [trial.setting.seed for trial in trials] == [0] * 3 + [1] * 3
    assert {trial.config for trial in trials} == {FAST}


def test_what_the_records_hold_is_not_planned_again_and_what_failed_is(tmp_path):
    path = tmp_path / "records.jsonl"
    append_record(path, {"kind": "trial", "seed": 0, "metrics": {}})  # of another experiment
    for record in (
        record_of("gcn"),
        record_of("gdpnet>gcn"),
        record_of("gat", None),
        record_of("mlp", seed=1),
    ):
        append_record(path, record)
    trials = plan([SETTING], ["gcn", "gat", "mlp", *FAMILY], FAST, "cpu", path)
    assert methods_of(trials) == [("gdpnet", "gdpnet>gat"), ("gat",), ("mlp",)]
    append_record(path, record_of("gat"))
    assert plan([SETTING], ["gcn", "gat"], FAST, "cpu", path) == []


@pytest.mark.parametrize(
    "change",
    [{"rate": 1.0}, {"seed": 1}, {"noise": "deleted-links"}, {"graph": "other"}, {"split": "random"}],
)
def test_a_record_of_another_setting_does_not_count(change, tmp_path):
    path = tmp_path / "records.jsonl"
    append_record(path, record_of("gcn"))
    assert plan([SETTING], ["gcn"], FAST, "cpu", path) == []
    assert methods_of(plan([replace(SETTING, **change)], ["gcn"], FAST, "cpu", path)) == [("gcn",)]


def test_other_settings_of_gdpnet_are_another_trial_and_change_nothing_for_a_baseline(tmp_path):
    path = tmp_path / "records.jsonl"
    for name in ("gcn", "gdpnet", "gdpnet>gat"):
        append_record(path, record_of(name))
    other = FAST.with_values({"ppo": {"discount": 0.5}})
    trials = plan([SETTING], ["gcn", "gdpnet", "gdpnet>gat"], other, "cpu", path)
    assert methods_of(trials) == [("gdpnet", "gdpnet>gat")]


def test_a_variant_is_recorded_under_its_own_settings(tmp_path):
    path = tmp_path / "records.jsonl"
    append_record(path, record_of("gdpnet-ro"))  # with the settings of another
    assert methods_of(plan([SETTING], ["gdpnet-ro"], FAST, "cpu", path)) == [("gdpnet-ro",)]
    append_record(path, record_of("gdpnet-ro", config=variant_of(FAST, "gdpnet-ro").to_dict()))
    assert plan([SETTING], ["gdpnet-ro"], FAST, "cpu", path) == []


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name]])
def test_every_variant_changes_something(name):
    use = {"use": True}
    values = {"training": {"injected": 0.25}, "hopwise": use, "gcn": use, "ppo": {"discount": 0.8}}
    base = FAST.with_values(values)
    reference = variant_of(base, "gdpnet:no-gcn")
    if name == "gdpnet:no-gcn":
        assert reference != base
    else:  # beside leaving the GCN head out
        assert variant_of(reference, name) != reference


# --- a trial ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a graph and settings."""
    base = tmp_path_factory.mktemp("robustness")
    write_folder(base / "graph")
    (base / "fast.toml").write_text(FAST.to_toml())
    return base


def setting_of(folder: Path, rate: float = 0.5, seed: int = 0) -> Setting:
    return Setting(str(folder / "graph"), "paper", "random-links", rate, seed)


def test_a_family_records_gdpnet_and_each_network_on_the_graph_that_it_cleaned(folder):
    setting = setting_of(folder)
    records = Trial(setting, ("gdpnet", "gdpnet>gcn"), FAST, "cpu").run()
    assert [record["method"] for record in records] == ["gdpnet", "gdpnet>gcn"]
    graph = noisy_graph(setting)
    model = fitted(graph)
    own, network = (record["metrics"] for record in records)
    assert own["micro_f1"] == pytest.approx(model.score(graph))
    assert own["validation_f1"] == model.validation_f1_
    assert own["epochs"] == 3
    cleaned = model.denoise(graph)
    assert own["threshold"] == network["threshold"] == cleaned.threshold
    assert own["kept_share"] == pytest.approx(cleaned.kept.mean())
    assert {"link_auc", "removed_recall", "brier", "reliability"} <= own.keys()
    assert 0.0 <= network["micro_f1"] <= 1.0
    for record in records:
        backbone = record["config"].pop("backbone", None)
        assert backbone is None or backbone == asdict(METHODS[CLEANED[record["method"]]].settings)
        assert Config().with_values(record["config"]) == FAST
        assert (record["graph"], record["rate"], record["seed"]) == (setting.graph, 0.5, 0)


def test_a_network_on_the_graph_that_a_variant_cleaned_is_one_trial_with_it(folder, tmp_path):
    variant = ("gdpnet:no-hopwise>gcn", "gdpnet:no-hopwise")
    [trial, other] = plan(
        [setting_of(folder)], [*variant, "gdpnet>gcn"], FAST, "cpu", tmp_path / "none.jsonl"
    )
    assert (trial.methods, other.methods) == (variant, ("gdpnet>gcn",))
    own, network = trial.run()
    assert (own["method"], network["method"]) == ("gdpnet:no-hopwise", "gdpnet:no-hopwise>gcn")
    assert not own["config"]["hopwise"]["use"]
    assert not network["config"]["hopwise"]["use"]
    assert network["config"]["backbone"] == asdict(METHODS["gcn"].settings)


def test_a_network_alone_is_recorded_without_the_model_that_cleaned_for_it(folder):
    records = Trial(setting_of(folder), ("gdpnet>graphsage",), FAST, "cpu").run()
    assert [record["method"] for record in records] == ["gdpnet>graphsage"]


def test_a_baseline_that_scores_edges_is_measured_on_them(folder):
    [record] = Trial(setting_of(folder), ("supervised-gcn",), FAST, "cpu").run()
    assert 0.0 <= record["metrics"]["link_auc"] <= 1.0
    assert record["config"]["width"] > 0
    [plain] = Trial(setting_of(folder), ("lr",), FAST, "cpu").run()
    assert "link_auc" not in plain["metrics"]


def test_what_cannot_be_opened_is_a_record_of_failure_for_every_method(tmp_path):
    records = Trial(replace(SETTING, graph=str(tmp_path / "none")), FAMILY, FAST, "cpu").run()
    assert [record["method"] for record in records] == list(FAMILY)
    assert {record["metrics"]["error"] for record in records} == {
        f"there is no file or folder {tmp_path / 'none'}"
    }
    assert plan([], FAMILY, FAST, "cpu", tmp_path / "records.jsonl") == []


def broken(*words, **options):
    raise RuntimeError("out of memory:\n  tried to allocate\n  too much")


def test_a_method_that_fails_is_recorded_with_its_reason_and_the_next_one_goes_on(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(robustness, "run_method", broken)
    path, told = tmp_path / "records.jsonl", []
    methods = ["gcn", "gdpnet"]
    trials = plan([setting_of(folder)], methods, FAST, "cpu", path)
    run_all(trials, path, 1, told.append)
    records = {record["method"]: record["metrics"] for record in read_records(path)}
    assert records["gcn"]["error"] == "out of memory: tried to allocate too much"
    assert "micro_f1" in records["gdpnet"]
    assert [record["method"] for part in told for record in part] == ["gdpnet", "gcn"]
    assert methods_of(plan([setting_of(folder)], methods, FAST, "cpu", path)) == [("gcn",)]


def test_a_network_that_fails_on_the_cleaned_graph_leaves_the_model_its_record(folder, monkeypatch):
    monkeypatch.setattr(robustness, "run_task", broken)
    own, network = Trial(setting_of(folder), ("gdpnet", "gdpnet>gcn"), FAST, "cpu").run()
    assert "micro_f1" in own["metrics"]
    assert network["metrics"]["error"] == "out of memory: tried to allocate too much"


@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_a_network_has_the_settings_found_on_cleaned_graphs_unless_no_edge_was_removed(
    folder, monkeypatch, threshold
):
    monkeypatch.setattr("gdpnet.training.heads.choose_threshold", lambda *_, **__: Choice(threshold))
    searched = {name: Settings(width=width, epochs=2) for name, width in (("gcn", 5), ("gdpnet>gcn", 7))}
    trial = Trial(setting_of(folder), ("gdpnet>gcn",), FAST, "cpu", searched)
    [record] = trial.run()
    assert record["metrics"]["threshold"] == threshold
    assert record["metrics"]["settings"]["width"] == (5 if threshold == 0.0 else 7)
    assert record["config"]["backbone"]["width"] == 7
    path = folder / f"untouched-{threshold}.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert plan([trial.setting], ["gdpnet>gcn"], FAST, "cpu", path, searched) == []


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_a_score_that_does_not_exist_is_null_in_a_record(folder, tmp_path):
    graph = read_graph(folder / "graph")
    write_folder(tmp_path / "graph", replace(graph, labels=torch.where(graph.split == 2, -1, graph.labels)))
    path = tmp_path / "records.jsonl"
    run_all(plan([setting_of(tmp_path)], ["mlp", "gdpnet"], FAST, "cpu", path), path, 1, lambda records: None)
    lines = path.read_text().splitlines()
    records = [json.loads(line, parse_constant=refuse_constant) for line in lines]
    assert [record["metrics"]["validation_f1"] for record in records] == [None, None]
    assert all(record["metrics"]["micro_f1"] >= 0 for record in records)


def test_trials_side_by_side_give_the_records_of_trials_in_turn(folder, tmp_path):
    def run(name: str, jobs: int) -> list[tuple]:
        path = tmp_path / name
        trials = plan([setting_of(folder, seed=seed) for seed in (0, 1)], ["lr"], FAST, "cpu", path)
        run_all(trials, path, jobs, lambda records: None)
        return sorted((record["seed"], record["metrics"]["micro_f1"]) for record in read_records(path))

    assert run("one.jsonl", 1) == run("two.jsonl", 2)


# --- the summary ---


def test_a_summary_has_mean_and_deviation_over_seeds_and_counts_failures():
    records = [
        record_of("gdpnet", 0.8, seed=0, link_auc=0.7),
        record_of("gdpnet", 0.9, seed=1, link_auc=0.9),
        record_of("gdpnet", None, seed=2),
        record_of("gcn", None),
        record_of("gcn", 0.5, rate=1.0),
        {"kind": "trial"},
    ]
    own, failed, other = summarise(records)
    assert (own.method, own.seeds, own.failed) == ("gdpnet", 2, 1)
    assert own.mean == pytest.approx(0.85)
    assert own.deviation == pytest.approx(0.1 / 2**0.5)  # of two numbers: their distance over the root of 2
    assert own.links["link_auc"] == pytest.approx(0.8)
    assert (failed.method, failed.seeds, failed.failed, failed.links) == ("gcn", 0, 1, {})
    assert math.isnan(failed.mean)
    assert (other.rate, other.mean, other.deviation) == (1.0, 0.5, 0.0)


def test_of_several_records_of_a_seed_the_newest_counts():
    [row] = summarise([record_of("gcn", None), record_of("gcn", 0.4), record_of("gcn", 0.6)])
    assert (row.seeds, row.mean, row.failed) == (1, 0.6, 0)


def test_a_record_that_ended_counts_before_one_that_failed():
    [row] = summarise([record_of("gcn", 0.6), record_of("gcn", None)])
    assert (row.seeds, row.failed, row.mean) == (1, 0, 0.6)
    [row] = summarise([record_of("gcn", None), record_of("gcn", 0.6)])
    assert (row.seeds, row.failed) == (1, 0)


def test_settings_of_a_method_are_the_same_at_every_rate():
    other = FAST.with_values({"ppo": {"discount": 0.5}}).to_dict()
    rows = summarise([record_of("gdpnet", 0.1, rate=0.0), record_of("gdpnet", 0.7, rate=1.0, config=other)])
    assert [row.rate for row in rows] == [1.0]


def test_of_several_settings_of_a_method_those_of_the_newest_record_count():
    other = FAST.with_values({"ppo": {"discount": 0.5}}).to_dict()
    old = [record_of("gdpnet", 0.1, seed=seed) for seed in (0, 1)]
    [row] = summarise([*old, record_of("gdpnet", 0.7, seed=0, config=other)])
    assert (row.seeds, row.mean) == (1, 0.7)  # seed 1 has been run with the old settings alone


def test_a_baseline_may_choose_other_settings_with_every_seed():
    records = [record_of("gcn", 0.1 * seed, seed=seed, config={"kept": seed / 10}) for seed in (1, 2, 3)]
    [row] = summarise(records)
    assert row.seeds == 3


# --- checks ---


def test_a_method_that_is_not_known_is_refused_with_the_nearest():
    check_methods([*METHODS, *VARIANTS, "gdpnet>gat"])
    with pytest.raises(ConfigError, match=r"^there is no method 'gcnn'; did you mean 'gcn'\?$"):
        check_methods(["gat", "gcnn"])


# --- figures ---


def test_there_is_a_figure_for_each_graph_and_noise_that_has_a_score(tmp_path):
    records = [
        record_of(method, 0.9 - rate / 5, rate=rate, graph=graph)
        for method in ("gdpnet", "gcn")
        for rate in (0.0, 0.5)
        for graph in ("mine", "data/yours")
    ]
    records.append(record_of("gcn", None, noise="deleted-links"))
    records.append(record_of("gat", None))
    paths = draw_curves(summarise(records), tmp_path / "figures")
    names = ["robustness_data_yours_random-links.png", "robustness_mine_random-links.png"]
    assert [path.name for path in paths] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


# --- the command ---


def words_of(folder: Path, records: Path, *more: object) -> tuple:
    words = ("robustness", "--dataset", folder / "graph", "--records", records, "--device", "cpu")
    return (*words, "--config", folder / "fast.toml", "--seeds", 1, *more)


def test_the_command_runs_what_is_missing_and_prints_a_table_and_curves(folder, tmp_path, capsys):
    path = tmp_path / "results" / "robustness.jsonl"
    words = words_of(folder, path, "--rates", "0,1", "--methods", "gdpnet,gdpnet>gcn,lr", "--json")
    out = succeed(capsys, *words, "--figures", tmp_path / "figures")
    records = read_records(path)
    assert [(record["method"], record["rate"]) for record in records] == [
        ("gdpnet", 0.0),
        ("gdpnet>gcn", 0.0),
        ("lr", 0.0),
        ("gdpnet", 1.0),
        ("gdpnet>gcn", 1.0),
        ("lr", 1.0),
    ]
    assert "[1/4, about" in out
    assert f"random-links 1 seed 0 lr: {records[-1]['metrics']['micro_f1']:.4f}" in out
    rows = json.loads(out.splitlines()[-1])["rows"]
    assert [row["mean"] for row in rows] == [record["metrics"]["micro_f1"] for record in records]
    assert all(f"{row['mean']:.3f} ± 0.000" in out for row in rows)
    assert "rate 0" in out
    assert "random-links: edges" in out
    [picture] = (tmp_path / "figures").iterdir()
    assert str(picture) in out
    content = path.read_bytes()
    again = succeed(capsys, *words)
    assert json.loads(again.splitlines()[-1])["rows"] == rows
    assert "min left" not in again
    assert path.read_bytes() == content
    # one more method is run by itself
    succeed(capsys, *words, "--methods", "lr,mlp")
    assert [record["method"] for record in read_records(path)[6:]] == ["mlp", "mlp"]


def refuse_to_run(*words):
    raise AssertionError("nothing was to be run")


def table_of(out: str) -> list[list[str]]:
    """Return the cells of the table of scores, line by line; that of the edges is left out."""
    scores = out.split(": edges", maxsplit=1)[0]
    lines = [line for line in scores.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_a_report_is_drawn_from_records_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "run_all", refuse_to_run)
    path = tmp_path / "records.jsonl"
    records = [
        record_of("gat", None, rate=1.0),
        record_of("gat", 0.4, rate=0.0),
        record_of("gcn", 0.7, rate=0.0),
        record_of("gcn", 0.9, rate=0.0, seed=1),
        record_of("gcn", 0.5, rate=1.0),
        record_of("gcn", None, rate=1.0, seed=1),
        record_of("gdpnet", 0.75, rate=1.0, link_auc=0.8125),
        record_of("gcn", 0.1, rate=1.0, graph="mine (random split)"),
        record_of("mlp", 0.2, rate=1.0),
    ]
    for record in records:
        append_record(path, record)
    content = path.read_bytes()
    words = ("robustness", "--dataset", "mine", "--records", path, "--report-only", "--rates", "0,1")
    out = succeed(capsys, *words, "--methods", "gat,gcn,gdpnet", "--figures", tmp_path / "figures", "--json")
    assert "mine, random-links: micro-F1 on test (* best)" in out
    assert table_of(out) == [
        ["gdpnet", "", "0.750 ± 0.000*"],
        ["gcn", "0.800 ± 0.141*", "0.500 ± 0.000 (1 failed)"],
        ["gat", "0.400 ± 0.000", "failed"],
    ]
    links = out.split(": edges")[1]
    assert next(line.split() for line in links.splitlines() if "gdpnet" in line and "│" in line)[:6] == [
        "│",
        "gdpnet",
        "│",
        "1",
        "│",
        "0.812",
    ]
    rows = json.loads(out.splitlines()[-1], parse_constant=refuse_constant)["rows"]
    assert [row["mean"] for row in rows if (row["method"], row["rate"]) == ("gat", 1.0)] == [None]
    assert [picture.name for picture in (tmp_path / "figures").iterdir()] == [
        "robustness_mine_random-links.png"
    ]
    assert path.read_bytes() == content
    other = succeed(capsys, *words, "--split", "random", "--methods", "gcn")
    assert table_of(other) == [["gcn", "0.100 ± 0.000*"]]


def test_a_report_on_a_graph_whose_methods_all_failed_has_no_best_and_no_curve(tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    append_record(path, record_of("gcn", None))
    words = ("robustness", "--dataset", "mine", "--records", path, "--report-only", "--rates", "0.5")
    out = succeed(capsys, *words, "--methods", "gcn", "--figures", tmp_path / "figures")
    assert table_of(out) == [["gcn", "failed"]]
    assert not (tmp_path / "figures").exists()


def test_a_report_without_records_is_empty(tmp_path, capsys):
    words = (
        "robustness",
        "--dataset",
        "mine",
        "--records",
        tmp_path / "none.jsonl",
        "--report-only",
        "--json",
    )
    assert json.loads(succeed(capsys, *words).splitlines()[-1]) == {"rows": []}


def test_a_failure_is_printed_and_the_command_continues(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(robustness, "run_method", broken)
    words = words_of(folder, tmp_path / "records.jsonl", "--rates", "0", "--methods", "gcn,gdpnet")
    code, out, err = call(capsys, *words)
    assert code == 1
    assert "gcn: failed: out of memory: tried to allocate too much" in err
    assert "gdpnet: 1 of 2 trials failed, the first because: out of memory" in err
    assert [row[0] for row in table_of(out)] == ["gdpnet", "gcn"]


def test_all_methods_are_every_baseline_and_the_usual_ones(tmp_path, capsys, monkeypatch):
    planned = []
    monkeypatch.setattr(
        sweep,
        "run_all",
        lambda trials, *rest: planned.extend(name for trial in trials for name in trial.methods),
    )
    words = ("robustness", "--dataset", "synthetic", "--records", tmp_path / "none.jsonl", "--rates", "0")
    succeed(capsys, *words, "--methods", "all,gdpnet-ro", "--seeds", 1, "--device", "cpu")
    assert sorted(planned) == sorted(
        {*METHODS, "gdpnet-ro", "gdpnet", "gdpnet>gcn", "gdpnet>gat", "gdpnet>graphsage"}
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "gcnn"], "there is no method 'gcnn'; did you mean 'gcn'?"),
        (["--methods", "gdpnet>gcnn"], "there is no method 'gdpnet>gcnn'; did you mean 'gdpnet>gcn'?"),
        (["--methods", ","], "--methods must name at least one method"),
        (["--noise", "random-link"], "there is no noise 'random-link'; did you mean 'random-links'?"),
        (["--rates", "0,half"], "--rates must be comma-separated numbers, found '0,half'"),
        (["--rates", ""], "--rates must be comma-separated numbers, found ''"),
        (["--rates", "-1"], "the rate of random-links must be a number from 0, found -1"),
        (["--rates", "nan"], "the rate of random-links must be a number from 0, found nan"),
        (["--noise", "deleted-links", "--rates", "2"], "the rate of deleted-links is a share"),
        (
            ["--split", "half"],
            "--split must be paper, random or shares that sum to 100, such as 60/20/20, found 'half'",
        ),
        (["--seeds", "0"], "'--seeds'"),
        (["--jobs", "0"], "'--jobs'"),
        (["--set", "ppo.discont=1"], "did you mean 'discount'?"),
        (["--dataset", "cra"], "there is no dataset, file or folder 'cra'; did you mean 'cora'?"),
        (["--dataset", "no/such"], "there is no file or folder no/such"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_word_is_one_sentence_and_nothing_is_run(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "run_all", refuse_to_run)
    code, _, err = call(capsys, "robustness", "--dataset", "synthetic", "--device", "cpu", *words)
    assert code == 2
    assert err.startswith("gdpnet: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_records_that_cannot_be_read_are_one_sentence(tmp_path, capsys):
    (tmp_path / "records.jsonl").write_text("{broken\n{}\n")
    words = ("robustness", "--dataset", "mine", "--records", tmp_path / "records.jsonl", "--report-only")
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "line 1 of" in err
    assert "records.jsonl is not a record" in err


def test_failures_of_the_program_itself_are_not_hidden_in_a_record(folder, monkeypatch):
    def mistaken(*words, **options):
        raise TypeError("a mistake")

    monkeypatch.setattr(robustness, "run_method", mistaken)
    with pytest.raises(TypeError):
        Trial(setting_of(folder), ("gcn",), FAST, "cpu").run()
    assert not issubclass(TypeError, GDPNetError)


def test_a_malformed_graph_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "nodes.csv").write_text("id,label,f\na,x,1\nb,y,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,nobody\n")
    records = tmp_path / "records.jsonl"
    words = ["robustness", "--dataset", str(tmp_path), "--methods", "gcn", "--records", str(records)]
    assert main(words) == 2
    assert "such as 'nobody'" in capsys.readouterr().err
    assert not records.exists()


# --- the content of a graph ---


def shuffle_labels(folder: Path) -> None:
    """Give every node of a graph folder the label of another."""
    graph = read_graph(folder)
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(1))
    write_tables(replace(graph, labels=graph.labels[order]), folder, "csv")


def test_a_graph_whose_content_changed_is_run_again_and_older_records_are_left_alone(
    folder, tmp_path, capsys
):
    mine, path = write_folder(tmp_path / "graph"), tmp_path / "records.jsonl"
    before = {name: (mine / name).read_bytes() for name in ("nodes.csv", "edges.csv", "features.csv")}
    words = ("robustness", "--dataset", mine, "--records", path, "--rates", "0", "--methods", "lr", "--seeds")
    first = json.loads(call(capsys, *words, 2, "--json")[1])
    shuffle_labels(mine)
    code, out, err = call(capsys, *words, 1, "--json")
    assert code == 0
    assert "[1/1" in err
    assert "has 2 records of another content of the same graph" in err
    assert "of another content of the same graph" in err
    second = json.loads(out)
    assert second["rows"][0]["seeds"] == 1
    assert second["rows"][0]["mean"] != first["rows"][0]["mean"]
    assert len(read_records(path)) == 3
    assert json.loads(call(capsys, *words, 1, "--json", "--report-only")[1])["rows"] == second["rows"]
    for name, content in before.items():  # as it was: nothing is run, and the first scores count
        (mine / name).write_bytes(content)
    again = json.loads(call(capsys, *words, 2, "--json")[1])
    assert (again["trials"], again["rows"]) == (0, first["rows"])


def test_settings_that_were_searched_on_another_content_are_not_used(folder, tmp_path):
    path = tmp_path / "settings.jsonl"
    searched = record_of("gcn", content="new") | {"kind": "search", "rates": [0.0]}
    append_record(path, searched | {"config": asdict(replace(METHODS["gcn"].settings, width=5))})
    assert searched_settings(path, {"mine": "old"}) == {}
    assert searched_settings(path, {"mine": "new"})["mine", "gcn"].width == 5


def test_records_of_datasets_from_before_have_the_content_of_the_published_files(tmp_path):
    path = tmp_path / "records.jsonl"
    for name in ("cora", "cora (random split)", "mine"):
        append_record(path, record_of("gcn", graph=name))
    known = DATASETS["cora"].fingerprint
    assert [record.get("content") for record in read_records(path)] == [known, known, None]
    setting = replace(SETTING, graph="cora", content=known)
    assert plan([setting], ["gcn"], FAST, "cpu", path) == []
    assert len(plan([replace(setting, content="another")], ["gcn"], FAST, "cpu", path)) == 1


@pytest.mark.skipif("GDPNET_DATA" not in os.environ, reason="set GDPNET_DATA to the folder of the datasets")
@pytest.mark.parametrize("name", DATASETS)
def test_the_known_fingerprint_of_a_dataset_is_that_of_its_files(name):
    if not is_present(name):
        pytest.skip(f"the files of {name} are not here")
    assert content_of(name) == DATASETS[name].fingerprint


def test_a_graph_without_labelled_test_nodes_is_refused_before_anything_is_trained(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sweep, "run_all", refuse_to_run)
    graph = small_noisy_graph()
    mine = write_folder(tmp_path / "graph", replace(graph, split=graph.split.clamp(max=2)))
    words = ("robustness", "--dataset", mine, "--records", tmp_path / "r.jsonl", "--methods", "gcn")
    assert refuse(capsys, *words, "--device", "cpu") == (
        "at least one test node must have a label to score on, found none; --split 60/20/20 draws test nodes"
    )


def test_methods_that_all_fail_exit_with_1(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(robustness, "run_method", broken)
    words = words_of(folder, tmp_path / "records.jsonl", "--rates", "0", "--methods", "gcn,mlp", "--json")
    code, out, err = call(capsys, *words)
    assert code == 1
    assert [row["failed"] for row in json.loads(out)["rows"]] == [1, 1]
    assert err.splitlines()[-1].startswith("gdpnet: 2 of 2 trials failed, the first because: out of memory")
