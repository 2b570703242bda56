"""The examples run, and show what they claim."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def returns_in(text: str) -> dict[str, float]:
    lines = (line.rsplit(maxsplit=1) for line in text.splitlines())
    return {name: float(value) for name, value in lines}


def test_stable_baselines3_beats_random_selection_and_keeping_everything(monkeypatch, capsys):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    monkeypatch.setattr(sys, "argv", ["reinforcement_learning.py", "--steps", "2048"])
    runpy.run_path(str(ROOT / "examples" / "reinforcement_learning.py"), run_name="__main__")
    returns = returns_in(capsys.readouterr().out)
    assert returns["PPO after"] > max(returns["keep or drop at random"], returns["keep everything"]) + 0.1
    assert returns["PPO after"] > returns["PPO before"]


def test_a_custom_task_beats_guessing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["own_task.py", "--epochs", "4"])
    runpy.run_path(str(ROOT / "examples" / "own_task.py"), run_name="__main__")
    points = returns_in(capsys.readouterr().out)
    assert points["points of the model"] > points["points by guessing"]


def test_candidates_two_hops_away_are_decided_on(capsys):
    runpy.run_path(str(ROOT / "examples" / "two_hops.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert len(re.findall(r"at distance 2: (?:kept|dropped)", printed)) == 8
    assert "at distance 1: " in printed


def run_example(name, monkeypatch, capsys) -> dict[str, float]:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return returns_in(capsys.readouterr().out)


def test_weights_that_favour_genuine_edges_help(monkeypatch, capsys):
    printed = run_example("edge_weights.py", monkeypatch, capsys)
    assert printed["micro-F1 with weights"] > printed["micro-F1 without weights"] + 0.05
    assert 0.0 < printed["largest weight of the cleaned graph"] <= 2.0


def test_keeping_the_direction_of_edges_helps(monkeypatch, capsys):
    printed = run_example("directed_graph.py", monkeypatch, capsys)
    assert printed["micro-F1 directed"] > printed["micro-F1 both ways"] + 0.1


def test_structural_features_transfer_to_another_graph(monkeypatch, capsys):
    printed = run_example("without_features.py", monkeypatch, capsys)
    assert printed["accuracy of the structural model on another graph"] > 0.9
    assert printed["one-hot model refuses another graph"] == 1


def test_nodes_added_after_training_are_predicted_better_than_by_guessing(monkeypatch, capsys):
    printed = run_example("unseen_nodes.py", monkeypatch, capsys)
    assert printed["accuracy on new nodes"] > 0.45
    assert printed["share of equal predictions one at a time"] == 1
    assert printed["predicted nodes of another graph"] == 200


def test_edges_are_predicted_better_than_by_common_neighbours(monkeypatch, capsys):
    printed = run_example("link_prediction.py", monkeypatch, capsys)
    assert printed["ROC AUC of the model"] > printed["ROC AUC of common neighbours"] + 0.02


def test_clusters_match_classes_better_than_those_of_features_alone(monkeypatch, capsys):
    printed = run_example("clustering.py", monkeypatch, capsys)
    assert printed["clusters found"] == 4
    agreement = printed["agreement of clusters with classes (NMI)"]
    assert agreement > printed["agreement of k-means on features (NMI)"] + 0.2


def test_several_labels_per_node_are_learned(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["several_labels.py"])
    runpy.run_path(str(ROOT / "examples" / "several_labels.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "labels 5\n" in printed
    assert float(re.findall(r"micro-F1 on test nodes ([\d.]+)", printed)[0]) > 0.5


def test_the_first_snippet_of_the_environments_page_runs(capsys):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    snippet = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    exec(compile(snippet, "docs/environment.md", "exec"), {})
    assert capsys.readouterr().out.startswith("neighbours kept for node")
