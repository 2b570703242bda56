"""A folder of shards: lost, cut and damaged files are made again, and two processes do not write one."""

import json
from pathlib import Path

import pytest

from gdpnet._core.files import disk, locked_folder
from gdpnet.errors import GDPNetError, RunFolderError
from gdpnet.estimator import GDPNet
from gdpnet.inference.streaming import denoise_to, embed_to
from helpers.small import fitted, noisy_graph

pytestmark = pytest.mark.slow  # a model is trained

GRAPH = noisy_graph()


@pytest.fixture(scope="module")
def model() -> GDPNet:
    return fitted(GRAPH)


def clean(model: GDPNet, folder: Path, **options: object) -> dict:
    return denoise_to(model.trained_, GRAPH, folder, all_edges=True, edges_per_shard=60, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("shards") / "whole"
    clean(model, folder)
    return contents(folder)


def stop_at(model: GDPNet, folder: Path, monkeypatch, count: int) -> None:
    """Clean until so many files were written."""
    left = [count]
    usual = disk.flush_file

    def stop(path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        usual(path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_file", stop)
        with pytest.raises(KeyboardInterrupt):
            clean(model, folder)


def test_the_description_has_size_and_checksum_of_every_shard(whole):
    about = json.loads(whole["shards.json"])
    assert len(about["parts"]) == len(about["shards"]) > 3
    assert [part["bytes"] for part in about["parts"]] == [
        len(whole[name]) for name in sorted(whole) if name.startswith("part-")
    ]


@pytest.mark.parametrize("damage", ["lost", "cut", "changed", "empty"])
def test_a_damaged_shard_of_a_finished_folder_is_made_again(damage, model, whole, tmp_path):
    clean(model, tmp_path / "d")
    part = tmp_path / "d" / "part-00002.parquet"
    content = part.read_bytes()
    part.unlink()
    if damage != "lost":
        changed = bytes([content[40] ^ 1])
        damaged = {"cut": content[:-7], "changed": content[:40] + changed + content[41:], "empty": b""}
        part.write_bytes(damaged[damage])
    clean(model, tmp_path / "d")
    assert contents(tmp_path / "d") == whole


@pytest.mark.parametrize("count", [1, 8, 14, 18])
@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", None])
def test_damaged_intermediate_results_are_made_again(damage, count, model, whole, tmp_path, monkeypatch):
    folder = tmp_path / "d"
    stop_at(model, folder, monkeypatch, count)
    for path in folder.rglob("*.npy"):
        content = bytearray(path.read_bytes())
        content[-3] ^= 64
        path.write_bytes(bytes(content) if damage is None else damage)
    clean(model, folder)
    assert contents(folder) == whole


def test_a_damaged_list_of_finished_files_is_not_believed(model, whole, tmp_path, monkeypatch):
    stop_at(model, tmp_path / "d", monkeypatch, 17)
    path = tmp_path / "d" / "work" / "done.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "rubbish", *lines[1:]]))
    clean(model, tmp_path / "d")
    assert contents(tmp_path / "d") == whole


def test_a_folder_whose_process_died_while_it_was_made_can_be_used(model, whole, tmp_path):
    folder = tmp_path / "d"
    with locked_folder(folder):
        left = folder / ".gdpnet.lock"
        assert left.exists()
        content = left.read_bytes()
    left.write_bytes(content)
    clean(model, folder)
    assert contents(folder) == whole


def test_shards_without_checksums_of_earlier_versions_are_made_again(model, whole, tmp_path):
    clean(model, tmp_path / "d")
    path = tmp_path / "d" / "shards.json"
    about = json.loads(path.read_text())
    del about["parts"]
    path.write_text(json.dumps(about))
    (tmp_path / "d" / "part-00001.parquet").write_bytes(b"cut")
    clean(model, tmp_path / "d")
    assert contents(tmp_path / "d") == whole


def test_two_processes_do_not_write_one_folder(model, tmp_path):
    with locked_folder(tmp_path / "d"), pytest.raises(RunFolderError, match="another process is writing to"):
        clean(model, tmp_path / "d")


def test_other_shards_are_replaced_by_force_only(model, whole, tmp_path):
    folder = tmp_path / "d"
    embed_to(model.trained_, GRAPH, folder, edges_per_shard=20)
    with pytest.raises(
        RunFolderError, match=r"holds shards of another command; .* or replace it with --force"
    ):
        clean(model, folder)
    clean(model, folder, force=True)
    assert contents(folder) == whole


def test_a_description_that_cannot_be_read_is_one_sentence(model, tmp_path):
    (tmp_path / "shards.json").write_text('{"format": ')
    with pytest.raises(GDPNetError, match=r"shards\.json cannot be read as JSON: .* --force"):
        clean(model, tmp_path)


@pytest.mark.parametrize("name", ["part-00001.parquet", "shards.json", "work", "work/done.jsonl"])
@pytest.mark.parametrize("force", [False, True])
def test_a_link_in_place_of_a_file_of_the_shards_is_refused_and_not_followed(force, name, model, tmp_path):
    folder, mine = tmp_path / "d", tmp_path / "mine"
    clean(model, folder)
    mine.write_bytes((folder / "shards.json").read_bytes())
    link = folder / name
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(mine)
    before = mine.read_bytes()
    with pytest.raises(RunFolderError, match=f"found the link '{name}': delete it"):
        clean(model, folder, force=force)
    assert mine.read_bytes() == before
