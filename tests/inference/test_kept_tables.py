"""Folders of kept tables: where they are, and that only those without readers and writers are deleted."""

import gc
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from gdpnet._core.files import locked_folder
from gdpnet._core.files.folders import LOCK
from gdpnet._core.files.locks import share_lock, try_lock
from gdpnet.data.graph import Graph
from gdpnet.errors import GDPNetError
from gdpnet.inference import stored
from gdpnet.inference.kept_tables import Kept, held, remove_unused, tables_beside
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.passes.job import Job
from gdpnet.inference.shards import ABOUT
from gdpnet.inference.stored import StoredDecisions

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked or deleted on Windows")


def write_tables(folder: Path) -> Kept:
    """Write a folder that is taken for tables."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ABOUT).write_text(json.dumps({"kind": "tables"}))
    return Kept(folder, 0, False)


@pytest.fixture
def open_tables(monkeypatch):
    """Return a function that opens tables in a folder, where another function makes them."""

    def open_with(place: Path, make) -> StoredDecisions:
        def made(model, graph, folder: Path) -> Job:
            make(folder)
            return Mock(spec=Job)

        monkeypatch.setattr(stored, "store_of", lambda graph: place)
        monkeypatch.setattr(stored, "own_folder", lambda *given: place)
        monkeypatch.setattr(stored, "make_tables", made)
        return StoredDecisions.open(Mock(spec=TrainedModel), Mock(spec=Graph), place.parent)

    return open_with


@needs_locks
def test_tables_of_a_killed_writer_are_deleted(tmp_path):
    kept = write_tables(tmp_path / "tables")
    (kept.path / LOCK).touch()
    assert remove_unused(kept)
    assert not kept.path.exists()


@needs_locks
def test_tables_that_are_written_stay(tmp_path):
    kept = write_tables(tmp_path / "tables")
    with locked_folder(kept.path):
        assert not remove_unused(kept)
    assert (kept.path / ABOUT).exists()
    assert remove_unused(kept)


@needs_locks
def test_tables_that_replace_others_while_these_are_opened_are_not_deleted(tmp_path, monkeypatch):
    """A process opens a folder, and before it locks it another one deletes that folder and makes a new one."""
    kept = write_tables(tmp_path / "tables")

    def replace_first(descriptor: int) -> bool | None:
        kept.path.rename(tmp_path / "before")
        write_tables(kept.path)
        return try_lock(descriptor)

    monkeypatch.setattr("gdpnet.inference.kept_tables.try_lock", replace_first)
    assert not remove_unused(kept)
    assert (kept.path / ABOUT).exists()


@needs_locks
def test_the_folder_that_is_there_is_held_if_it_was_replaced(tmp_path, monkeypatch):
    place = tmp_path / "tables"
    shared = []

    def replace_first(descriptor: int) -> bool | None:
        if not shared:
            place.rename(tmp_path / "before")
        shared.append(os.fstat(descriptor).st_ino)
        return share_lock(descriptor)

    monkeypatch.setattr("gdpnet.inference.kept_tables.share_lock", replace_first)
    with held(place):
        assert place.stat().st_ino == shared[-1]
    assert len(shared) == 2


@needs_locks
def test_a_folder_that_nothing_was_written_to_does_not_stay(tmp_path, open_tables):
    def fail(folder: Path) -> None:
        raise GDPNetError("full")

    with suppress(GDPNetError):
        open_tables(tmp_path / "tables", fail)
    assert not (tmp_path / "tables").exists()


@needs_locks
def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    kept = write_tables(tmp_path / "tables")
    (kept.path / LOCK).symlink_to(tmp_path / "elsewhere")
    assert not remove_unused(kept)
    assert not (tmp_path / "elsewhere").exists()


@needs_locks
def test_tables_are_kept_from_deletion_while_and_after_they_are_made(tmp_path, open_tables):
    deleted = []

    def make(folder: Path) -> None:
        deleted.append(remove_unused(write_tables(folder)))

    decisions = open_tables(tmp_path / "all" / "tables", make)
    kept = Kept(tmp_path / "all" / "tables", 0, False)
    assert not remove_unused(kept)
    assert deleted == [False]
    del decisions
    gc.collect()
    assert remove_unused(kept)


@needs_locks
def test_tables_that_could_not_be_made_are_released(tmp_path, open_tables):
    def fail(folder: Path) -> None:
        write_tables(folder)
        raise GDPNetError("full")

    with suppress(GDPNetError):
        open_tables(tmp_path / "tables", fail)
    assert remove_unused(Kept(tmp_path / "tables", 0, False))


@needs_locks
def test_tables_that_are_being_deleted_are_made_anew(tmp_path, open_tables):
    """One process locks a folder and deletes it only after another one has begun to open it."""
    kept = write_tables(tmp_path / "tables")
    descriptor = os.open(kept.path, os.O_RDONLY)
    assert try_lock(descriptor)

    def delete() -> None:
        time.sleep(0.5)
        (kept.path / ABOUT).unlink()
        kept.path.rmdir()
        os.close(descriptor)

    thread = threading.Thread(target=delete)
    thread.start()
    decisions = open_tables(kept.path, write_tables)
    thread.join()
    assert (kept.path / ABOUT).exists()
    assert not remove_unused(kept)
    del decisions


@needs_locks
def test_a_folder_that_stays_locked_is_refused(tmp_path, open_tables, monkeypatch):
    kept = write_tables(tmp_path / "tables")
    monkeypatch.setattr("gdpnet.inference.kept_tables._LONGEST_WAIT", 0.1)
    descriptor = os.open(kept.path, os.O_RDONLY)
    try:
        assert try_lock(descriptor)
        with pytest.raises(GDPNetError, match="another process is deleting"):
            open_tables(kept.path, write_tables)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("here", "named"), [("store", "."), ("store/inner", ".."), (".", "store")])
def test_tables_lie_beside_a_store_however_it_is_named(here, named, tmp_path, monkeypatch):
    (tmp_path / "store" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / here)
    assert tables_beside(Path(named)).absolute() == tmp_path.resolve() / "store.tables"


def test_tables_lie_beside_a_link_with_its_name(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "other")
    assert tables_beside(tmp_path / "store") == tmp_path / "store.tables"
