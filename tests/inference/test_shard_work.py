"""Intermediate results of shards: only files that GDPNet wrote are deleted, also with --force."""

import json
from pathlib import Path

import numpy as np
import pytest

from gdpnet._core.files import atomic_path, write_json
from gdpnet.errors import RunFolderError
from gdpnet.inference.shards import ShardFolder, open_shards

ABOUT = {"kind": "embed", "model": "a", "graph": "b"}


def begun(folder: Path, *, force: bool = False, **changed: object) -> ShardFolder:
    return open_shards(folder, ABOUT | changed, [(0, 2), (2, 5)], force=force)


def write_shards(shards: ShardFolder) -> None:
    shards.save("context-00000.npy", np.arange(3))
    for number, _ in list(shards.missing):
        with atomic_path(shards.part(number)) as temporary:
            temporary.write_bytes(b"shard")
        shards.seal(shards.part(number))


def finished(folder: Path) -> None:
    shards = begun(folder)
    write_shards(shards)
    shards.finish({"nodes": 5})


def put(path: Path, text: str = "mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("described", [False, True], ids=["new", "of other shards"])
@pytest.mark.parametrize("name", ["work/thesis.txt", "work/plan.json", "work/model.safetensors", "work"])
def test_a_folder_called_work_of_the_user_is_refused_and_left_alone(name, described, tmp_path):
    if described:
        finished(tmp_path)
    mine = put(tmp_path / name, '{"mine": 1}')
    with pytest.raises(RunFolderError, match="that GDPNet may not have written: move it, or choose another"):
        begun(tmp_path, force=True, model="other")
    assert mine.read_text() == '{"mine": 1}'


def test_a_finished_folder_leaves_a_folder_called_work_of_the_user_alone(tmp_path):
    finished(tmp_path)
    mine = put(tmp_path / "work" / "thesis.txt")
    assert begun(tmp_path).summary == {"nodes": 5, "shards": 2}
    assert mine.read_text() == "mine"
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(RunFolderError, match=r"'thesis\.txt'"):  # it would be written to
        begun(tmp_path)
    assert mine.read_text() == "mine"


def test_files_of_the_user_beside_intermediate_results_stay(tmp_path):
    shards = begun(tmp_path)
    write_shards(shards)
    mine = put(tmp_path / "work" / "notes.txt")
    shards.finish({"nodes": 5})
    assert [path.name for path in mine.parent.iterdir()] == ["notes.txt"]


def test_intermediate_results_are_deleted_at_the_end_and_with_other_shards(tmp_path):
    finished(tmp_path)
    assert not (tmp_path / "work").exists()
    begun(tmp_path / "new").save("context-00000.npy", np.arange(3))
    work = tmp_path / "new" / "work"
    put(work / "graph" / "graph.json")
    put(work / "model.safetensors")
    put(work / "plan.json", json.dumps({"store": None, "used": [], "weigh": False}))
    put(work / ".x.npy.gdpnet-012345-1-01234567.tmp")
    begun(tmp_path / "new", force=True, model="other")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["shards.json"]


def test_intermediate_results_are_known_though_the_process_ended_with_the_first(tmp_path, monkeypatch):
    shards = begun(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gdpnet.inference.shards.append_line", stop)
    with pytest.raises(KeyboardInterrupt):
        shards.save("context-00000.npy", np.arange(3))
    begun(tmp_path, force=True, model="other")
    assert [path.name for path in tmp_path.iterdir()] == ["shards.json"]


@pytest.mark.parametrize("name", ["part-mine.parquet", "part-00000-a1b2.snappy.parquet", "part-0.parquet"])
def test_tables_of_the_user_that_begin_as_shards_do_are_not_deleted(name, tmp_path):
    finished(tmp_path)
    mine = put(tmp_path / name)
    begun(tmp_path, force=True, model="other")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "shards.json"])
    assert mine.read_text() == "mine"


def test_shards_are_known_whatever_the_user_calls_his_own(tmp_path):
    write_json(tmp_path / "shards.json", {"format": "another", "version": 1})
    put(tmp_path / "work" / "done.jsonl", "{}\n")
    with pytest.raises(RunFolderError, match=r"'done\.jsonl'"):
        begun(tmp_path, force=True)
    assert (tmp_path / "work" / "done.jsonl").read_text() == "{}\n"


def test_an_empty_folder_called_work_that_a_killed_process_left_is_deleted(tmp_path):
    finished(tmp_path)
    (tmp_path / "work").mkdir()
    assert begun(tmp_path).summary == {"nodes": 5, "shards": 2}
    assert not (tmp_path / "work").exists()
