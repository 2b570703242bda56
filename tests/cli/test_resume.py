"""The command train with --resume: the same settings go on, more epochs go further, other settings are refused."""

import json
from pathlib import Path

import pytest

from gdpnet.config import read_config
from gdpnet.estimator import GDPNet
from helpers.commands import last_record, succeed, train_words
from helpers.small import same_weights

pytestmark = pytest.mark.slow  # every test trains a model


def content_of(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def model_of(run: Path) -> GDPNet:
    return GDPNet.load(run / "model.safetensors", device="cpu")


def test_a_finished_run_is_left_as_it_is_and_its_scores_are_said_again(base, capsys):
    before = content_of(base / "run")
    for more in ([], ["--set", "training.epochs=2"], ["--seed", "0", "--split", "paper"]):
        out = succeed(capsys, *train_words(base, base / "run"), "--resume", *more)
        assert "finished before: nothing was changed" in out
        assert "validation f1: " in out
        assert "epoch " not in out
    record = last_record(succeed(capsys, *train_words(base, base / "run"), "--resume", "--json"))
    metrics = json.loads((base / "run" / "metrics.json").read_text())
    assert record == {"run": str(base / "run"), "graph": str(base / "graph"), "seed": 0} | metrics
    assert content_of(base / "run") == before


@pytest.mark.parametrize("settle", [0, 1, 3, 9], ids=lambda value: f"settle {value}")
def test_a_run_that_goes_on_with_more_epochs_equals_one_that_had_them_from_the_start(
    settle, base, tmp_path, capsys
):
    settings = ("--set", f"training.settle={settle}", "--set", "training.patience=20")
    for name, epochs in (("long", 6), ("short", 2)):
        words = train_words(base, tmp_path / name)
        succeed(capsys, *words, *settings, "--set", f"training.epochs={epochs}")
    words = [*train_words(base, tmp_path / "short"), "--resume", *settings]
    out = succeed(capsys, *words, "--set", "training.epochs=6")
    assert [line.split()[1] for line in out.splitlines() if line.startswith("epoch ")] == [
        "4/7",
        "5/7",
        "6/7",
        "7/7",
    ]
    long, short = (model_of(tmp_path / name) for name in ("long", "short"))
    assert same_weights(long, short)
    assert (long.best_epoch_, long.history_) == (short.best_epoch_, short.history_)
    scores = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("long", "short")]
    for one in scores:
        del one["check"]  # has seconds
    assert scores[0] == scores[1]
    assert read_config(tmp_path / "short" / "config.toml").training.epochs == 6


def test_a_run_that_was_made_with_a_file_goes_on_by_one_setting_alone(base, tmp_path, capsys):
    succeed(capsys, *train_words(base, tmp_path / "run"))
    words = ("train", base / "graph", "--out", tmp_path / "run", "--device", "cpu", "--resume")
    assert "epoch 4/4" in succeed(capsys, *words, "--set", "training.epochs=3")
    assert "nothing was changed" in succeed(capsys, *words)


def test_more_epochs_do_not_undo_early_stopping_which_is_said(base, tmp_path, capsys):
    words = [
        *train_words(base, tmp_path / "run"),
        "--set",
        "training.patience=1",
        "--set",
        "training.settle=0",
        "--set",
        "training.patience_targets=1",
    ]
    succeed(capsys, *words, "--set", "training.epochs=12")
    before = model_of(tmp_path / "run")
    assert len(before.history_) < 13
    out = succeed(capsys, *words, "--set", "training.epochs=15", "--resume")
    assert (
        f"training stopped after epoch {len(before.history_)}: validation had not improved for 1 epoch" in out
    )
    assert same_weights(before, model_of(tmp_path / "run"))
