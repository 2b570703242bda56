"""Children with limits on memory and time, and how they end."""

import os
import signal
import sys
import time

import pytest
from campaigns.children import Shot, fork

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="children are watched as Linux does"
)


def fail() -> int:
    raise ValueError("wrong")


def die() -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def sleep() -> int:
    time.sleep(30)
    return 0


def take_memory() -> int:
    return len(bytearray(1 << 30)) and 0


def say() -> int:
    print("a result")
    print("a note", file=sys.stderr)
    return 3


def test_the_exit_code_and_both_outputs_are_told(tmp_path):
    ended = fork(say, tmp_path / "log").wait()
    assert (ended.code, ended.out, ended.err, ended.hung) == (3, "a result\n", "a note\n", False)


def test_an_exception_that_escapes_is_a_traceback_and_exit_code_1(tmp_path):
    ended = fork(fail, tmp_path / "log").wait()
    assert ended.code == 1
    assert "ValueError: wrong" in ended.err


def test_a_crash_is_told_by_its_signal(tmp_path):
    assert fork(die, tmp_path / "log").wait().code == -signal.SIGKILL


def test_a_child_that_hangs_is_killed(tmp_path):
    ended = fork(sleep, tmp_path / "log").wait(limit=0.2)
    assert ended.hung
    assert ended.seconds < 10


def test_memory_is_bounded(tmp_path):
    assert "MemoryError" in fork(take_memory, tmp_path / "log", memory=1 << 26).wait().err


def test_a_signal_can_be_sent_on_the_way(tmp_path):
    ended = fork(sleep, tmp_path / "log").wait(shot=Shot(signal.SIGTERM, 0.1))
    assert ended.code == -signal.SIGTERM
