"""Writing: links, devices, temporaries of dead and living processes, locks, new folders."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gdpnet._core.files import (
    append_line,
    atomic_path,
    check_lines,
    check_new,
    disk,
    folders,
    found_in,
    is_stream,
    locked_folder,
    new_folder,
    read_some,
    write_json,
    write_text,
)
from gdpnet._core.files.temporary import is_temporary, make_temporary, release
from gdpnet.errors import GDPNetError, GraphError, RunFolderError, WorkError

SLEEP = "import time; print('ready', flush=True); time.sleep(60)"


def start(code: str, *words: object) -> subprocess.Popen:
    """Start a process that says when it is ready and then waits."""
    command = [sys.executable, "-c", f"{code}\n{SLEEP}", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def make_folder(path: Path) -> None:
    with new_folder(path):
        pass


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


# --- links, devices, permissions ---


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    for text in ("new", "newer"):
        write_text(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "file").read_text() == text
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]


def test_a_line_goes_through_a_link_to_nothing_yet(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "new" / "lines.jsonl")
    check_lines(tmp_path / "link")
    append_line(tmp_path / "link", "{}")
    assert (tmp_path / "new" / "lines.jsonl").read_text() == "{}\n"


def test_a_file_that_no_line_can_be_added_to_is_refused_before_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "file" / "lines.jsonl", "Not a directory"),
        (tmp_path / "file" / "deep" / "lines.jsonl", "Not a directory"),
    ):
        with pytest.raises(WorkError, match=f"^cannot write {path}: {reason}$"):
            check_lines(path)
    check_lines(tmp_path / "new" / "lines.jsonl")
    check_lines(Path("/dev/null"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_current_folder_that_was_deleted_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    def hold() -> None:
        with locked_folder(Path("run")):
            pass

    for write in (
        lambda: write_text(Path("file"), "text"),
        lambda: append_line(Path("lines.jsonl"), "{}"),
        lambda: check_lines(Path("lines.jsonl")),
        hold,
        lambda: make_folder(Path("store")),
    ):
        with pytest.raises(WorkError, match=r"^cannot write \w+(\.jsonl)?: the current folder was deleted$"):
            write()


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "link"):
        write_text(path, "x" * 100_000)
        append_line(path, "{}")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_text(tmp_path / "pipe", "whole")
    reader.join(10)
    assert got == ["whole"]
    assert is_stream(tmp_path / "pipe")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_pipe_is_read_once_another_process_writes_to_it(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as file:
            time.sleep(0.2)  # it is open and still empty
            file.write(b"a" * 100_000)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_some(pipe, 150_000) == b"a" * 100_000
    writer.join(10)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpnet._core.files.streams._PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no process writes to the pipe within 0 seconds"):
        read_some(tmp_path / "pipe", 10)


def test_standard_output_that_goes_to_a_file_is_written_where_it_stands(tmp_path):
    code = (
        "from pathlib import Path; from gdpnet._core.files import write_text; print('before'); "
        "write_text(Path('/dev/stdout'), 'content\\n'); print('after')"
    )
    with (tmp_path / "out").open("w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == "before\ncontent\nafter\n"


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    write_text(tmp_path / "file", "old")
    (tmp_path / "file").chmod(0o600)
    write_text(tmp_path / "file", "new")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(tmp_path / ".x.tmp"))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WorkError) as refusal:
        write_text(tmp_path / "file", "new")
    sentence = f"the folder {tmp_path} cannot be written to (Permission denied)"
    assert str(refusal.value) == f"cannot write {tmp_path / 'file'}: {sentence}"


def test_the_file_and_its_folder_are_flushed_to_disk(tmp_path, monkeypatch):
    flushed: list[str] = []
    for name in ("flush_file", "flush_folder"):
        usual = getattr(disk, name)
        monkeypatch.setattr(
            disk,
            name,
            lambda path, usual=usual, name=name: (flushed.append(f"{name} {path.name}"), usual(path)),
        )
    write_text(tmp_path / "new" / "file", "text")
    assert flushed[0] == f"flush_folder {tmp_path.name}"
    assert flushed[1].startswith("flush_file .file.gdpnet-")
    assert flushed[2] == "flush_folder new"


def test_a_long_file_name_can_be_written(tmp_path):
    path = tmp_path / ("é" * 120)
    write_text(path, "text")
    assert path.read_text() == "text"


# --- temporaries ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("what", ["write_text(folder / 'file', 'text')", "with locked_folder(folder): pass"])
def test_a_signal_while_a_temporary_or_a_lock_is_deleted_leaves_nothing(tmp_path, number, what):
    code = (
        "import os, sys; from pathlib import Path; from gdpnet import cli\n"
        "from gdpnet._core.files import disk, locked_folder, write_text\n"
        "folder, usual = Path(sys.argv.pop()), Path.unlink\n"
        "def unlink(path, missing_ok=False):\n"
        "    Path.unlink = usual\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    usual(path, missing_ok)\n"
        "def fail(path): raise OSError(28, 'No space left on device')\n"
        "def work():\n"
        "    Path.unlink, disk.flush_file = unlink, fail\n"
        f"    {what}\n"
        "cli._run = lambda words: work()\n"
        "cli.run()"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], check=False, capture_output=True)
    assert (ended.returncode, list(tmp_path.iterdir())) == (128 + number, [])


def test_what_a_dead_process_left_is_deleted_and_what_a_living_one_writes_is_not(tmp_path):
    code = (
        "import sys; from pathlib import Path; from gdpnet._core.files.temporary import make_temporary\n"
        "folder = Path(sys.argv[1]); make_temporary(folder / 'a'); make_temporary(folder / 'b', folder=True)"
    )
    dead, living = start(code, tmp_path), None
    try:
        left = set(tmp_path.iterdir())
        assert len(left) == 2
        assert all(is_temporary(path.name) for path in left)
        kill(dead)
        living = start(code, tmp_path)
        here = set(tmp_path.iterdir())
        assert left.isdisjoint(here)
        write_text(tmp_path / "file", "text")
        assert set(tmp_path.iterdir()) == here | {tmp_path / "file"}
    finally:
        if living is not None:
            kill(living)


def test_two_temporaries_of_one_process_have_different_names(tmp_path):
    one, other = make_temporary(tmp_path / "file"), make_temporary(tmp_path / "file")
    assert one[0] != other[0]
    release(*one)
    release(*other)
    assert list(tmp_path.iterdir()) == []


def test_files_that_only_look_like_temporaries_stay(tmp_path):
    mine = [f".file.{os.getpid()}.tmp", ".x.gdpnet-000000-1-00000000.tmp", "file.tmp"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    write_text(tmp_path / "file", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*mine, "file"])


def test_an_error_of_the_caller_is_not_hidden(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "file"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


# --- new folders ---


def fill(folder: Path) -> None:
    with new_folder(folder, "last.json") as temporary:
        for name in ("last.json", "a", "z"):
            (temporary / name).write_text(name)


def test_a_new_folder_appears_whole(tmp_path):
    fill(tmp_path / "deep" / "new")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["new"]
    assert found_in(tmp_path / "deep" / "new") == ["a", "last.json", "z"]


def test_an_empty_folder_is_filled_and_stays_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    fill(Path())
    assert tmp_path.stat().st_ino == before
    assert sorted(path.name for path in Path().iterdir()) == ["a", "last.json", "z"]


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(GraphError, match="must be a new or an empty folder, found 'mine' in it"):
        fill(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_a_dead_process_had_moved_in_part_is_taken_back(tmp_path):
    code = (
        "import sys, os; from pathlib import Path; from gdpnet._core.files import new_folder\n"
        "with new_folder(Path(sys.argv[1]), 'last') as folder:\n"
        "    for name in 'last', 'a', 'z': (folder / name).write_text(name)\n"
        "    usual = Path.rename\n"
        "    def rename(path, target):\n"
        "        if path.name == 'z': os.kill(os.getpid(), 9)\n"
        "        return usual(path, target)\n"
        "    Path.rename = rename"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert (tmp_path / "a").is_file()
    check_new(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_of_two_processes_that_write_one_folder_the_slower_is_refused(tmp_path):
    slow = new_folder(tmp_path / "new")
    (slow.__enter__() / "x").write_text("slow")
    fill(tmp_path / "new")
    with pytest.raises(GDPNetError, match="must be a new or an empty folder"):
        slow.__exit__(None, None, None)
    assert found_in(tmp_path / "new") == ["a", "last.json", "z"]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_two_writers_do_not_mix_their_files_in_an_empty_folder(tmp_path, monkeypatch):
    usual, refused = folders.move_up, []

    def slowly(folder: Path, last: str) -> None:
        time.sleep(0.2)
        usual(folder, last)

    def write() -> None:
        try:
            fill(tmp_path)
        except GraphError as error:
            refused.append(str(error))

    monkeypatch.setattr(folders, "move_up", slowly)
    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(refused) == 1
    assert "must be a new or an empty folder" in refused[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "last.json", "z"]


def test_a_file_that_cannot_be_written_is_named_in_the_folder_that_was_asked_for(tmp_path, monkeypatch):
    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "flush_file", fail)
    with pytest.raises(WorkError) as refusal, new_folder(tmp_path / "new") as temporary:
        write_text(temporary / "file", "text")
    assert str(refusal.value) == f"cannot write {tmp_path / 'new' / 'file'}: No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_moved_files_are_taken_back_leaves_none_of_them(tmp_path, monkeypatch):
    usual, seen = Path.unlink, []

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        usual(path, missing_ok)
        seen.append(path.name)
        if len(seen) == 1:
            raise KeyboardInterrupt

    def fail(path: Path, target: Path) -> None:
        if path.name == "last.json":
            monkeypatch.setattr(Path, "unlink", interrupted)
            raise OSError(28, "No space left on device")
        path.replace(target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path)
    assert seen[0] == "a"
    assert list(tmp_path.iterdir()) == []


# --- locks ---


def test_a_folder_is_held_until_its_process_dies(tmp_path):
    code = (
        "import sys; from pathlib import Path; from gdpnet._core.files import locked_folder\n"
        "lock = locked_folder(Path(sys.argv[1])); lock.__enter__()"
    )
    process = start(code, tmp_path / "run")
    with (
        pytest.raises(RunFolderError, match="another process is writing to"),
        locked_folder(tmp_path / "run"),
    ):
        pass
    kill(process)
    with locked_folder(tmp_path / "run"):
        write_json(tmp_path / "run" / "file.json", {"a": 1})
    assert json.loads((tmp_path / "run" / "file.json").read_text()) == {"a": 1}
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["file.json"]


@pytest.mark.parametrize("what", ["moved", "deleted", "replaced"])
@pytest.mark.parametrize(
    "write",
    [
        lambda folder: write_text(folder / "a" / "file", "newer"),
        lambda folder: append_line(folder / "lines.jsonl", "{}"),
        lambda folder: make_folder(folder / "new"),
    ],
    ids=["file", "line", "folder"],
)
def test_nothing_is_written_to_the_path_of_a_held_folder_that_was_moved_or_deleted(what, write, tmp_path):
    folder, there = tmp_path / "run", tmp_path / "there"
    there.mkdir()
    with locked_folder(folder):
        write_text(folder / "a" / "file", "text")
        folder.rename(there / "run")
        if what == "deleted":
            shutil.rmtree(there / "run")
        if what == "replaced":
            with locked_folder(folder):
                pass
        with pytest.raises(WorkError, match=rf"^the folder {folder} was moved or deleted"):
            write(folder)
    assert not (folder / "a").exists()
    assert not folder.exists() or list(folder.iterdir()) == []


def test_a_folder_that_is_moved_while_a_file_is_written_is_said_to_be(tmp_path):
    folder = tmp_path / "run"

    def write() -> None:
        with locked_folder(folder), atomic_path(folder / "file") as temporary:
            temporary.write_text("text")
            folder.rename(tmp_path / "there")

    with pytest.raises(WorkError, match="was moved or deleted"):
        write()
    assert not folder.exists()


def test_the_lock_of_another_process_at_the_same_path_is_not_deleted(tmp_path):
    with locked_folder(tmp_path / "run"):
        (tmp_path / "run").rename(tmp_path / "there")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / ".gdpnet.lock").write_text("of another process")
    assert (tmp_path / "run" / ".gdpnet.lock").read_text() == "of another process"


def test_a_folder_that_is_held_is_cleaned_of_what_dead_processes_left(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from gdpnet._core.files.temporary import make_temporary\n"
        "make_temporary(Path(sys.argv[1]) / 'file'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert len(list(tmp_path.iterdir())) == 1
    with locked_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
