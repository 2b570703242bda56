"""Places that others prepared: pipes without a reader, folders without end, planted lists, lines without end."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gdpnet._core.files import append_line, found_in, has_torn_end, new_folder, read_objects, write_text
from gdpnet._core.json_file import read_json
from gdpnet.data.io.files import read_graph
from gdpnet.errors import GDPNetError, GraphError, ModelFileError, WorkError
from gdpnet.inference.model_file import read_tensors


def test_a_pipe_that_nobody_reads_from_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpnet._core.files.streams._PATIENCE", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (write_text, append_line):
        with pytest.raises(WorkError, match="no process reads from the pipe within"):
            write(pipe, "content")


def test_a_reader_may_come_to_a_pipe_a_little_later(tmp_path):
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: (time.sleep(0.2), read.append(pipe.read_text())))
    reader.start()
    write_text(pipe, "content")
    reader.join()
    assert read == ["content"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="/proc is there on Linux only")
def test_a_folder_in_which_no_file_can_be_made_is_refused_and_not_tried_for_ever():
    with pytest.raises(WorkError, match=r"cannot write /proc/x\.csv: No such file or directory"):
        write_text(Path("/proc/x.csv"), "content")


def test_a_path_may_have_more_folders_than_python_has_frames(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deep = Path(*["d"] * 1500) / "x.txt"
    try:
        write_text(deep, "content")
        assert deep.read_text() == "content"
    finally:  # shutil.rmtree, with which pytest cleans up, has fewer frames than that
        subprocess.run(["rm", "-rf", "d"], check=True)


def test_a_planted_list_of_moved_files_deletes_nothing(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "notes.txt").write_text("notes")
    with new_folder(tmp_path / "other") as temporary:
        name = temporary.name.replace(str(os.getpid()), "1")
    planted = folder / name
    for listed in (
        ["../mine.txt", "here"],
        {"../mine.txt": 0, "here": 0},
        {"notes.txt": 7, "here": 0},
        3,
        [[]],
    ):
        planted.mkdir()
        (planted / "here").write_text("")
        (planted / "moving.json").write_text(json.dumps(listed))
        assert found_in(folder) == ["notes.txt"]
        assert (tmp_path / "mine.txt").read_text() == "mine"
    planted.mkdir()
    (planted / "here").write_text("")
    inode = (tmp_path / "mine.txt").stat().st_ino
    (planted / "moving.json").write_text(json.dumps({str(tmp_path / "mine.txt"): inode, "here": 0}))
    assert found_in(folder) == ["notes.txt"]
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.fixture
def short_lines(monkeypatch):
    """Let a line have 100 bytes at most, and blocks of 16."""
    monkeypatch.setattr("gdpnet._core.files.lines.MOST_JSON_BYTES", 100)
    monkeypatch.setattr("gdpnet._core.files.lines._BLOCK", 16)


def test_a_line_that_is_too_long_is_refused_by_its_number_and_never_deleted(short_lines, tmp_path):
    path, long = tmp_path / "records.jsonl", b'{"a": "' + b"x" * 200
    path.write_bytes(b"{}\n" + long)
    with pytest.raises(GDPNetError, match=r"line 2 of .* must have at most 100 bytes"):
        read_objects(path)
    assert not has_torn_end(path)
    append_line(path, '{"b": 1}')
    assert path.read_bytes() == b"{}\n" + long + b'\n{"b": 1}\n'


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 33, 92, 93])
def test_a_torn_line_of_any_length_is_found_and_replaced(length, short_lines, tmp_path):
    path, torn = tmp_path / "records.jsonl", b'{"a": "' + b"x" * length
    for before in (b"", b"{}\n", b'{"c": 2}\n' * 9):
        path.write_bytes(before + torn)
        assert has_torn_end(path)
        append_line(path, '{"b": 1}')
        assert path.read_bytes() == before + b'{"b": 1}\n'


def test_a_last_line_that_is_nested_too_deeply_is_refused_and_stays(tmp_path):
    path, deep = tmp_path / "records.jsonl", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
    path.write_text(deep)
    with pytest.raises(GDPNetError, match="line 1 of"):
        read_objects(path)
    append_line(path, "{}")
    assert path.read_text() == f"{deep}\n{{}}\n"


def test_a_last_line_of_many_blocks_takes_no_longer_than_its_length(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 60_000_000)
    start = time.monotonic()
    assert has_torn_end(path)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("name", ["graph.npz", "edges.csv", "edges.csv.gz", "edges.tsv", "edges.parquet"])
def test_a_pipe_or_a_device_is_no_graph_and_is_not_waited_for(name, tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,x\na,1\nb,2\n")
    path = tmp_path / name if name.endswith("npz") else folder / name
    for make in (os.mkfifo, lambda place: place.symlink_to("/dev/zero")):
        make(path)
        with pytest.raises(GraphError, match="it must be a file, found a device or a pipe"):
            read_graph(path if name.endswith("npz") else folder)
        path.unlink()


def test_a_pipe_is_neither_json_nor_a_model(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(GDPNetError, match="it must be a file"):
        read_json(pipe)
    with pytest.raises(ModelFileError, match="it must be a file"):
        read_tensors(pipe, "model")
