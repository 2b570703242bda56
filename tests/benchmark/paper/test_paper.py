"""The paper's evaluation: numbers by hand, report and figures from records alone, and what is run again."""

import json
import math
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from gdpnet.benchmark.baselines.fitting import Settings
from gdpnet.benchmark.baselines.methods import METHODS
from gdpnet.benchmark.cases import Setting
from gdpnet.benchmark.paper import figures as pictures
from gdpnet.benchmark.paper.artefacts import (
    CLAIMS,
    MAPPED,
    SWEEP,
    Artefacts,
    artefacts_left,
)
from gdpnet.benchmark.paper.claims import (
    _is_submodular,
    check_graph,
    check_neighbourhood,
    summary,
    total,
)
from gdpnet.benchmark.paper.report import grids_of, write_markdown, write_page
from gdpnet.benchmark.paper.tables import DATASETS, REPORTED, TITLES, make_table, reported
from gdpnet.benchmark.records import append_record
from gdpnet.cli import main
from gdpnet.cli import paper as reproducing
from gdpnet.cli.progress import TrialProgress
from gdpnet.config import shipped_config
from gdpnet.data.datasets.known import DATASETS as KNOWN
from gdpnet.errors import GDPNetError
from helpers.small import FAST, noisy_graph, write_folder

pytestmark = pytest.mark.slow  # nearly every test trains a model


def trial(method: str, score: float | None, seed: int = 0, graph: str = "cora", **more) -> dict:
    """Return the record of one trial; one that failed if it has no score."""
    metrics = {"error": "it broke"} if score is None else {"micro_f1": score}
    config = asdict(METHODS[method].settings) if method in METHODS else shipped_config("cora").to_dict()
    about = {"noise": "random-links", "rate": 0.0, "torch": "2.13.0", "commit": "abc", "config": config}
    return (
        about
        | {"kind": "robustness", "graph": graph, "method": method, "seed": seed, "metrics": metrics}
        | more
    )


RECORDS = [
    *(trial("gcn", score, seed) for seed, score in enumerate((0.80, 0.82, 0.84))),
    *(trial("gat", score, seed) for seed, score in enumerate((0.70, 0.72, 0.71))),
    *(trial("gdpnet", score, seed) for seed, score in enumerate((0.85, 0.86, 0.90))),
    trial("graphsage", None),
    trial("gcn", 0.5, seed=0, rate=1.0),
]


# --- tables ---


def test_a_table_has_means_deviations_trials_failures_and_what_the_paper_reports():
    table = make_table("table2", RECORDS)
    assert table.methods == ("gat", "gcn", "graphsage", "gdpnet")
    cell = table.cells[("gcn", "cora")]
    assert cell.text == f"0.820 ± {np.std([0.80, 0.82, 0.84], ddof=1):.3f} (3)"
    assert cell.paper == "0.838 ± 0.005"
    assert table.cells[("graphsage", "cora")].text == "failed"
    assert table.cells[("gcn", "pubmed")].text == ""
    assert table.best("cora") == "gdpnet"
    assert table.best("dblp") is None


def test_the_best_baseline_is_compared_on_the_seeds_that_both_have():
    records = [*RECORDS, trial("gdpnet", 0.99, seed=7)]
    chance = ttest_rel([0.85, 0.86, 0.90], [0.80, 0.82, 0.84]).pvalue
    assert (
        make_table("table2", records).comparison("cora") == f"+0.050 against GCN, p = {chance:.2g} (3 pairs)"
    )
    assert make_table("table2", records).comparison("pubmed") == ""
    few = [trial("gcn", 0.8), trial("gdpnet", 0.9)]
    assert "too few common trials" in make_table("table2", few).comparison("cora")


def test_of_two_settings_of_a_baseline_only_the_newest_counts():
    other = asdict(Settings(dropout=0.1))
    table = make_table("table2", [*RECORDS, trial("gcn", 0.6, seed=1, config=other)])
    assert table.cells[("gcn", "cora")].scores == {1: 0.6}


