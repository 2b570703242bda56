"""No command mixes two runs in a folder: the demo beside a run, folders that are moved, files that are missing."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from gdpnet._core.files import locked_folder
from gdpnet.errors import RunFolderError
from gdpnet.training import checkpoint, run_folder
from gdpnet.training.run_folder import create_run, open_run
from helpers.commands import call, refuse, succeed, train_words
from helpers.small import FAST, noisy_graph

GRAPH = noisy_graph()

SCORES: dict[str, Any] = {
    "micro_f1": 0.5,
    "micro_f1_gcn_on_cleaned": 0.5,
    "micro_f1_all_neighbours": 0.5,
    "micro_f1_logistic_regression": 0.5,
    "defences": {},
    "threshold_reason": "none",
}


class Model:
    """Stands for the model of the demo."""

    def save(self, path: Path) -> None:
        path.write_text("of the demo")

    def predictor(self, _graph: object) -> None:
        return None


@pytest.fixture
def no_training(monkeypatch) -> None:
    """Let the demo have its model at once."""
    monkeypatch.setattr("gdpnet.data.io.open.open_graph", lambda *_, **__: GRAPH)
    monkeypatch.setattr("gdpnet.benchmark.demo.run_demo", lambda *_: (Model(), SCORES))
    monkeypatch.setattr("gdpnet.benchmark.figures.draw_run", lambda *_: [])


def test_the_demo_does_not_replace_a_run_that_was_written_meanwhile(
    tmp_path, capsys, monkeypatch, no_training
):
    def read(*_: object, **__: object) -> object:
        create_run(tmp_path / "run", FAST, "mine", GRAPH, seed=0)
        return GRAPH

    monkeypatch.setattr("gdpnet.data.io.open.open_graph", read)
    assert "holds a run of gdpnet train" in refuse(capsys, "demo", "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "demo.json").exists()


def test_the_demo_holds_its_folder_while_it_trains(tmp_path, capsys, monkeypatch, no_training):
    def train(*_: object) -> tuple[Model, dict[str, Any]]:
        with (
            pytest.raises(RunFolderError, match="another process is writing"),
            locked_folder(tmp_path / "demo"),
        ):
            pass
        return Model(), SCORES

    monkeypatch.setattr("gdpnet.benchmark.demo.run_demo", train)
    succeed(capsys, "demo", "--out", tmp_path / "demo")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "demo.json",
        "metrics.json",
        "model.safetensors",
    }


def test_the_demo_replaces_a_run_by_force_and_leaves_nothing_of_it(tmp_path, capsys, no_training):
    run = create_run(tmp_path, FAST, "mine", GRAPH, seed=0)
    for path in (run.checkpoint, run.history, run.split, run.suspected, tmp_path / "letter.txt"):
        path.write_text("mine")
    succeed(capsys, "demo", "--out", tmp_path, "--force")
    assert {path.name for path in tmp_path.iterdir()} == {
        "demo.json",
        "metrics.json",
        "model.safetensors",
        "letter.txt",
    }


def test_the_demo_takes_no_folder_of_the_user_for_its_own(tmp_path, capsys, no_training):
    (tmp_path / "demo.json").write_text('{"format": "mine"}')
    assert "found 'demo.json'" in refuse(capsys, "demo", "--out", tmp_path)
    assert (tmp_path / "demo.json").read_text() == '{"format": "mine"}'


@pytest.mark.slow
def test_a_folder_without_a_description_is_no_demo(base, tmp_path, capsys):
    run = shutil.copytree(base / "run", tmp_path / "run")
    (run / "run.json").unlink()
    said = refuse(capsys, "predict", run, "--out", tmp_path / "out.csv")
    assert said.startswith(
        f"{run} has no run.json, which says what graph the run was trained on: name a graph"
    )
    succeed(capsys, "predict", run, base / "graph", "--out", tmp_path / "out.csv")


@pytest.mark.slow
def test_a_run_that_was_extended_in_part_goes_on_with_one_description(base, tmp_path, capsys, monkeypatch):
    run = shutil.copytree(base / "run", tmp_path / "run")
    words = [*train_words(base, run), "--resume"]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_json", stop)
        assert call(capsys, *words, "--set", "training.epochs=3")[0] == 130
    succeed(capsys, *words, "--set", "training.epochs=3")
    _, settings, about = open_run(run)
    assert settings.training.epochs == about["config"]["training"]["epochs"] == 3
    before = (run / "metrics.json").stat().st_mtime_ns
    (run / "run.json").write_text(
        json.dumps(about | {"config": FAST.to_dict()})
    )  # as earlier versions left it
    assert "nothing was changed" in succeed(capsys, *words, "--set", "training.epochs=3")
    assert open_run(run)[2] == about
    assert (run / "metrics.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_run_whose_folder_is_moved_fails_and_writes_nothing_to_its_old_path(
    base, tmp_path, capsys, monkeypatch
):
    usual, run = checkpoint.write_text, tmp_path / "run"

    def move(path: Path, text: str) -> None:
        usual(path, text)
        if run.exists():
            run.rename(tmp_path / "there")

    monkeypatch.setattr(checkpoint, "write_text", move)
    said = refuse(capsys, *train_words(base, run), code=1)
    assert said.startswith(f"the folder {run} was moved or deleted")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.slow
def test_a_name_that_is_no_utf_8_can_be_written(base, tmp_path, capsys):
    for stream in (sys.stdout, sys.stderr):  # as those of a process
        stream.reconfigure(errors="backslashreplace")

    def name(text: bytes) -> Path:
        return tmp_path / os.fsdecode(b"bad\xff" + text)

    for suffix in (b".csv", b".parquet"):
        for _ in range(2):  # the second time it is known and replaced
            succeed(capsys, "predict", base / "run", "--out", name(suffix))
        assert name(suffix).stat().st_size > 0
    succeed(capsys, "embed", base / "run", "--shards", "--out", name(b"-shards"))
    succeed(capsys, "explain", base / "run", "--nodes", "000", "--out", name(b"-why.csv"))
    succeed(capsys, "noise", base / "graph", "--kind", "random-links=0.1", "--out", name(b"-noise"))
    succeed(capsys, *train_words(base, name(b"-run")))
    succeed(capsys, "denoise", name(b"-run"), "--out", name(b"-clean.parquet"))
