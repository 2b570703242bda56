"""The report of one run."""

import json
import re
import shutil

import pytest

from gdpnet.cli import main
from helpers.commands import call, refuse, succeed
from helpers.small import FAST, write_folder

pytestmark = pytest.mark.slow  # every test needs a run


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return a folder with a graph and a run on it."""
    base = tmp_path_factory.mktemp("report")
    write_folder(base / "graph")
    (base / "fast.toml").write_text(FAST.to_toml())
    words = [
        "train",
        base / "graph",
        "--out",
        base / "run",
        "--config",
        base / "fast.toml",
        "--device",
        "cpu",
    ]
    assert main([str(word) for word in words]) == 0
    return base


def test_a_run_has_a_page_with_its_graph_scores_settings_and_figures(base, tmp_path, capsys):
    out = ("--out", tmp_path / "run.html", "--markdown", tmp_path / "run.md")
    said = succeed(capsys, "report", base / "run", *out)
    page, text = (tmp_path / "run.html").read_text(), (tmp_path / "run.md").read_text()
    assert said == f"written: {tmp_path / 'run.html'}, {tmp_path / 'run.md'}\n"
    assert page.count("data:image/png;base64,") == 3
    assert "<script" not in page
    assert "Finished after 3 of at most 3 epochs" in text
    rows = re.findall(r"^\| (\S.*?) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    assert [sum(int(row[place]) for row in rows) for place in (1, 2, 3, 4)] == [40, 16, 24, 0]
    metrics = json.loads((base / "run" / "metrics.json").read_text())
    assert f"| micro f1 | {metrics['micro_f1']:.4g} |" in text
    assert "| method | micro f1 | macro f1 | seconds |" in text
    assert "| training.epochs | 2 |" in text
    assert "changed setting" in text
    assert str(base / "run" / "figures" / "training.png") in text


def test_a_run_that_is_not_finished_is_reported_with_its_curves(base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    (tmp_path / "run" / "metrics.json").unlink()
    out = ("--out", tmp_path / "run.html", "--markdown", tmp_path / "run.md")
    succeed(capsys, "report", tmp_path / "run", *out)
    text = (tmp_path / "run.md").read_text()
    assert "Not finished after 3 of" in text
    assert "## Scores" not in text
    assert "(figures/training.png)" in text


def test_a_run_whose_graph_is_gone_or_changed_is_reported_without_it(base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    about = json.loads((base / "run" / "run.json").read_text()) | {"graph": str(tmp_path / "gone")}
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    succeed(capsys, "report", tmp_path / "run", "--out", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    assert (
        "The graph of the run cannot be described: there is no file or folder"
        in (tmp_path / "r.md").read_text()
    )


def test_folders_with_nothing_to_report_are_refused_and_nothing_is_written(base, tmp_path, capsys):
    empty, foreign, begun, demo = (tmp_path / name for name in ("empty", "foreign", "begun", "demo"))
    for folder in (empty, foreign, begun, demo):
        folder.mkdir()
    (foreign / "speed.jsonl").write_text('{"benchmark": "rollout"}\n')
    for name in ("run.json", "config.toml"):
        shutil.copy(base / "run" / name, begun / name)
    shutil.copy(base / "run" / "model.safetensors", demo)
    out = ("--out", tmp_path / "r.html")
    for folder in (empty, foreign):
        assert f"the folder {folder} holds no record of a comparison" in refuse(
            capsys, "report", folder, *out
        )
    assert "no epoch was trained yet" in refuse(capsys, "report", begun, *out)
    assert "holds no run" in refuse(capsys, "report", demo, *out)
    assert call(capsys, "report", tmp_path / "none", *out)[0] == 2
    assert not (tmp_path / "r.html").exists()


def test_scores_of_several_numbers_are_tables_and_sentences(base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    path = tmp_path / "run" / "metrics.json"
    folds = {"folds": 5, "nodes": 40, "micro_f1": [0.8125, 0.02], "macro_f1": [0.75, 0.03]}
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"cross_validation": folds, "unknown_classes": {"blu": 3}})
    )
    succeed(capsys, "report", tmp_path / "run", "--out", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert "{" not in text.replace("\\{", "")
    assert (
        "Cross-validated over 5 folds, 40 labelled nodes: micro f1 0.812 ± 0.020, macro f1 0.750 ± 0.030."
        in text
    )
    assert "count as wrong: 'blu' (3)." in text
    assert "| class | nodes | predicted | precision |" in text
    assert "| true class |" in text
    assert re.search(r"^\| micro f1 \| [\d.]+ \| [\d.]+ to [\d.]+ \|$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("loss", {}, "a number or null"),
        ("injected_auc", "high", "a number or null"),
        ("metric", [1], "a text"),
    ],
)
def test_a_line_of_the_history_that_is_no_epoch_is_named(name, value, wanted, base, tmp_path, capsys):
    shutil.copytree(base / "run", tmp_path / "run")
    path = tmp_path / "run" / "history.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | {name: value}), *others]) + "\n")
    said = refuse(capsys, "report", tmp_path / "run", "--out", tmp_path / "r.html")
    assert f"'{name}' in line 1 of {path} must be {wanted}" in said
