"""Settings of baselines: searched on validation nodes, recorded, and used on the graph they were found on."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from gdpnet.benchmark import tuning
from gdpnet.benchmark.ablations import CLEANED
from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.baselines.methods import METHODS
from gdpnet.benchmark.cases import Setting, noisy_graph
from gdpnet.benchmark.records import append_record, read_records
from gdpnet.benchmark.robustness import Trial, plan
from gdpnet.benchmark.tuning import CANDIDATES, DEPTHS, cleaned_task, searched_settings, searches_left
from gdpnet.cli import main
from gdpnet.estimator import GDPNet
from helpers.graphs import assert_same
from helpers.small import FAST, write_folder
from helpers.small import noisy_graph as noisy_small_graph

pytestmark = pytest.mark.slow  # nearly every test trains a model

TRIED = [*CANDIDATES, *({**CANDIDATES[0], "layers": layers} for layers in DEPTHS)]

SEARCHED = {
    "kind": "search",
    "method": "gcn",
    "noise": "random-links",
    "rates": [0.0],
    "seed": 0,
    "metrics": {"candidates": TRIED, "validation_f1": [0.5] * len(TRIED)},
    "config": {},
    "commit": "abc",
}

QUICK = replace(METHODS["mlp"].settings, epochs=3)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "mine")


@pytest.fixture
def quick(monkeypatch):
    """Let every network of a search train for three epochs only."""
    run = tuning.run_task

    def few(name, task, seed, device, settings=None):
        return run(name, task, seed, device, replace(settings or METHODS[name].settings, epochs=3))

    monkeypatch.setattr(tuning, "run_task", few)


def words_of(folder, path, *more: str) -> list[str]:
    return ["tune", "--dataset", str(folder), "--records", str(path), "--rates", "0,0.5", *more]


def test_a_search_is_a_record_with_every_candidate_and_is_not_run_again(folder, tmp_path, capsys, quick):
    path = tmp_path / "settings.jsonl"
    assert main([*words_of(folder, path), "--methods", "mlp,cosine-gcn,lr", "--json"]) == 0
    out = capsys.readouterr().out
    found = {row["method"]: row for row in json.loads(out.splitlines()[-1])["settings"]}
    assert found.keys() == {"mlp", "cosine-gcn"}  # logistic regression has no network to search
    records = read_records(path)
    assert [record["method"] for record in records] == ["mlp", "cosine-gcn"]
    for record in records:
        scores, candidates = record["metrics"]["validation_f1"], record["metrics"]["candidates"]
        assert len(scores) == len(candidates) == len(CANDIDATES) + len(DEPTHS)
        best = candidates[scores.index(max(scores))]
        assert {key: record["config"][key] for key in best} == best
        assert record["config"]["choice"] is None
        assert record["rates"] == [0.0, 0.5]
    content = path.read_bytes()
    assert main([*words_of(folder, path), "--methods", "mlp"]) == 0
    assert "min left" not in capsys.readouterr().err
    assert path.read_bytes() == content


def test_another_graph_is_searched_anew(folder, tmp_path):
    path = tmp_path / "settings.jsonl"
    append_record(path, SEARCHED | {"graph": "mine"})
    mine, other = (Setting(name, "paper", "random-links", 0.0, 0) for name in ("mine", "other"))
    left = searches_left([((mine,), FAST), ((other,), FAST)], ["gcn", "mlp"], "cpu", path)
    assert [(one.stub["graph"], one.method) for one in left] == [
        ("mine", "mlp"),
        ("other", "gcn"),
        ("other", "mlp"),
    ]


def test_a_search_of_fewer_candidates_goes_on_with_the_new_ones(tmp_path):
    path = tmp_path / "settings.jsonl"
    early = {"candidates": list(CANDIDATES), "validation_f1": [0.5] * len(CANDIDATES)}
    append_record(path, SEARCHED | {"graph": "mine", "metrics": early})
    (left,) = searches_left(
        [((Setting("mine", "paper", "random-links", 0.0, 0),), FAST)], ["gcn"], "cpu", path
    )
    assert [candidate for candidate, _ in left.known] == list(CANDIDATES)


@pytest.mark.parametrize("change", [{"seed": 1}, {"rates": [0.0, 1.0]}, {"noise": "deleted-links"}])
def test_a_search_for_something_else_is_another_one(tmp_path, change):
    path = tmp_path / "settings.jsonl"
    wanted = ([((Setting("mine", "paper", "random-links", 0.0, 0),), FAST)], ["gcn"], "cpu", path)
    append_record(path, SEARCHED | {"graph": "mine"} | change)
    assert len(searches_left(*wanted)) == 1
    append_record(path, SEARCHED | {"graph": "mine"})
    assert searches_left(*wanted) == []


def test_a_search_that_fails_is_a_record_and_is_tried_again(folder, tmp_path, capsys, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("out of memory:\n  too much")

    path = tmp_path / "settings.jsonl"
    monkeypatch.setattr("gdpnet.benchmark.tuning.search_tasks", broken)
    assert main([*words_of(folder, path), "--methods", "mlp"]) == 1
    said = capsys.readouterr().err
    assert "mlp: failed: out of memory: too much" in said
    assert "gdpnet: 1 of 1 trial failed, the first because: out of memory: too much; the same command" in said
    assert searched_settings(path) == {}
    assert main([*words_of(folder, path), "--methods", "mlp"]) == 1
    assert len(read_records(path)) == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("[1]", "it must be a JSON object"),
        ('{"kind": "search", "method": "gcn"}', "a record of kind 'search' lacks its 'graph'"),
        ("nonsense", "is not a record: it must be a JSON object"),
    ],
)
def test_records_that_are_none_are_refused_in_one_sentence(folder, tmp_path, capsys, line, sentence):
    path = tmp_path / "settings.jsonl"
    path.write_text(line + "\n")
    for words in (
        [*words_of(folder, path), "--methods", "mlp"],
        ["report", str(tmp_path), "--out", str(tmp_path / "r.html")],
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.strip().splitlines()) == 1


def test_what_was_found_is_used_and_makes_another_trial(folder, tmp_path):
    path = tmp_path / "settings.jsonl"
    settings = replace(QUICK, dropout=0.25)
    append_record(path, SEARCHED | {"graph": str(folder), "config": asdict(settings)})
    append_record(path, {"kind": "other"})
    found = searched_settings(path)
    assert found == {(str(folder), "gcn"): settings}
    setting = Setting(str(folder), "paper", "random-links", 0.0, 0)
    records = tmp_path / "records.jsonl"
    [trial] = plan([setting], ["gcn"], FAST, "cpu", records, {"gcn": settings})
    [record] = trial.run()
    assert record["config"]["dropout"] == 0.25
    append_record(records, record)
    assert plan([setting], ["gcn"], FAST, "cpu", records, {"gcn": settings}) == []
    assert len(plan([setting], ["gcn"], FAST, "cpu", records, {})) == 1


def test_networks_on_a_cleaned_graph_have_the_settings_of_their_own_search(folder):
    setting = Setting(str(folder), "paper", "random-links", 0.5, 0)
    searched = {"gcn": replace(QUICK, width=5), "graphsage": replace(QUICK, width=6)}
    records = Trial(setting, ("gdpnet>gcn", "gdpnet>graphsage"), FAST, "cpu", searched).run()
    widths = {record["method"]: record["config"]["backbone"]["width"] for record in records}
    assert widths == {"gdpnet>gcn": 5, "gdpnet>graphsage": 6}
    trial = Trial(setting, ("gdpnet>gat",), FAST, "cpu", searched)
    assert trial.settings_of("gdpnet>gat") == METHODS[CLEANED["gdpnet>gat"]].settings


def test_settings_of_an_older_record_are_read_with_what_they_lack(tmp_path):
    path = tmp_path / "settings.jsonl"
    append_record(path, SEARCHED | {"graph": "a", "config": {"width": 7, "gone": 1}})
    append_record(path, SEARCHED | {"graph": "a", "metrics": {"error": "it broke"}})
    assert searched_settings(path) == {("a", "gcn"): Settings(width=7)}
    assert searched_settings(tmp_path / "none.jsonl") == {}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--methods", "gnc"], "there is no method 'gnc'; did you mean 'gcn'?"),
        (["--methods", "gdpnet:no-gcn"], "--methods must name at least one baseline"),
        (["--methods", "gcn", "--noise", "random-link"], "there is no noise 'random-link'"),
        (["--methods", "gcn", "--rates", "0,x"], "--rates must be comma-separated numbers"),
        pytest.param(
            ["--methods", "gcn", "--device", "cuda"],
            "torch finds no CUDA GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        (
            ["--methods", "gcn", "--split", "mine"],
            "--split must be paper, random or shares that sum to 100, such as 60/20/20, found 'mine'",
        ),
    ],
)
def test_bad_input_is_one_sentence_before_anything_runs(folder, tmp_path, capsys, more, sentence):
    path = tmp_path / "settings.jsonl"
    assert main([*words_of(folder, path), *more]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not path.exists()


def test_a_network_on_the_cleaned_graph_is_searched_there_and_keeps_what_was_found(
    folder, tmp_path, quick, monkeypatch
):
    fitted = []

    class Watched(GDPNet):
        def fit(self, graph, **options):
            fitted.append(graph.num_edges)
            return super().fit(graph, **options)

    monkeypatch.setattr(tuning, "GDPNet", Watched)
    setting = Setting(str(folder), "paper", "random-links", 0.5, 0)
    path = tmp_path / "settings.jsonl"
    methods = ["gdpnet>gcn", "gdpnet>graphsage"]
    left = searches_left([((setting,), FAST)], methods, "cpu", path)
    for one in left:
        for record in one.run():
            assert "error" not in record["metrics"]
            append_record(path, record)
    assert len(fitted) == 1  # the second network is searched on the graph that was cleaned for the first
    assert searches_left([((setting,), FAST)], methods, "cpu", path) == []
    found = searched_settings(path)
    mine = {method: settings for (_, method), settings in found.items()}
    trial = Trial(setting, ("gdpnet>gcn",), FAST, "cpu", mine | {"gat": QUICK})
    assert trial.settings_of("gdpnet>gcn") == mine["gdpnet>gcn"]
    assert trial.settings_of("gcn") == METHODS["gcn"].settings  # on the graph as it was nothing was searched
    assert trial.settings_of("gdpnet>gat") == QUICK  # its own was not searched: that of the graph as it was


def test_another_cleaner_is_another_search(folder, tmp_path):
    path, setting = tmp_path / "settings.jsonl", Setting(str(folder), "paper", "random-links", 0.5, 0)
    (one,) = searches_left([((setting,), FAST)], ["gdpnet>gcn"], "cpu", path)
    record = {
        "kind": "search",
        "graph": one.stub["graph"],
        "noise": "random-links",
        "rates": [0.5],
        "method": "gdpnet>gcn",
    }
    record |= {
        "seed": 0,
        "config": {},
        "commit": "abc",
        "cleaner": one.stub["cleaner"],
        "metrics": SEARCHED["metrics"],
    }
    append_record(path, record)
    assert searches_left([((setting,), FAST)], ["gdpnet>gcn"], "cpu", path) == []
    other = FAST.with_values({"ppo": {"discount": 0.5}})
    assert len(searches_left([((setting,), other)], ["gdpnet>gcn"], "cpu", path)) == 1


def test_a_graph_without_a_split_has_validation_nodes_on_its_cleaned_graph_too(tmp_path):
    graph = noisy_small_graph()
    folder = write_folder(tmp_path / "mine", replace(graph, split=graph.split * 0))
    task = cleaned_task(Setting(str(folder), "paper", "random-links", 0.5, 0), "gdpnet", FAST, "cpu")
    assert task.validation.numel() > 0
    assert task.targets.numel() > 0


def test_a_misspelt_network_on_the_cleaned_graph_is_refused(folder, tmp_path, capsys):
    words = words_of(folder, tmp_path / "settings.jsonl")
    assert main([*words, "--methods", "gcn,gdpnet>gcnn"]) == 2
    assert "gdpnet>gcnn" in capsys.readouterr().err


def test_the_networks_see_the_cleaned_graph(folder):
    setting = Setting(str(folder), "paper", "random-links", 1.0, 0)
    task = cleaned_task(setting, "gdpnet", FAST, "cpu")
    graph = noisy_graph(setting)
    model = GDPNet.from_config(FAST, seed=0, device="cpu").fit(graph)
    assert_same(task.whole, model.denoise(graph).graph)
