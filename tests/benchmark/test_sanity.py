"""Simple methods are scored beside a trained model, and sentences say what to be careful about."""

from dataclasses import asdict

import pytest

from gdpnet.benchmark.sanity import Row, check_model, verdict
from gdpnet.benchmark.score_tables import check_table
from helpers.small import FAST, fitted, noisy_graph

OWN = Row("GDPNet", 0.9, 0.9, 10.0)


def test_a_method_that_is_clearly_better_is_named() -> None:
    said = verdict([Row("GCN", 0.95, 0.94, 1.0), OWN], {})
    assert said == ["GDPNet is not ahead: GCN has 4.0 points more macro-F1; use that, or see the settings"]


def test_a_small_lead_of_another_method_may_be_chance() -> None:
    assert verdict([Row("GCN", 0.91, 0.905, 1.0), OWN], {})[0].endswith("the difference may be chance")


def test_a_lead_of_one_node_in_fifty_may_be_chance() -> None:
    rows = [Row("GCN", 0.92, 0.92, 1.0), OWN]
    assert verdict(rows, {"nodes": 50})[0].endswith("the difference may be chance")
    assert verdict(rows, {"nodes": 50_000})[0].endswith("use that, or see the settings")


def test_nothing_is_said_of_methods_that_are_behind_or_were_left_out() -> None:
    assert verdict([Row("GCN", 0.8, 0.8, 1.0), Row("trees", None, None, 0.0), OWN], {"kept_share": 0.7}) == []


@pytest.mark.parametrize(("kept", "word"), [(0.0, "nearly every edge"), (1.0, "nearly nothing")])
def test_cleaning_that_removes_everything_or_nothing_is_said(kept: float, word: str) -> None:
    assert word in verdict([OWN], {"kept_share": kept})[0]


def test_suspected_labels_are_counted() -> None:
    assert verdict([OWN], {"suspected_labels": 12}) == [
        "12 training labels are suspected to be wrong: look at them first"
    ]


def test_methods_are_compared_by_the_metric_that_the_model_was_chosen_by() -> None:
    own = Row("GDPNet", 0.9, 0.9, 10.0, score=0.40)
    rows = [Row("GCN", 0.5, 0.5, 1.0, score=0.60), Row("trees", 0.99, 0.99, 1.0, score=0.10), own]
    intervals = {"intervals": {"average_precision": [0.35, 0.45]}}
    assert verdict(rows, intervals, "average_precision") == [
        "GDPNet is not ahead: GCN has 20.0 points more average precision; use that, or see the settings"
    ]
    wide = {"intervals": {"average_precision": [0.1, 0.8]}}
    assert verdict(rows, wide, "average_precision")[0].endswith("the difference may be chance")


def test_less_log_loss_is_better() -> None:
    own = Row("GDPNet", 0.9, 0.9, 10.0, score=0.40)
    rows = [Row("GCN", 0.9, 0.9, 1.0, score=0.30), Row("trees", 0.9, 0.9, 1.0, score=2.0), own]
    assert verdict(rows, {}, "log_loss")[0].startswith("GDPNet is not ahead: GCN has 0.100 less log loss")


def test_the_table_of_the_check_has_the_metric_of_the_model() -> None:
    methods = [
        asdict(Row("GCN", 0.9, 0.8, 1.0, score=0.7)),
        asdict(Row("trees", None, None, 0.0, "left out")),
    ]
    header, rows = check_table({"metric": "average_precision", "methods": methods, "warnings": []})
    assert header == ["method", "micro f1", "macro f1", "average precision", "seconds"]
    assert rows == [("GCN", 0.9, 0.8, 0.7, "1.0"), ("trees", None, None, None, "left out")]


@pytest.mark.slow
def test_the_check_scores_every_method_by_the_metric_of_the_model() -> None:
    graph = noisy_graph()
    model = fitted(graph, FAST.with_values({"training": {"metric": "log_loss"}}))
    rows = check_model(model, model.predictor(graph), "test", fit_seconds=1000.0)
    assert rows[0].score == pytest.approx(1.1, abs=0.1)  # the entropy of three classes
    assert all(row.score is not None for row in rows if row.micro_f1 is not None)


@pytest.mark.slow
def test_simple_methods_are_scored_on_the_same_nodes_within_their_budget() -> None:
    graph = noisy_graph()
    model = fitted(graph)
    rows = check_model(model, model.predictor(graph), "test", fit_seconds=1000.0)
    assert [row.method for row in rows] == [
        "most frequent class",
        "logistic regression on features",
        "GCN",
        "boosted trees on features",
        "GDPNet without selection",
        "GDPNet",
    ]
    assert rows[-1].micro_f1 == pytest.approx(model.score(graph))
    assert rows[3].remark == "left out: too many features"
    rushed = check_model(model, model.predictor(graph), "test", fit_seconds=0.0)
    assert {row.remark for row in rushed[1:-1]} == {"left out to save time"}
