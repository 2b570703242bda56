"""Places in object stores: addresses, whole puts, lists, ranges, lines, and what is said when something is wrong."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest

from gdpnet._core.files import (
    address_of,
    append_line,
    atomic_path,
    check_new,
    found_in,
    locked_folder,
    new_folder,
    place_of,
    read_objects,
    remove_folder,
    size_of,
    write_json,
)
from gdpnet._core.files import fetched as fetching
from gdpnet._core.files.fetched import Fetched, LocalFiles
from gdpnet._core.files.objects import NoObjectError, ObjectError, ObjectPath, is_address
from gdpnet._core.json_file import read_json
from gdpnet.errors import ConfigError, GraphError, WorkError
from helpers import s3_server
from helpers.objects import ObjectServer, running_server


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory) -> Iterator[ObjectServer]:
    with running_server(tmp_path_factory.mktemp("server") / "log") as server:
        yield server


def test_an_address_is_taken_apart_and_its_options_are_not_shown():
    place = ObjectPath.of("s3://bucket/a/b.npy?region=eu-west-1")
    assert (place.name, place.suffix, str(place)) == ("b.npy", ".npy", "s3://bucket/a/b.npy")
    assert str(place.parent / "c/d") == "s3://bucket/a/c/d"
    assert address_of(place.parent) == "s3://bucket/a?region=eu-west-1"
    assert place_of(place.address) == place
    assert place_of("runs/mine") == Path("runs/mine")
    assert is_address("gs://bucket/x")
    assert not is_address("s3")


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:hidden@bucket/x",
        "s3://hidden@bucket/x",
        "s3://anonymous:hidden@bucket/x",
        "s3://anonymous@bucket/hidden",
        "s3://bucket/x?session_token=hidden",
        "abfs://container:hidden@account.dfs.core.windows.net/x",
        "abfs://container@account.dfs.core.windows.net/x?client_secret=hidden",
    ],
)
def test_credentials_in_an_address_are_refused_without_showing_them(address):
    with pytest.raises(ConfigError, match="must hold no credentials") as said:
        place_of(address)
    assert "hidden" not in str(said.value)


def test_the_container_of_azure_and_anonymous_access_to_google_are_no_credentials():
    for address in ("abfss://container@account.dfs.core.windows.net/x", "gs://anonymous@bucket/x"):
        assert place_of(address).name == "x"


@pytest.mark.parametrize("address", ["s3://", "s3:///x", "s3://bucket/a/../b", "s3://bucket/a#b"])
def test_other_addresses_are_refused(address):
    with pytest.raises(ConfigError, match="an address must be s3://bucket/name"):
        place_of(address)


def test_a_path_that_was_an_address_is_refused():
    with pytest.raises(ConfigError, match="must be a text, not a Path"):
        place_of(Path("s3://bucket/x"))


def test_an_option_that_there_is_none_of_is_one_sentence():
    with pytest.raises(ObjectError, match=r"cannot reach s3://bucket: Unexpected query parameter .*'colour'"):
        place_of("s3://bucket/x?colour=red").exists()


def test_an_object_is_put_whole_or_not_at_all(server):
    place = server.place("whole/x.json")
    with suppress(KeyError), atomic_path(place) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert not place.exists()
    assert size_of(place) is None
    write_json(place, {"a": 1})
    assert read_json(place) == {"a": 1}
    assert size_of(place) == len(place.read_bytes())
    assert not temporary.exists()


def test_a_put_that_is_cut_leaves_the_object_as_it_was(server):
    with pytest.raises(ObjectError, match=r"^cannot write s3://bucket/broken/x"):
        server.place("broken/x").put_bytes(b"content")
    assert not server.place("broken/x").exists()


def test_an_interrupted_put_leaves_a_whole_object_or_none(server):
    place = server.place("slow/x")
    timer = threading.Timer(s3_server.SLOW / 2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        place.put_bytes(b"content")
    assert not place.exists() or place.read_bytes() == b"content"


def test_a_large_object_is_put_in_parts_and_read_by_ranges(server, tmp_path):
    content = np.random.default_rng(0).bytes(12 << 20)
    (tmp_path / "large").write_bytes(content)
    place = server.place("large")
    place.put(tmp_path / "large")
    assert place.read_bytes() == content
    found = Fetched(place, LocalFiles())
    assert found.read(5_000_000, 10) == content[5_000_000:5_000_010]
    values = found.array(np.dtype(np.uint8), (len(content),), 0)
    here = np.flatnonzero(values) // fetching.CHUNK
    assert set(here.tolist()) == {5_000_000 // fetching.CHUNK}
    found.bring_all()
    assert values.tobytes() == content


def test_close_ranges_are_one_request_and_long_ones_are_several(server, monkeypatch):
    monkeypatch.setattr(fetching, "CHUNK", 10)
    server.place("ranges").put_bytes(bytes(range(250)) * 8)
    found = Fetched(server.place("ranges"), LocalFiles())
    found.bring(np.array([3, 31, 400, 405]), np.array([5, 32, 405, 406]))
    found.bring(np.array([4]), np.array([33]))
    found.bring(np.array([1000, 7]), np.array([1999, 7]))
    asked = {line.split('" ')[1].split()[0] for line in server.requests("GET", "/bucket/ranges")}
    assert asked == {"bytes=0-39", "bytes=400-409", "bytes=1000-1639", "bytes=1640-1999"}


def test_places_are_listed_and_deleted(server):
    place = server.place("listed")
    for name in ("a", "b", "c/d", "c/e", "f", "g"):
        (place / name).put_bytes(b"1")
    assert found_in(place) == ["a", "b", "c", "f", "g"]
    assert [one.name for one in place.glob("[a-b]")] == ["a", "b"]
    assert (place / "c").is_dir()
    remove_folder(place / "c")
    assert found_in(place / "c") == []
    (place / "a").unlink()
    (place / "a").unlink(missing_ok=True)
    with pytest.raises(NoObjectError, match="there is no such object"):
        (place / "a").unlink()
    assert found_in(server.place("nothing")) == []
    remove_folder(server.place("nothing"))


def test_lines_are_objects_in_the_order_of_time(server):
    place = server.place("lines.jsonl")
    assert read_objects(place) == []
    for number in range(5):
        append_line(place, f'{{"number": {number}}}\n{{"number": {number}}}')
    assert [one["number"] for _, one in read_objects(place)] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_new_folder_is_put_with_its_last_file_at_the_end(server):
    place = server.place("folder")
    with suppress(KeyError), new_folder(place, "a") as temporary:
        (temporary / "a").write_text("1")
        raise KeyError
    assert found_in(place) == []
    with new_folder(place, "a") as temporary:
        for name in "abc":
            (temporary / name).write_text(name)
    puts = [line.split("?")[0][-1] for line in server.requests("POST", "/bucket/folder") if "uploads" in line]
    assert puts == ["b", "c", "a"]
    with pytest.raises(GraphError, match="must be a new or an empty folder, found 'a' in it"):
        check_new(place)


def test_there_are_no_locks(server):
    with locked_folder(server.place("held")), locked_folder(server.place("held")):
        assert found_in(server.place("held")) == []


def test_a_full_disk_is_one_sentence(server, monkeypatch):
    server.place("content").put_bytes(b"1234")
    found = Fetched(server.place("content"), LocalFiles())

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(WorkError, match=r"No space left on device; name a folder with more room in TMPDIR"):
        found.bring_all()


def test_endpoint_and_region_may_come_from_the_environment(server, monkeypatch):
    options = dict(parse_qsl(server.query))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{options['endpoint_override']}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    place = place_of("s3://bucket/environment")
    place.put_bytes(b"1")
    assert server.place("environment").read_bytes() == b"1"
