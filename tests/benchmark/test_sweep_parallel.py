"""Parallel work: records are written as they come, and no worker outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdpnet.benchmark.records import read_records
from gdpnet.benchmark.sweep import run_all
from gdpnet.errors import GDPNetError

SCRIPT = """
import os, sys, time
from pathlib import Path
from gdpnet.benchmark.sweep import run_all

class Endless:
    def __init__(self, path):
        self.path = path

    def run(self):
        Path(self.path).write_text(str(os.getpid()))
        time.sleep(120)
        return []

if __name__ == "__main__":
    run_all([Endless(path) for path in sys.argv[1:3]], Path(sys.argv[3]), 2, lambda records: None)
"""


@dataclass(frozen=True)
class Numbered:
    """A trial that is a number."""

    piece: int

    @property
    def stub(self) -> dict:
        return {}

    def run(self) -> list[dict]:
        return [{"piece": self.piece}]


class Sleepy(Numbered):
    def run(self) -> list[dict]:
        if self.piece == 0:
            raise ValueError("broken")
        time.sleep(60)
        return []


class Deadly(Numbered):
    def run(self) -> list[dict]:
        os._exit(1)


@dataclass(frozen=True)
class Greedy(Numbered):
    """A trial that finds too little memory the first time."""

    folder: Path

    def run(self) -> list[dict]:
        mark = self.folder / str(self.piece)
        if mark.exists():
            return [{"piece": self.piece, "metrics": {"score": 1.0}}]
        mark.touch()
        return [{"piece": self.piece, "metrics": {"error": "CUDA out of memory. Tried to allocate 16 MiB"}}]


@pytest.mark.slow
def test_a_trial_that_lacked_memory_beside_others_is_run_again_alone(tmp_path):
    path = tmp_path / "records.jsonl"
    run_all([Greedy(0, tmp_path), Numbered(1), Greedy(2, tmp_path)], path, 2, lambda records: None)
    found = read_records(path)
    assert [record["piece"] for record in found] == [1, 0, 2]
    assert all("error" not in record.get("metrics", {}) for record in found)


@pytest.mark.slow
def test_records_are_written_as_they_come(tmp_path):
    for jobs in (1, 2):
        told = []
        path = tmp_path / f"{jobs}.jsonl"
        run_all([Numbered(piece) for piece in (1, 2, 3)], path, jobs, told.append)
        assert sorted(record["piece"] for record in read_records(path)) == [1, 2, 3]
        assert sorted(records[0]["piece"] for records in told) == [1, 2, 3]


@pytest.mark.slow
def test_after_an_error_the_rest_is_neither_begun_nor_waited_for(tmp_path):
    start = time.monotonic()
    with pytest.raises(ValueError, match="broken"):
        run_all([Sleepy(piece) for piece in range(4)], tmp_path / "records.jsonl", 2, lambda records: None)
    assert time.monotonic() - start < 50


@pytest.mark.slow
def test_a_worker_that_dies_is_one_sentence(tmp_path):
    with pytest.raises(GDPNetError, match="a worker ended unexpectedly"):
        run_all([Deadly(0), Deadly(1)], tmp_path / "records.jsonl", 2, lambda records: None)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # one that has ended but was not waited for is not running
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


@pytest.mark.slow
def test_workers_end_with_their_parent_even_if_it_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = [tmp_path / "one", tmp_path / "two"]
    words = [sys.executable, str(script), *map(str, paths), str(tmp_path / "records.jsonl")]
    master = subprocess.Popen(words)
    try:
        assert wait_until(lambda: all(path.exists() and path.read_text() for path in paths), 60)
        workers = [int(path.read_text()) for path in paths]
        assert all(is_running(pid) for pid in workers)
        master.send_signal(signal.SIGKILL)
        master.wait()
        assert wait_until(lambda: not any(is_running(pid) for pid in workers), 30)
    finally:
        master.kill()
        master.wait()
