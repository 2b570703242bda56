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


def test_the_first_snippet_of_the_environments_page_runs(capsys):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'gdpnet[gym]'")
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    snippet = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    exec(compile(snippet, "docs/environment.md", "exec"), {})
    assert capsys.readouterr().out.startswith("neighbours kept for node")
