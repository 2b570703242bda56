"""Regression, class weights and metrics on the command line."""

import json

import numpy as np
import pytest

from helpers.commands import refuse, rows_of, succeed, train_words, write_csv_graph

NODES = "id,label,split,x,y\n" + "".join(
    f"n{place},{place % 2 * 4 + place / 100},{'train' if place < 24 else 'validation' if place < 32 else 'test'},"
    f"{place % 2},{place % 3}\n"
    for place in range(40)
)
EDGES = "source,target\n" + "".join(f"n{place},n{(place + 2) % 40}\n" for place in range(40))


@pytest.fixture
def numbers(tmp_path):
    """Return a folder of tables whose labels are fractions."""
    return write_csv_graph(tmp_path, NODES, EDGES)


def test_fractions_are_refused_without_the_task_regression(base, numbers, tmp_path, capsys):
    said = refuse(capsys, *train_words(base, tmp_path / "run", numbers))
    assert said.startswith("labels are fractions such as 0.02: use --task regression")
    assert not (tmp_path / "run").exists()


def test_class_weights_are_refused_for_regression(base, numbers, tmp_path, capsys):
    words = [
        *train_words(base, tmp_path / "run", numbers),
        "--task",
        "regression",
        "--class-weight",
        "balanced",
    ]
    assert "are for classification, found task.class_weight balanced" in refuse(capsys, *words)


@pytest.mark.slow
def test_regression_is_trained_evaluated_and_predicted(base, numbers, tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    said = succeed(capsys, *train_words(base, run, numbers), "--task", "regression")
    assert "validation R2 " in said
    metrics = json.loads((run / "metrics.json").read_text())
    assert {"validation_r2", "r2", "mae", "rmse", "intervals", "mean_predictor"} <= metrics.keys()
    assert "mean predictor: r2 " in succeed(capsys, "evaluate", run, "--device", "cpu")
    succeed(capsys, "predict", run, "--out", out, "--device", "cpu")
    rows = rows_of(out)
    assert list(rows[0]) == ["id", "prediction", "low", "high"]
    values = np.array([[float(row[name]) for name in ("low", "prediction", "high")] for row in rows])
    assert len(values) == 40
    assert (np.diff(values, axis=1) > 0).all()


@pytest.mark.slow
def test_the_metric_is_named_while_training_and_in_the_scores(base, tmp_path, capsys):
    run = tmp_path / "run"
    words = [*train_words(base, run), "--metric", "log_loss", "--class-weight", "balanced"]
    said = succeed(capsys, *words)
    assert "validation log loss " in said
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["validation_log_loss"] > 0.0
    assert metrics["log_loss"] > 0.0
    assert 'class_weight = "balanced"' in (run / "config.toml").read_text()
