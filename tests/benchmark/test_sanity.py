"""Simple methods are scored beside a trained model, and sentences say what to be careful about."""

import pytest

from gdpnet.benchmark.sanity import Row, check_model, verdict
from helpers.small import fitted, noisy_graph

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
