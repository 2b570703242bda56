"""One process alone, and how the environment of several is read."""

import sys
from pathlib import Path

import pytest
import torch

from gdpnet._core.launch import own_rank, ranks_asked, restarts
from gdpnet._core.ranks import Ranks, joined_ranks
from gdpnet.errors import ConfigError, WorkError
from helpers.ranks import run_ranks

VARIABLES = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def launched(monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def test_one_process_gets_back_what_it_gives():
    alone = Ranks()
    assert alone.add(1.5, 2) == [1.5, 2]
    assert alone.least(3) == 3
    assert [alone.any(False), alone.any(True)] == [False, True]
    assert alone.share("mine") == "mine"
    assert alone.gather(7) == [7]
    rows = torch.ones(2, 3)
    assert alone.join_rows(rows) is rows
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.tensor([3.0, 4.0])
    alone.average_gradients([weight])
    assert weight.grad.tolist() == [3.0, 4.0]


def test_a_process_that_was_started_alone_is_the_first_and_only_one(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert (ranks_asked(), own_rank(), restarts()) == (1, 0, 0)
    monkeypatch.setenv("WORLD_SIZE", "8")  # as a queue of jobs may set it
    assert ranks_asked() == 1
    with joined_ranks("cpu") as ranks:
        assert (ranks.size, ranks.is_first, ranks.parts) == (1, True, 1)


def test_ranks_are_numbered_by_the_launcher(launched, monkeypatch):
    assert (ranks_asked(), own_rank(), restarts()) == (3, 1, 0)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert restarts() == 1


@pytest.mark.parametrize(
    ("name", "text"), [("RANK", "3"), ("RANK", "-1"), ("WORLD_SIZE", "many"), ("WORLD_SIZE", "0")]
)
def test_numbers_that_no_launcher_sets_are_refused(launched, monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError, match=f"the environment variable {name} must be a number from"):
        own_rank()


def test_every_rank_needs_a_gpu_of_its_own(launched, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match="found 1 for rank 2 of this machine"), joined_ranks("cuda"):
        pass


def test_a_lost_rank_is_said_in_one_sentence():
    ranks = Ranks(rank=1, size=2)  # without a process group every message fails
    with pytest.raises(WorkError, match="rank 1 of 2 cannot go on"):
        ranks.add(1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_rank_that_left_has_no_thread_that_could_end_it_by_a_signal(tmp_path):
    script = Path(__file__).resolve().parents[1] / "helpers" / "leaving_rank.py"
    for found in run_ranks(script, 2, tmp_path):
        assert found["before"] > 0
        assert found["after"] == 0