def test_a_variant_of_earlier_settings_is_marked_and_one_that_changes_its_own_setting_is_not():
    ours = shipped_config("cora")
    same, earlier = (
        config.with_overrides(["policy.order=random"]).to_dict()
        for config in (ours, ours.with_overrides(["training.injected=0.0"]))
    )
    for config, mark in ((same, ""), (earlier, " †")):
        records = [*RECORDS, trial("gdpnet-ro", 0.9, config=config)]
        noisy = trial("gdpnet-ro", 0.8, rate=1.0, config=config)
        assert make_table("table2", records).cells[("gdpnet-ro", "cora")].text == f"0.900 (1){mark}"
        grids = {grid.title: grid for grid in grids_of([*records, noisy])}
        paper, under_noise = (grids[name] for name in (TITLES["table2"], "Noise: cora, random-links"))
        assert paper.rows[-2][1].startswith(f"**0.900 (1){mark}**<br>paper: ")
        cells = {row[0]: row[2] for row in under_noise.rows}
        assert cells["GDPNet-RO"] == f"**0.800 ± 0.000 (1){mark}**"
        for grid in (paper, under_noise):
            assert any("other settings" in note for note in grid.notes) == bool(mark)
    gone = earlier | {"training": earlier["training"] | {"no_such_setting": 1}}
    assert (
        make_table("table2", [*RECORDS, trial("gdpnet-ro", 0.9, config=gone)])
        .cells[("gdpnet-ro", "cora")]
        .apart
    )


def test_the_paper_reports_every_method_on_every_dataset():
    assert reported("gdpnet", "citeseer") == "0.957 ± 0.003"
    assert all(len(row) == len(DATASETS) for row in REPORTED.values())
    assert reported("mlp", "cora") == reported("gcn", "mine") == ""


# --- the claims ---


def test_the_sum_of_rewards_by_hand():
    assert total((0.5, 0.25)) == pytest.approx(1 + 0.25 / 0.75)
    assert total((0.25, 0.5)) == pytest.approx(1 + 0.5 / 0.75)
    assert total(()) == 0.0


def test_a_neighbourhood_where_the_order_decides():
    found = check_neighbourhood("7", (0.9, 0.1))
    assert found.monotone
    assert found.diminishing
    assert (found.lowest, found.highest) == (pytest.approx(1.1), pytest.approx(1.9))
    assert found.greedy_share == pytest.approx(
        1.1 / 1.9
    )  # greedy takes the higher first, and it is the worse order


def test_equal_neighbours_have_one_sum_and_greedy_reaches_it():
    found = check_neighbourhood("7", (0.4, 0.4, 0.4))
    assert found.lowest == pytest.approx(found.highest) == pytest.approx(1 + 1 / 2 + 1 / 3)
    assert found.submodular
    assert found.greedy_share == pytest.approx(1.0)


@pytest.mark.parametrize(("power", "expected"), [(0.5, True), (1, True), (2, False)])
def test_a_set_function_with_growing_gains_is_not_submodular(power, expected):
    sets = [frozenset(some) for size in range(4) for some in combinations(range(3), size)]
    assert _is_submodular({some: len(some) ** power for some in sets}, 3) == expected


def test_claims_are_summed_up_over_neighbourhoods():
    found = summary([check_neighbourhood("1", (0.4, 0.4)), check_neighbourhood("2", (0.9, 0.1))])
    assert (found["neighbourhoods"], found["order_matters"], found["monotone"]) == (2, 1, 2)
    assert found["counter_example"]["node"] == "2"
    assert found["bound"] == pytest.approx(1 - 1 / math.e)
    assert found["greedy_share"] == pytest.approx(1.1 / 1.9)


def test_claims_are_checked_on_training_nodes_of_a_graph():
    graph = noisy_graph()
    checks = check_graph(graph, FAST, 0, nodes=6, most=4)
    names = {str(graph.node_ids[node]) for node in graph.nodes_in("train").tolist()}
    assert 0 < len(checks) <= 6
    assert {one.node for one in checks} <= names
    assert all(2 <= len(one.scores) <= 4 and all(0 < score < 1 for score in one.scores) for one in checks)


# --- artefacts ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "mine")


@pytest.fixture(scope="module")
def artefacts(folder) -> list[dict]:
    """Return the artefacts of every method that is drawn, on a small graph."""
    setting = Setting(str(folder), "paper", "random-links", 0.0, 0)
    quick = Settings(epochs=3, width=8)
    return [
        record
        for name in (*MAPPED, "lr", CLAIMS)
        for record in Artefacts(setting, name, FAST, "cpu", quick).run()
    ]


def test_artefacts_have_the_data_of_their_figures(artefacts):
    found = {record["method"]: record["metrics"] for record in artefacts}
    count = noisy_graph().nodes_in("test").numel()
    for method in MAPPED:
        assert np.array(found[method]["points"]).shape == (count, 2)
        assert -1.0 <= found[method]["silhouette"] <= 1.0
        assert found[method]["seconds"] > 0
    assert found["gcn"]["epochs"] == 3
    history = found["gdpnet"]["history"]
    assert len(history["reward"]) == len(history["validation_f1"]) == found["gdpnet"]["epochs"] == 3
    assert sum(found["gdpnet"]["shares"]) == int((noisy_graph().row_ptr.diff() > 0).sum())
    assert found[CLAIMS]["monotone"] == found[CLAIMS]["neighbourhoods"]
    json.dumps(artefacts, allow_nan=False)


