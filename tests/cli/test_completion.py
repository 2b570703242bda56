"""What the shell completes, and the script that makes it do so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdpnet.cli import completion
from gdpnet.data.datasets.known import ATTACKED

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Return the working folder, which holds a graph, a run and other things."""
    for name in ("mygraph", "runs/cora", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs/cora/run.json").write_text("{}")
    (tmp_path / "cora.npz").write_text("")
    (tmp_path / "notes.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_graphs_are_datasets_folders_and_npz_files(here):
    assert completion.graphs("cora") == ["cora", *ATTACKED, "cora.npz"]
    assert completion.graphs("ci") == ["citeseer"]
    assert completion.graphs("m") == ["mygraph/"]
    assert ".hidden/" not in completion.graphs("")
    assert completion.graphs("no/such/") == []


def test_runs_are_folders_and_a_run_ends_the_word(here):
    assert completion.runs("") == ["mygraph/", "runs/"]
    assert completion.runs("runs/") == ["runs/cora"]
    assert completion.runs(f"{here}/ru") == [f"{here}/runs/"]


def test_settings_are_completed_with_their_section():
    assert "training.epochs=" in completion.settings("training.e")
    assert completion.sections("pp") == ["ppo"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gdpnet tra", "train"),
        ("gdpnet train co", "cora"),
        ("gdpnet evaluate runs/", "runs/cora"),
        ("gdpnet train cora --set training.epo", "training.epochs="),
        ("gdpnet robustness --dataset pub", "pubmed"),
        ("gdpnet train cora --res", "--resume"),
    ],
)
def test_the_shell_asks_the_program_for_completions(line, expected, here):
    words = {"_GDPNET_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "gdpnet"],
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | words,
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in done.stdout.splitlines()


def test_the_program_shows_and_installs_its_completion(capsys):
    from helpers.commands import succeed

    out = succeed(capsys, "--help")
    assert "--install-completion" in out
    assert "--show-completion" in out
    assert "Exit codes: 0 done, 1 the work or a part of it failed, 2 wrong input, 70 a" in " ".join(
        out.split()
    )
