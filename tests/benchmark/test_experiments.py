"""Evaluation, records, trials, figures and the baseline: numbers by hand, and pictures that are pictures."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gdpnet._core.version import __version__
from gdpnet.benchmark.ablations import variant_of
from gdpnet.benchmark.baselines.logistic import logistic_regression_f1
from gdpnet.benchmark.demo import run_demo
from gdpnet.benchmark.evaluation import describe_cleaning, evaluate, selected_shares
from gdpnet.benchmark.figures import draw_run, embedding_map
from gdpnet.benchmark.records import append_record, make_record, read_records
from gdpnet.benchmark.trials import run_trials, summarise
from gdpnet.config import Config
from gdpnet.data.datasets.synthetic import SyntheticSettings, synthetic_graph
from gdpnet.data.graph import Graph
from gdpnet.errors import GDPNetError, GraphError
from gdpnet.estimator import GDPNet
from gdpnet.inference.result import Denoised
from helpers.small import FAST, fitted, noisy_graph

# the path 0 - 1 - 2 - 3, its last link spurious, and a node 4 on its own; labels 0 0 1 ? 1, one known to be wrong
PATH = Graph.build(
    [[0, 1, 2], [1, 2, 3]],
    np.eye(5),
    [0, 0, 1, -1, 1],
    spurious=[False, False, True],
    clean_labels=[0, 0, 0, -1, 1],
)
# edges by target: 1->0 | 0->1 2->1 | 1->2 3->2 | 2->3
CHANCES = np.array([0.9, 0.8, 0.4, 0.6, 0.45, 0.1])


def cleaned(graph: Graph, chances: np.ndarray, threshold: float = 0.5) -> Denoised:
    kept = chances >= threshold
    return Denoised(graph.keep_edges(torch.from_numpy(kept)), chances, kept, threshold, "as asked for")


# --- evaluation ---


def test_what_a_cleaning_kept_and_removed_is_counted_by_hand():
    found = describe_cleaning(PATH, cleaned(PATH, CHANCES))
    assert found == {
        "edges": 6,
        "kept_share": pytest.approx(3 / 6),
        "kept_same_class": pytest.approx(3 / 4),  # by clean labels 1->0, 0->1, 2->1 and 1->2; not 2->1
        "kept_cross_class": None,  # the label of node 3 is not known
        "spurious_removed": pytest.approx(2 / 2),  # 3->2 and 2->3
        "genuine_kept": pytest.approx(3 / 4),
        # pairs of a genuine and a spurious edge: .9 .8 .4 .6 over .45 wins 3, over .1 wins 4
        "keep_auc": pytest.approx(7 / 8),
    }


def test_without_known_noise_classes_are_those_of_the_labels():
    plain = replace(PATH, truth=None)
    found = describe_cleaning(plain, cleaned(plain, CHANCES))
    assert set(found) == {"edges", "kept_share", "kept_same_class", "kept_cross_class"}
    assert found["kept_same_class"] == pytest.approx(2 / 2)  # 1->0 and 0->1
    assert found["kept_cross_class"] == pytest.approx(1 / 2)  # 1->2 of 2->1 and 1->2


def test_a_graph_without_edges_has_no_shares():
    bare = Graph.build([[], []], np.eye(2), [0, 1])
    found = describe_cleaning(bare, cleaned(bare, np.zeros(0)))
    assert found == {"edges": 0, "kept_share": None, "kept_same_class": None, "kept_cross_class": None}


def test_the_share_that_each_node_selected_leaves_out_nodes_without_neighbours():
    assert selected_shares(PATH, cleaned(PATH, CHANCES)).tolist() == [1.0, 0.5, 0.5, 0.0]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return noisy_graph()


@pytest.fixture(scope="module")
def model(graph) -> GDPNet:
    return fitted(graph)


def test_an_evaluation_is_the_score_of_a_split_and_the_cleaning(model, graph):
    found = evaluate(model, graph, "validation")
    assert found["split"] == "validation"
    assert found["nodes"] == 16
    assert found["micro_f1"] == model.score(graph, "validation")
    described = describe_cleaning(graph, model.denoise(graph))
    assert {name: found[name] for name in described} == described


def test_the_demo_compares_with_all_neighbours_and_with_no_graph(graph):
    told = []
    model, metrics = run_demo(graph, FAST, 0, "cpu", told.append)
    assert len(told) == 3
    everything = fitted(graph, variant_of(FAST, "gdpnet:keep-everything"))
    assert metrics["micro_f1"] == model.score(graph)
    assert metrics["micro_f1_all_neighbours"] == everything.score(graph)
    assert metrics["micro_f1_logistic_regression"] == logistic_regression_f1(graph)
    assert {"spurious_removed", "genuine_kept", "keep_auc"} <= metrics.keys()


# --- the baseline ---


def test_logistic_regression_beats_chance_on_the_generated_graph():
    graph = synthetic_graph(SyntheticSettings(nodes=400, classes=3, words=300))
    assert logistic_regression_f1(graph) > 0.5
    assert logistic_regression_f1(graph, "train") > 0.8


def test_logistic_regression_ignores_the_graph_and_the_kind_of_features(graph):
    bare = graph.keep_edges(torch.zeros(graph.num_edges, dtype=torch.bool))
    dense = replace(graph, features=torch.from_numpy(graph.features.to_scipy().toarray()))
    score = logistic_regression_f1(graph)
    assert logistic_regression_f1(bare) == score
    assert logistic_regression_f1(dense) == pytest.approx(score, abs=0.05)


def test_logistic_regression_needs_labelled_nodes_to_learn_and_to_score(graph):
    for split in (1, 3):
        labels = torch.where(graph.split == split, -1, graph.labels)
        with pytest.raises(GraphError, match="needs labelled training and test nodes"):
            logistic_regression_f1(replace(graph, labels=labels))


# --- records ---


def test_a_record_says_what_was_run_with_what_and_when():
    record = make_record("trial", FAST, 3, {"micro_f1": 0.5}, graph="mine", variant="GDPNet")
    assert (record["kind"], record["graph"], record["variant"], record["seed"]) == (
        "trial",
        "mine",
        "GDPNet",
        3,
    )
    assert record["metrics"] == {"micro_f1": 0.5}
    assert record["version"] == __version__
    assert record["torch"] == torch.__version__
    assert Config().with_values(record["config"]) == FAST
    assert record["commit"]
    assert record["time"].endswith("+00:00")


def test_records_are_appended_and_read_back_in_order(tmp_path):
    path = tmp_path / "results" / "trials.jsonl"
    assert read_records(path) == []
    records = [make_record("trial", FAST, seed, {"micro_f1": 0.1 * seed}) for seed in range(3)]
    for record in records[:2]:
        append_record(path, record)
    before = path.read_bytes()
    append_record(path, records[2])
    assert path.read_bytes().startswith(before)
    assert read_records(path) == records
    assert len(path.read_text().splitlines()) == 3


def test_a_line_that_is_not_a_record_is_refused_by_name(tmp_path):
    (tmp_path / "trials.jsonl").write_text('{"kind": "trial"}\n{"kind": "tri')
    with pytest.raises(GDPNetError, match=r"trials\.jsonl holds a line that is not a record"):
        read_records(tmp_path / "trials.jsonl")


def test_a_record_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GDPNetError, match=r"^cannot write .*trials\.jsonl: "):
        append_record(tmp_path / "file" / "trials.jsonl", {})


# --- trials ---


def record_of(variant: str, seed: int, score: float) -> dict:
    return {"graph": "mine", "variant": variant, "seed": seed, "metrics": {"micro_f1": score}}


def test_trials_are_summarised_by_mean_and_deviation():
    records = [record_of("GDPNet", 0, 0.8), record_of("all neighbours", 0, 0.5), record_of("GDPNet", 1, 0.9)]
    assert summarise(records) == [
        {
            "graph": "mine",
            "variant": "GDPNet",
            "trials": 2,
            "mean": pytest.approx(0.85),
            "deviation": pytest.approx(0.1 / 2**0.5),  # of two numbers: their distance over the root of 2
        },
        {"graph": "mine", "variant": "all neighbours", "trials": 1, "mean": 0.5, "deviation": 0.0},
    ]
    assert summarise([]) == []


def test_trials_that_a_file_holds_are_not_run_again(tmp_path, graph):
    opened, told = [], []

    def open_graph(seed: int) -> Graph:
        opened.append(seed)
        return graph

    def run(seeds: int, config: Config = FAST) -> list[dict]:
        path = tmp_path / "trials.jsonl"
        return run_trials(open_graph, "mine", config, range(seeds), path, device="cpu", on_record=told.append)

    append_record(tmp_path / "trials.jsonl", {"kind": "benchmark", "seconds": 3})
    first = run(1)
    assert opened == [0, 0]
    assert [record["variant"] for record in first] == ["GDPNet", "all neighbours"]
    second = run(2)
    assert opened == [0, 0, 1, 1]
    assert second[:2] == first
    assert [record["seed"] for record in second] == [0, 0, 1, 1]
    assert told == first + second
    run(1, FAST.with_values({"ppo": {"discount": 0.5}}))
    assert opened == [0, 0, 1, 1, 0, 0]
    assert len(read_records(tmp_path / "trials.jsonl")) == 7


def test_a_trial_records_what_training_and_evaluating_give(tmp_path, graph):
    [record] = run_trials(
        lambda seed: graph,
        "mine",
        FAST,
        [0],
        tmp_path / "trials.jsonl",
        device="cpu",
        variants=["all neighbours"],
        on_record=lambda record: None,
    )
    model = fitted(graph, variant_of(FAST, "gdpnet:keep-everything"))
    assert record["metrics"]["micro_f1"] == model.score(graph)
    assert record["metrics"]["kept_share"] == 1.0
    assert record["metrics"]["epochs"] == 3
    assert record["config"]["training"]["selection"] is False
    assert json.loads((tmp_path / "trials.jsonl").read_text()) == record


# --- figures ---


def size_of(path: Path) -> tuple[int, int]:
    """Return the width and height that a PNG's header tells."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


