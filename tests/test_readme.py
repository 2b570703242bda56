"""The README is short, its examples run and print what it shows, and its figures are those of the records."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
sys.path.insert(0, str(ROOT / "tools"))

METHODS = {
    "GDPNet": "gdpnet",
    "GCN on GDPNet's cleaned graph": "gdpnet>gcn",
    "GCN, structural filter": "structural-gcn",
    "GCN, same-class filter": "supervised-gcn",
    "GNNGuard": "gnnguard",
    "GCN": "gcn",
}


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md must show a block of {language}"
    return found


def run(command: list[str], folder: Path) -> str:
    answer = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


@pytest.mark.slow
def test_the_python_example_prints_what_the_readme_shows(tmp_path):
    example = blocks("python")[0]
    said = run([sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", example], tmp_path)
    shown = blocks("text")[0]
    assert re.sub(r"[\d.]+", "#", said) == re.sub(r"[\d.]+", "#", shown)
    assert numbers_in(said) == pytest.approx(numbers_in(shown), abs=0.1)
    assert (tmp_path / "model.safetensors").is_file()


@pytest.mark.slow
def test_the_commands_write_the_files_that_the_readme_names(tmp_path):
    lines = next(block for block in blocks("sh") if "gdpnet train" in block).splitlines()
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[0] == "gdpnet":
            run([sys.executable, "-m", *words], tmp_path)
    written = (tmp_path / "edges.csv").read_text(encoding="utf-8").splitlines()
    header, *rows = blocks("text")[1].splitlines()
    assert written[0] == header
    assert all(re.fullmatch(r"\d+,\d+,[\d.e-]+,[\d.e-]+", row) for row in [*rows, *written[1:4]])
    assert (tmp_path / "predictions.csv").is_file()


def test_the_readme_has_at_most_130_lines_and_40_figures():
    assert len(README.splitlines()) <= 130
    assert len(re.findall(r"\d*\.\d+", re.sub(r"3\.\d+", "", README))) <= 40


def test_the_table_of_the_readme_shows_the_means_of_the_records():
    from draw_result import DATASETS, scores

    found = scores(ROOT / "results" / "robustness.jsonl")
    for name, method in METHODS.items():
        row = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", README, re.MULTILINE)
        assert row, f"the table must have a row of {name}"
        means = [sum(found[graph, method, 1.0]) / len(found[graph, method, 1.0]) for graph in DATASETS]
        assert numbers_in(row[1]) == pytest.approx([100 * mean for mean in means], abs=0.051)


def test_the_files_that_the_readme_links_to_are_there():
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target
