"""``gdpnet tune`` for GDPNet itself."""

import pytest

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