def test_all_figures_of_a_run_are_pictures(model, graph, tmp_path):
    paths = draw_run(model, graph, tmp_path / "figures")
    names = ["training.png", "selected_share.png", "embedding.png", "keep_probability.png", "reliability.png"]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(names)
    for path in paths:
        width, height = size_of(path)
        assert width > 400
        assert height > 300
        assert path.stat().st_size > 5000


def test_the_figure_of_planted_noise_needs_noise_that_is_known(model, graph, tmp_path):
    paths = draw_run(model, replace(graph, truth=None), tmp_path)
    assert [path.name for path in paths] == ["training.png", "selected_share.png", "embedding.png"]


def test_the_map_shows_each_test_node_in_the_colour_of_its_class(model, graph):
    [axes] = embedding_map(model, graph).axes
    shown = {dots.get_label(): len(dots.get_offsets()) for dots in axes.collections}
    labels = graph.labels[graph.nodes_in("test")]
    assert shown == {f"topic {number}": int((labels == number).sum()) for number in range(3)}


@pytest.mark.parametrize("nodes", [1, 2, 9, 10, 60])
def test_the_map_can_be_drawn_of_any_number_of_nodes(nodes, model, graph):
    few = graph.induced(torch.arange(nodes))
    few = replace(few, split=torch.full_like(few.split, 3))
    [axes] = embedding_map(model, few).axes
    points = np.concatenate([dots.get_offsets() for dots in axes.collections])
    assert points.shape == (nodes, 2)
    assert np.isfinite(points).all()


def test_the_map_can_be_drawn_of_representations_that_are_all_the_same_or_one_wide(graph, model):
    same = replace(graph, features=torch.ones(80, 300)).keep_edges(
        torch.zeros(graph.num_edges, dtype=torch.bool)
    )
    narrow = fitted(graph, FAST.with_values({"representation": {"width": 1}}))
    for figure in (embedding_map(model, same), embedding_map(narrow, graph)):
        points = np.concatenate([dots.get_offsets() for dots in figure.axes[0].collections])
        assert points.shape == (24, 2)
        assert np.isfinite(points).all()


def test_figures_are_drawn_of_a_graph_without_edges(tmp_path):
    graph = noisy_graph().keep_edges(torch.zeros(336, dtype=torch.bool))
    paths = draw_run(fitted(graph), graph, tmp_path)
    assert all(size_of(path) for path in paths)
