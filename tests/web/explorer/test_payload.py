"""The data of a page says what predict, denoise, explain and evaluate say."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gdpnet.benchmark.evaluation import evaluate
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import ConfigError, GraphError
from gdpnet.web.explorer.lists import first_node
from gdpnet.web.explorer.page import json_text
from gdpnet.web.explorer.payload import build_payload, build_summary, neighbourhood, search_nodes
from helpers.pages import unpacked
from helpers.small import FAST, fitted, noisy_graph

pytestmark = pytest.mark.slow  # every test needs a model


def test_edges_have_the_probabilities_of_denoise(predictor, payload, graph):
    cleaned, links = predictor.denoise(), payload["links"]
    assert unpacked(links["row_ptr"]).tolist() == graph.row_ptr.tolist()
    assert unpacked(links["neighbour"]).tolist() == graph.neighbour.tolist()
    assert (unpacked(links["keep"]) == cleaned.keep_probability).all()
    assert unpacked(links["genuine"]) == pytest.approx(cleaned.genuine_probability, abs=1e-5)
    assert unpacked(links["spurious"]).astype(bool).tolist() == graph.truth.spurious.tolist()


def test_steps_are_the_decisions_of_explain_in_their_order(predictor, payload, graph):
    steps, first = payload["steps"], unpacked(payload["steps"]["row_ptr"])
    ids = payload["nodes"]["id"]
    for place in (0, 3, 41):
        told, rows = predictor.explain(ids[place]), slice(first[place], first[place + 1])
        assert [ids[one] for one in unpacked(steps["neighbour"])[rows]] == [
            one.neighbour for one in told.decisions
        ]
        for name in ("contribution", "cosine", "agreement", "common_neighbours", "keep_by_node"):
            expected = [getattr(one, name) for one in told.decisions]
            assert unpacked(steps[name])[rows] == pytest.approx(np.array(expected), abs=1e-5), name
        assert unpacked(steps["step"])[rows].tolist() == [one.step or 0 for one in told.decisions]
        assert unpacked(payload["nodes"]["value"])[place] == pytest.approx(told.probability)
        assert unpacked(payload["nodes"]["alone"])[place] == pytest.approx(told.probability_alone)


def test_nodes_have_their_labels_predictions_and_what_each_head_says(predictor, payload, graph):
    nodes = payload["nodes"]
    assert nodes["id"] == graph.node_ids.tolist()
    assert unpacked(nodes["predicted"]) == [str(one) for one in predictor.predict()]
    expected = [None if one == UNKNOWN else graph.class_names[one] for one in graph.labels.tolist()]
    assert unpacked(nodes["label"]) == expected
    told = predictor.explain(nodes["id"][5])
    assert [head["weight"] for head in nodes["heads"]] == [one.weight for one in told.heads]
    assert [unpacked(head["value"])[5] for head in nodes["heads"]] == pytest.approx(
        [one.value for one in told.heads]
    )


def test_every_threshold_keeps_as_many_edges_as_denoise(predictor, payload):
    table = payload["judge"]["thresholds"]
    for place in (0, 3, 30, 50, 77, len(table["threshold"]) - 1):
        kept = predictor.denoise(threshold=table["threshold"][place]).kept
        assert table["kept"]["all"][place] == kept.sum()
    own = table["threshold"].index(predictor.model.threshold.threshold)
    assert table["kept"]["all"][own] == predictor.denoise().kept.sum()


def test_removed_edges_by_class_add_up_to_all_removed_edges(predictor, payload, graph):
    matrix, table = payload["judge"]["matrix"], payload["judge"]["thresholds"]
    removed = unpacked(matrix["removed"]).reshape(len(table["threshold"]), -1)
    assert sum(matrix["total"]) == graph.num_edges
    assert (graph.num_edges - removed.sum(axis=1)).tolist() == table["kept"]["all"]


def test_scores_are_those_of_evaluate(predictor, payload):
    scores, metrics = (
        dict(row[:2] for row in payload["judge"]["scores"]["tables"][0]["rows"]),
        evaluate(predictor),
    )
    assert scores["micro f1"] == f"{metrics['micro_f1']:.4g}"
    assert payload["judge"]["edges"]["roc"][0]["auc"] == pytest.approx(metrics["keep_auc"])
    assert payload["judge"]["edges"]["calibration"][1]["error"] == pytest.approx(
        metrics["genuine_calibration_error"]
    )


def test_lists_are_sorted_and_name_nodes_of_the_page(payload, graph):
    ids, degrees = set(payload["nodes"]["id"]), graph.degree.tolist()
    for one in payload["lists"]:
        assert {row["id"] for row in one["rows"]} <= ids
    (hubs,) = (one["rows"] for one in payload["lists"] if one["key"] == "hubs")
    found = [degrees[payload["nodes"]["id"].index(row["id"])] for row in hubs]
    assert found == sorted(degrees, reverse=True)[: len(found)]


def test_lists_name_predictions_and_stay_when_they_are_empty(payload, predictor):
    lists = {one["key"]: one for one in payload["lists"]}
    assert list(lists) == ["removed", "surprising", "suspected", "changed", "hubs"]
    assert (lists["suspected"]["rows"], lists["suspected"]["none"]) == ([], "No suspected label errors.")
    predicted = dict(zip(payload["nodes"]["id"], predictor.predict(), strict=True))
    assert all(row["predicted"] == predicted[row["id"]] for row in lists["hubs"]["rows"])
    assert "changed" not in {one["key"] for one in build_summary(predictor)["lists"]}  # nothing is explained


def test_a_neighbourhood_says_what_the_whole_page_says(predictor, payload):
    node = payload["nodes"]["id"][3]
    part = neighbourhood(predictor, node)
    here, there = part["nodes"]["id"].index(node), 3
    first, every = unpacked(part["steps"]["row_ptr"]), unpacked(payload["steps"]["row_ptr"])
    rows, all_rows = slice(first[here], first[here + 1]), slice(every[there], every[there + 1])
    mine, whole = (unpacked(one["steps"]["contribution"]) for one in (part, payload))
    assert mine[rows] == pytest.approx(whole[all_rows], abs=1e-6)
    assert unpacked(part["nodes"]["degree"])[here] == unpacked(payload["nodes"]["degree"])[there]
    assert not part["about"]["whole"]


def test_a_page_of_some_nodes_explains_these_alone(predictor):
    part = build_payload(predictor, nodes=["030", "040"], hops=1)
    explained = ~np.isnan(unpacked(part["nodes"]["alone"]))
    assert [one for one, there in zip(part["nodes"]["id"], explained, strict=True) if there] == ["030", "040"]
    assert part["nodes"]["count"] < 80
    assert part["judge"]["thresholds"]["kept"]["all"][0] == predictor.graph.num_edges


def test_too_large_a_graph_is_refused_before_anything_is_explained(model, graph):
    with pytest.raises(GraphError, match="gdpnet serve"):
        build_payload(model, graph, most_edges=10)


def test_a_model_needs_a_graph_and_a_predictor_has_one(model, graph, predictor):
    with pytest.raises(ConfigError, match="found none"):
        build_payload(model)
    with pytest.raises(ConfigError, match="leave the graph out"):
        build_payload(predictor, graph)


def test_a_summary_without_decisions_has_neither_judge_nor_lists_but_hubs(predictor):
    summary = build_summary(predictor, decided=False)
    assert (summary["judge"], [one["key"] for one in summary["lists"]]) == (None, ["hubs"])
    assert json.loads(json_text(build_summary(predictor)))["judge"]["thresholds"]


def test_a_page_with_a_server_begins_with_a_node_of_several_neighbours_that_is_no_hub():
    """Node 0 is a hub of 300, 301 to 303 are a path, 304 has five neighbours, one of which is the hub."""
    hub = [(0, other) for other in range(1, 301)]
    path = [(301, 302), (302, 303)]
    near = [(304, other) for other in (0, 1, 2, 3, 4)]
    graph = Graph.build(torch.tensor([*hub, *path, *near]).T, torch.eye(305))
    assert first_node(graph) == "302"
    star = Graph.build(torch.tensor(hub).T, torch.eye(301))
    assert first_node(star) == "1"
    assert first_node(Graph.build(torch.zeros(2, 0, dtype=torch.long), torch.eye(3))) == "0"


def test_a_page_with_a_server_begins_with_a_node_that_has_neighbours():
    """Node 0 is isolated, 1 to 22 all have 21 neighbours or more."""
    ends = [(a, b) for a in range(1, 23) for b in range(a + 1, 23)]
    graph = Graph.build(torch.tensor(ends).T, torch.eye(23))
    assert first_node(graph) != "0"


def test_search_ranks_equal_ids_before_those_that_begin_with_the_text():
    graph = noisy_graph()
    assert [one["id"] for one in search_nodes(graph, "07", most=3)] == ["070", "071", "072"]
    assert search_nodes(graph, "007")[0]["id"] == "007"
    assert search_nodes(graph, "topic 2")[0]["text"] == "topic 2"
    assert search_nodes(graph, "no such") == []


@pytest.mark.parametrize("kind", ["links", "clusters"])
def test_tasks_without_labels_have_a_page_too(kind):
    graph = noisy_graph(60)
    changes = {"task": {"kind": kind, "clusters": 3 if kind == "clusters" else 0}, "links": {"steps": 20}}
    page = build_payload(fitted(graph, FAST.with_values(changes)), graph)
    assert page["nodes"]["probabilities"] is None
    assert None not in unpacked(page["nodes"]["predicted"])
    assert "suspected" not in {one["key"] for one in page["lists"]}
    json.loads(json_text(page))


def test_a_neighbourhood_is_that_of_the_id_even_if_ids_are_other_whole_numbers(model, graph):
    numbered = replace(graph, node_ids=np.arange(80)[::-1].copy())
    part = neighbourhood(model, 3, numbered)
    explained = ~np.isnan(unpacked(part["nodes"]["alone"]))
    assert [one for one, there in zip(part["nodes"]["id"], explained, strict=True) if there] == ["3"]


def test_a_graph_whose_nodes_have_no_features_has_none_on_its_page(model, graph):
    one_hot = replace(graph, features=SparseRows.identity(80))
    assert build_summary(model, graph, decided=False)["about"]["features"] == 300
    assert build_summary(fitted(one_hot), decided=False, graph=one_hot)["about"]["features"] == 0


def test_regression_has_numbers_and_no_classes():
    graph = noisy_graph(60)
    numbers = replace(
        graph, targets=graph.labels.float() * 10, labels=torch.full((60,), UNKNOWN), class_names=()
    )
    predictor = fitted(numbers, FAST.with_values({"task": {"kind": "regression", "bins": 4}})).predictor(
        numbers
    )
    page = build_payload(predictor)
    assert page["about"]["classes"] == []
    assert unpacked(page["nodes"]["value"]) == pytest.approx(predictor.predict(), rel=1e-4)
    assert page["nodes"]["probabilities"] is None
    assert "matrix" not in page["judge"]
    assert next(one for one in page["lists"] if one["key"] == "surprising")["rows"][0]["text"].startswith(
        "off by"
    )


def test_candidates_beyond_neighbours_keep_their_own_probabilities():
    graph = noisy_graph(60)
    model = fitted(graph, FAST.with_values({"policy": {"hops": 2, "hidden": [8, 6]}}))
    page, told = build_payload(model, graph), model.explain(graph, "007")
    first, steps = unpacked(page["steps"]["row_ptr"]), page["steps"]
    rows = slice(first[7], first[8])
    assert unpacked(steps["distance"])[rows].tolist() == [one.distance for one in told.decisions]
    assert max(unpacked(steps["distance"])) == 2
    expected = np.array([one.keep_probability for one in told.decisions])
    assert unpacked(steps["keep_probability"])[rows] == pytest.approx(expected)


def test_without_a_labelled_test_node_the_page_says_why_nothing_is_scored(model, graph):
    unlabelled = replace(graph, labels=torch.full((80,), UNKNOWN), truth=None)
    judged = build_payload(model, unlabelled)["judge"]
    assert "no labelled test node" in judged["scores"]["remark"]
    assert "edges" not in judged
    assert list(judged["thresholds"]["kept"]) == ["all"]


def test_a_graph_without_edges_has_a_page(model, graph):
    page = build_payload(model, graph.keep_edges(torch.zeros(graph.num_edges, dtype=torch.bool)))
    assert unpacked(page["links"]["keep"]).size == 0
    json.loads(json_text(page))
