"""A table as it is exported: trained on, scored, and applied to another graph, without preparation."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import call, refuse
from helpers.small import FAST

pytestmark = pytest.mark.slow


def write_export(
    folder: Path, seed: int = 0, nodes: int = 120, upper: bool = False, columns: str = "normal"
) -> Path:
    """Write accounts with columns of every kind and no split."""
    rng = np.random.default_rng(seed)
    bad = rng.random(nodes) < 0.3
    names = ["age", "income", "town", "opened", "vip", "note"]
    order = names[::-1] if columns == "reversed" else names
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *order, "label"])
        for node in range(nodes):
            label = "fraud" if bad[node] else "ok"
            cells = {
                "age": round(rng.normal(30 if bad[node] else 50, 9)),
                "income": ""
                if rng.random() < 0.2
                else round(float(np.exp(rng.normal(9 if bad[node] else 11, 0.5)))),
                "town": rng.choice(["Rome", "Oslo", "Bonn"]),
                "opened": f"20{rng.integers(10, 24)}-0{rng.integers(1, 9)}-11",
                "vip": rng.choice(["yes", "no"]),
                "note": f"free text {rng.integers(10**9)}",
            }
            writer.writerow(
                [f"{node:03d}", *(cells[name] for name in order), label.upper() if upper else label]
            )
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        for _ in range(3 * nodes):
            one = rng.integers(nodes)
            other = rng.choice(np.flatnonzero(bad == bad[one])) if rng.random() < 0.8 else rng.integers(nodes)
            writer.writerow([f"{one:03d}", f"{other:03d}"])
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def run(base: Path, request: pytest.FixtureRequest) -> Path:
    """Return a run that was trained on an export."""
    from gdpnet.cli import main

    (base / "fast.toml").write_text(FAST.to_toml())
    write_export(base / "graph")
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
    return base / "run"


def test_a_run_on_an_export_has_a_split_scores_and_a_check(run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    assert {"micro_f1", "macro_f1", "average_precision", "roc_auc", "log_loss", "calibration_error"} <= set(
        metrics
    )
    assert set(metrics["per_class"]) == {"fraud", "ok"}
    assert metrics["check"]["methods"][-1]["method"] == "GDPNet"
    splits = [row["split"] for row in csv.DictReader((run / "split.csv").read_text().splitlines())]
    assert {name: splits.count(name) for name in set(splits)} == {"train": 72, "validation": 24, "test": 24}


def test_evaluating_the_run_again_gives_the_same_score(run: Path, capsys) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    code, out, _ = call(capsys, "evaluate", run, "--json", "--device", "cpu")
    again = json.loads(out.strip().splitlines()[-1])
    assert code == 0
    assert (again["nodes"], again["macro_f1"]) == (24, metrics["macro_f1"])


def test_columns_of_another_export_are_found_by_name_and_all_its_nodes_are_scored(run, base, capsys) -> None:
    other = write_export(base / "other", seed=5, columns="reversed")
    code, out, _ = call(capsys, "evaluate", run, other, "--json", "--device", "cpu")
    assert code == 0
    assert json.loads(out.strip().splitlines()[-1])["nodes"] == 120


def test_classes_that_the_model_does_not_know_count_as_wrong(run, base, capsys) -> None:
    other = write_export(base / "upper", seed=6, upper=True)
    code, out, _ = call(capsys, "evaluate", run, other, "--json", "--device", "cpu")
    found = json.loads(out.strip().splitlines()[-1])
    assert code == 0
    assert (found["nodes"], found["micro_f1"]) == (120, 0.0)
    assert set(found["unknown_classes"]) == {"FRAUD", "OK"}


def test_a_column_that_is_missing_elsewhere_is_named(run, base, capsys) -> None:
    folder = write_export(base / "less", seed=7)
    text = (folder / "nodes.csv").read_text().replace("income", "salary", 1)
    (folder / "nodes.csv").write_text(text)
    assert "must have the column 'income' of the training table" in refuse(capsys, "evaluate", run, folder)
