"""The examples do what they say."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def returns_in(text: str) -> dict[str, float]:
    lines = (line.rsplit(maxsplit=1) for line in text.splitlines())
    return {name: float(value) for name, value in lines}


def test_stable_baselines3_learns_to_earn_more_than_chance_and_than_keeping_everything(monkeypatch, capsys):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    monkeypatch.setattr(sys, "argv", ["reinforcement_learning.py", "--steps", "2048"])
    runpy.run_path(str(ROOT / "examples" / "reinforcement_learning.py"), run_name="__main__")
    earned = returns_in(capsys.readouterr().out)
    assert earned["PPO after"] > max(earned["keep or drop at random"], earned["keep everything"]) + 0.1
    assert earned["PPO after"] > earned["PPO before"]


def test_a_task_of_ones_own_is_learned_better_than_by_guessing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["own_task.py", "--epochs", "4"])
    runpy.run_path(str(ROOT / "examples" / "own_task.py"), run_name="__main__")
    points = returns_in(capsys.readouterr().out)
    assert points["points by what was kept"] > points["points by guessing"]


def test_nodes_two_hops_away_are_decided_on(capsys):
    runpy.run_path(str(ROOT / "examples" / "two_hops.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert len(re.findall(r"at distance 2: (?:kept|dropped)", said)) == 8
    assert "at distance 1: " in said


def run_example(name, monkeypatch, capsys) -> dict[str, float]:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return returns_in(capsys.readouterr().out)


def test_links_that_weigh_more_where_they_are_right_help(monkeypatch, capsys):
    said = run_example("edge_weights.py", monkeypatch, capsys)
    assert said["micro-F1 with weights"] > said["micro-F1 without weights"] + 0.05
    assert 0.0 < said["heaviest of them"] <= 2.0


def test_who_hears_whom_matters_in_a_directed_graph(monkeypatch, capsys):
    said = run_example("directed_graph.py", monkeypatch, capsys)
    assert said["micro-F1 directed"] > said["micro-F1 both ways"] + 0.1


def test_roles_are_learned_from_links_alone_and_found_in_another_graph(monkeypatch, capsys):
    said = run_example("without_features.py", monkeypatch, capsys)
    assert said["structural model tells right elsewhere"] > 0.9
    assert said["one-hot model refuses another graph"] == 1


def test_nodes_that_came_after_training_are_told_better_than_by_guessing(monkeypatch, capsys):
    said = run_example("unseen_nodes.py", monkeypatch, capsys)
    assert said["new nodes told right"] > 0.45
    assert said["told the same one at a time"] == 1
    assert said["nodes of another graph that were predicted"] == 200


def test_links_are_foretold_better_than_by_common_neighbours(monkeypatch, capsys):
    said = run_example("link_prediction.py", monkeypatch, capsys)
    assert said["ROC AUC of the model"] > said["ROC AUC of common neighbours"] + 0.02


def test_clusters_agree_with_classes_more_than_those_of_features_alone(monkeypatch, capsys):
    said = run_example("clustering.py", monkeypatch, capsys)
    assert said["clusters found"] == 4
    agreement = said["agreement of clusters with classes (NMI)"]
    assert agreement > said["agreement of k-means on features (NMI)"] + 0.2


def test_several_labels_a_node_are_learned(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["several_labels.py"])
    runpy.run_path(str(ROOT / "examples" / "several_labels.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "labels 5\n" in said
    assert float(re.findall(r"micro-F1 on test nodes ([\d.]+)", said)[0]) > 0.5


def test_the_first_snippet_of_the_environments_page_runs(capsys):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    snippet = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    exec(compile(snippet, "docs/environment.md", "exec"), {})
    assert capsys.readouterr().out.startswith("neighbours kept for node")
