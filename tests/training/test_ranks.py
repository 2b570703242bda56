"""Several ranks train one model: they agree bit for bit, with each other, with one process and after a failure."""

import json
from pathlib import Path

import pytest

from gdpnet._core.ranks import Ranks
from gdpnet.cli import main
from gdpnet.data.io.store import write_store
from gdpnet.errors import ConfigError
from gdpnet.inference.model_file import read_tensors
from gdpnet.training.registry import check_ranks
from helpers.rank_script import FITS, LARGE, PARTS, few_labels, train
from helpers.ranks import run_ranks, torchrun

HELPERS = Path(__file__).resolve().parents[1] / "helpers"
OWN = "own parts"


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory) -> list[dict[str, str]]:
    return run_ranks(HELPERS / "rank_script.py", 2, tmp_path_factory.mktemp("ranks"))


@pytest.mark.slow
def test_all_ranks_end_with_the_same_weights(two_ranks):
    assert two_ranks[0] == two_ranks[1]


@pytest.mark.slow
def test_two_runs_of_two_ranks_end_with_the_same_weights(two_ranks):
    assert two_ranks[0][OWN] == two_ranks[0]["own parts again"]


@pytest.mark.slow
def test_two_ranks_on_the_same_part_learn_what_one_process_learns(two_ranks):
    assert two_ranks[0]["same part"] == train(PARTS, Ranks())
    assert two_ranks[0]["same small graph"] == train(FITS, Ranks())
    assert two_ranks[0]["same part, few labels"] == train(PARTS, Ranks(), few_labels())


@pytest.mark.slow
def test_ranks_with_their_own_nodes_learn_something_else(two_ranks):
    assert len(set(two_ranks[0].values())) == len(two_ranks[0]) - 1


# --- the command ---


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> list[object]:
    folder = tmp_path_factory.mktemp("graph")
    write_store(LARGE, folder / "store")
    (folder / "fast.toml").write_text(PARTS.to_toml())
    given = ["--config", folder / "fast.toml", "--device", "cpu", "--no-check", "--json"]
    return ["train", folder / "store", *given]


@pytest.fixture(scope="module")
def undisturbed(words, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    done = torchrun("-m", "gdpnet", *words, "--out", out)
    assert done.returncode == 0, done.stderr
    # one record, printed by the first rank alone
    assert [json.loads(line)["run"] for line in done.stdout.splitlines()] == [str(out)]
    assert done.stderr.count("2 ranks train one model, each on a part of its own") == 1
    return out


def tensors(path: Path) -> dict[str, list[float]]:
    return {name: value.tolist() for name, value in read_tensors(path, "checkpoint")[0].items()}


@pytest.mark.slow
def test_a_rank_that_is_killed_is_started_again_and_the_weights_are_the_same(words, undisturbed, tmp_path):
    given = [HELPERS / "killed_rank.py", *words, "--out", tmp_path / "run"]
    done = torchrun(*given, restarts=1, env={"KILL_AT": "4"})
    assert done.returncode == 0, done.stderr
    assert "exitcode: -9" in done.stderr  # the rank was killed indeed
    assert tensors(tmp_path / "run" / "checkpoint.safetensors") == tensors(
        undisturbed / "checkpoint.safetensors"
    )
    one, other = (
        [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
        for path in (tmp_path / "run", undisturbed)
    )
    assert one == other


@pytest.mark.slow
def test_a_run_of_two_ranks_goes_on_in_one_process(words, undisturbed, capsys):
    assert main([*map(str, words), "--out", str(undisturbed), "--resume", "--set", "training.epochs=6"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["run"] == str(undisturbed)
    assert len((undisturbed / "history.jsonl").read_text().splitlines()) == 7


@pytest.mark.slow
def test_what_is_refused_is_said_once_and_nothing_is_written(words, tmp_path):
    done = torchrun("-m", "gdpnet", *words, "--out", tmp_path / "run", "--task", "clusters")
    said = [line for line in done.stderr.splitlines() if line.startswith("gdpnet: ")]
    assert said == [
        "gdpnet: the task clusters must be trained in one process, found 2: start it without torchrun"
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["links", "clusters", ""])
def test_tasks_without_labels_and_tasks_of_the_users_own_need_one_process(kind):
    check_ranks(1, kind)
    with pytest.raises(ConfigError, match="must be trained in one process, found 2"):
        check_ranks(2, kind)
