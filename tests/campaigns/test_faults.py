"""The library that counts file operations, and lets one of them fail or end the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns.faults import Fault, Mode, build_library, why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))

_WRITE = """
import sys
from pathlib import Path
Path(sys.argv[1]).write_text("0123456789")
Path(sys.argv[1]).rename(sys.argv[2])
"""
"""Three operations: open, write, rename."""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return build_library(tmp_path_factory.mktemp("library"))


def write_with(library: Path, folder: Path, mode: Mode, at: int, watched: Path | None = None):
    """Write and rename a file with a fault; return the finished process."""
    fault = Fault(mode, at, watched or folder)
    environment = os.environ | {"LD_PRELOAD": str(library), "CAMPAIGN_FAULT": fault.text}
    words = [sys.executable, "-c", _WRITE, str(folder / "one"), str(folder / "two")]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("at", "left"), [(0, []), (1, ["one"]), (2, ["one"]), (3, ["two"])])
def test_a_kill_comes_before_the_operation_of_its_number(library, tmp_path, at, left):
    ended = write_with(library, tmp_path, Mode.KILL, at)
    assert (ended.returncode, names_in(tmp_path)) == (0 if at == 3 else -9, left)


def test_a_torn_write_leaves_half(library, tmp_path):
    assert write_with(library, tmp_path, Mode.TEAR, 1).returncode == -9
    assert (tmp_path / "one").read_text() == "01234"


def test_a_full_disk_takes_half_and_then_nothing(library, tmp_path):
    ended = write_with(library, tmp_path, Mode.FULL, 1)
    assert "No space left on device" in ended.stderr
    assert (tmp_path / "one").read_text() == "01234"


def test_a_read_only_folder_takes_nothing(library, tmp_path):
    ended = write_with(library, tmp_path, Mode.READ_ONLY, 0)
    assert "Read-only file system" in ended.stderr
    assert names_in(tmp_path) == []


def test_other_folders_are_not_disturbed(library, tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    assert write_with(library, tmp_path, Mode.KILL, 0, watched).returncode == 0


def test_a_signal_comes_at_the_operation(library, tmp_path):
    assert write_with(library, tmp_path, Mode.TERMINATE, 1).returncode == -15
    assert "KeyboardInterrupt" in write_with(library, tmp_path, Mode.INTERRUPT, 1).stderr