def test_what_fails_is_a_record_and_is_tried_again(folder, tmp_path):
    setting = Setting(str(folder / "nowhere"), "paper", "random-links", 0.0, 0)
    [record] = Artefacts(setting, "gcn", FAST, "cpu").run()
    assert "nowhere" in record["metrics"]["error"]
    append_record(tmp_path / "p.jsonl", record)
    wanted = ([setting], ["gcn"], {setting.graph: FAST}, "cpu", tmp_path / "p.jsonl", {})
    assert len(artefacts_left(*wanted)) == 1
    append_record(tmp_path / "p.jsonl", record | {"metrics": {"seconds": 1.0}})
    assert artefacts_left(*wanted) == []
    tuned = {(setting.graph, "gcn"): Settings(width=5)}  # other settings are another trial
    assert len(artefacts_left(*wanted[:-1], tuned)) == 1
    assert SWEEP.latest([record]) == {}


# --- figures and report ---


def test_figures_are_drawn_from_the_records_there_are(artefacts, tmp_path):
    curves = [
        trial(method, 0.5 + seed / 10, seed, noise="hidden-labels", rate=rate)
        for method in ("gcn", "gdpnet")
        for seed in (0, 1)
        for rate in (0.0, 0.5)
    ]
    variants = [trial(f"gdpnet:discount-{value}", 0.8) for value in ("0", "1")]
    drawn = pictures.draw_all([*artefacts, *curves, *variants], tmp_path)
    names = {path.name for path in drawn}
    assert names == set(pictures.SENTENCES) - {"epochs.png", "reliability.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    assert pictures.draw_all([], tmp_path / "none") == []


def test_the_page_is_self_contained_and_the_markdown_has_the_same_tables(artefacts, tmp_path):
    records = [*RECORDS, *artefacts]
    written = write_page(records, tmp_path / "report.html", tmp_path / "figures")
    page = (tmp_path / "report.html").read_text()
    assert "<strong>0.870 ± 0.026 (3)</strong><small>paper: 0.881 ± 0.003</small>" in page
    assert "http" not in page
    assert page.count("data:image/png;base64,") == len(written) - 1 == 4
    assert "prefers-color-scheme: dark" in page
    write_markdown(records, tmp_path / "results.md", tmp_path / "figures")
    twin = (tmp_path / "results.md").read_text()
    assert "| GDPNet | **0.870 ± 0.026 (3)**<br>paper: 0.881 ± 0.003 |" in twin
    assert "](figures/maps.png)" in twin
    assert [grid.title for grid in grids_of(records)] == [
        line.removeprefix("## ")
        for line in twin.splitlines()
        if line.startswith("## ") and "Figures" not in line
    ]


def test_text_of_records_is_escaped_in_the_page(tmp_path):
    write_page(
        [trial("gcn", 0.5, graph="<script>", rate=0.5)], tmp_path / "report.html", tmp_path / "figures"
    )
    page = (tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\n<script>", "a | <b>", "[x](javascript:1)"])
def test_text_of_records_is_escaped_in_the_markdown(name, tmp_path):
    records = [trial(name, 0.5, graph=name, rate=0.5)]
    write_markdown(records, tmp_path / "report.md", tmp_path / "figures")
    text = (tmp_path / "report.md").read_text()
    assert "<script" not in text
    assert "<b>" not in text
    assert "[x](" not in text
    assert len({line.count(" | ") for line in text.splitlines() if line.startswith("| ")}) == 1


# --- the command line ---


def test_report_writes_both_and_refuses_an_empty_folder(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none"), "--out", str(tmp_path / "r.html")]) == 2
    assert "there is no folder of records" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "--out", str(tmp_path / "r.html")]) == 2
    assert "holds no record" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()
    for record in RECORDS:
        append_record(tmp_path / "results" / "robustness.jsonl", record)
    out = ["--out", str(tmp_path / "r.html"), "--markdown", str(tmp_path / "r.md")]
    assert main(["report", str(tmp_path / "results"), *out]) == 0
    assert (tmp_path / "r.html").exists()
    assert (tmp_path / "r.md").exists()


def test_reproduce_prints_the_table_beside_the_paper_and_runs_what_is_missing(tmp_path, capsys, monkeypatch):
    for record in RECORDS:
        append_record(tmp_path / "robustness.jsonl", record)
    arguments = ["reproduce", "table2", "--datasets", "cora", "--results", str(tmp_path), "--json"]
    assert main([*arguments, "--report-only"]) == 0
    said = capsys.readouterr()
    assert "GDPNet on cora: +0.050 against GCN" in said.err
    answer = {row["method"]: row for row in json.loads(said.out)["table2"]}
    assert answer["gdpnet"]["mean"] == pytest.approx(0.87)
    assert answer["graphsage"]["failed"] == 1
    ran = []
    monkeypatch.setattr("gdpnet.benchmark.sweep.run_all", lambda trials, *rest: ran.extend(trials))
    monkeypatch.setattr("gdpnet.cli.paper.refuse_untrainable", lambda *given, **options: None)
    known = {"cora": KNOWN["cora"].fingerprint}  # that of the records, which do not have one
    monkeypatch.setattr("gdpnet.cli.paper.contents_of", lambda *given: known)
    assert main([*arguments, "--trials", "3"]) == 0
    wanted = {(trial.setting.seed, method) for trial in ran for method in trial.methods}
    assert (0, "gdpnet") not in wanted
    assert (0, "gcn") not in wanted
    assert (0, "graphsage") in wanted
    assert {(seed, "gdpnet-ro") for seed in range(3)} <= wanted


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table2", "--datasets", "corra"], "the paper has no dataset 'corra'; did you mean 'cora'?"),
        (["table2", "--datasets", "cora", "--data-dir", __file__], "cannot be downloaded"),
        (["table2", "--datasets", ","], "--datasets must name at least one dataset"),
        (["table4"], "table4"),
        (["table2", "--trials", "0"], "trials"),
    ],
)
def test_bad_input_to_reproduce_is_one_sentence(arguments, sentence, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--results", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_progress_is_printed_for_every_kind_of_record(artefacts, capsys):
    told = TrialProgress(3)
    told([artefacts[0]])
    told([trial("gcn", 0.5, rate=1.0)])
    told([trial("gcn", None)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("] ")[1] for line in lines[1:]] == [
        "cora random-links 1 seed 0 gcn: 0.5000",
        "cora random-links 0 seed 0 gcn: failed: it broke",
    ]
    assert lines[0].endswith("seed 0 gdpnet: done")


def test_scores_under_another_noise_do_not_count_in_a_table():
    other = trial("gcn", 0.1, noise="hidden-labels")
    assert make_table("table2", [*RECORDS, other]).cells[("gcn", "cora")].scores[0] == 0.80


def test_figures_plan_artefacts_variants_and_shares(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr("gdpnet.benchmark.sweep.run_all", lambda trials, *rest: ran.extend(trials))
    monkeypatch.setattr(reproducing, "refuse_untrainable", lambda *given, **options: None)
    monkeypatch.setattr(reproducing, "contents_of", lambda *given: {})
    reproducing._run(["cora"], [], 0, 2, 1, tmp_path, "cpu", None)
    drawn = [one.method for one in ran if isinstance(one, Artefacts)]
    assert set(MAPPED) | {CLAIMS} <= set(drawn)
    trials = {
        (one.setting.noise, one.setting.rate, method)
        for one in ran
        if not isinstance(one, Artefacts)
        for method in one.methods
    }
    assert ("random-links", 0.0, "gdpnet:discount-0.9") in trials
    assert ("hidden-labels", 0.5, "gat") in trials


def task_record(method: str, seed: int, nmi: float) -> dict:
    about = {"kind": "task", "task": "clusters", "graph": "cora", "noise": "random-links", "rate": 1.0}
    metrics = {"nmi": nmi, "ari": nmi / 2, "accuracy": nmi + 0.1}
    return about | {"method": method, "seed": seed, "config": {}, "metrics": metrics, "commit": "abc"}


def test_tasks_without_labels_have_a_table_of_their_own():
    records = [task_record("gdpnet", 0, 0.4), task_record("gdpnet", 1, 0.5), task_record("dgi", 0, 0.3)]
    (grid,) = grids_of(records)
    assert grid.title == "Clusters: cora, random-links"
    assert grid.columns == ("method", "rate 1")
    assert grid.rows[0][1] == "**0.450 ± 0.071 (2)**<br>0.225, 0.550"
    assert grid.rows[1][1] == "0.300 ± 0.000 (1)<br>0.150, 0.400"


def test_a_record_without_its_score_is_one_sentence():
    record = {
        "kind": "robustness", "graph": "cora", "noise": "random-links", "rate": 0.0, "method": "gcn", "seed": 0,
        "metrics": {}, "config": {}, "commit": "unknown", "version": "0.2.0", "device": "cpu", "time": "",
    }  # fmt: skip
    with pytest.raises(
        GDPNetError, match=r"a record does not hold what its kind needs \(KeyError: 'micro_f1'\)"
    ):
        make_table("table2", [record])
