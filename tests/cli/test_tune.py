"""``gdpnet tune`` for GDPNet itself."""

from pathlib import Path
from typing import Any

import pytest

from gdpnet.benchmark.optuna_search import has_optuna
from gdpnet.cli import main
from gdpnet.config import read_config
from helpers.small import write_folder

SMALL = ["--set", "training.epochs=2", "--set", "training.warmup=1", "--set", "policy.hidden=[8,6]"]
SMALL += ["--set", "hopwise.use=false", "--set", "gcn.use=false"]


@pytest.mark.slow
def test_the_best_settings_of_gdpnet_are_written_as_toml(tmp_path, capsys):
    folder, out = write_folder(tmp_path / "graph"), tmp_path / "best.toml"
    words = ["tune", "--dataset", str(folder), "--methods", "gdpnet", "--rates", "0", "--trials", "2"]
    assert main([*words, "--out", str(out), *SMALL]) == 0
    found = read_config(out)
    assert (found.training.epochs, found.policy.hidden) == (2, (8, 6))
    assert 1e-3 <= found.ppo.learning_rate <= 1e-2
    assert "validation score" in " ".join(capsys.readouterr().out.split())


def test_gdpnet_is_tuned_on_one_graph_at_a_time(tmp_path, capsys):
    folders = [str(write_folder(tmp_path / name)) for name in ("a", "b")]
    assert main(["tune", "--dataset", folders[0], "--dataset", folders[1], "--methods", "gdpnet"]) == 2
    assert "one --dataset at a time, found 2" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not has_optuna(), reason="optuna is not installed: pip install 'gdpnet[tune]'")
def test_trials_on_another_graph_or_with_other_settings_are_no_trials_of_this_search(tmp_path, capsys):
    folder, out = write_folder(tmp_path / "graph"), tmp_path / "best.toml"
    words = ["tune", "--dataset", str(folder), "--methods", "gdpnet", "--rates", "0", "--trials", "1"]
    words += ["--storage", f"sqlite:///{tmp_path}/tune.db", "--out", str(out), *SMALL]

    def trials() -> int:
        assert main(words) == 0
        capsys.readouterr()
        return sum(len(one.trials) for one in optuna_studies(tmp_path))

    assert [trials(), trials()] == [1, 1]  # the second continues the first
    words += ["--set", "ppo.passes=1"]
    assert trials() == 2
    edges = (folder / "edges.csv").read_text().splitlines()
    (folder / "edges.csv").write_text("\n".join(edges[: len(edges) // 2]))
    assert trials() == 3


def optuna_studies(folder: Path) -> list[Any]:
    import optuna

    storage = f"sqlite:///{folder}/tune.db"
    return [
        optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)
    ]
