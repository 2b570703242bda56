"""Commands with addresses in an object store: what users type, what they are told, and a killed command."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdpnet.cli import main
from helpers.commands import refuse, succeed, train_words
from helpers.objects import PATIENCE, ObjectServer, running_server

pytestmark = pytest.mark.slow  # every test runs whole commands

SHARDS = ("--shards", "--shard-edges", "20", "--low-memory", "--threshold", "0.5", "--all")


@pytest.fixture(scope="module")
def server(tmp_path_factory, base) -> Iterator[ObjectServer]:
    with running_server(tmp_path_factory.mktemp("server") / "log") as server:
        assert main(["store", str(base / "graph"), "--out", server.address("store")]) == 0
        yield server


@pytest.fixture(scope="module")
def local(base, server, tmp_path_factory) -> Path:
    """Return a folder with a local store and its shards."""
    folder = tmp_path_factory.mktemp("local")
    assert main(["store", str(base / "graph"), "--out", str(folder / "store")]) == 0
    words = ["denoise", str(base / "run"), str(folder / "store"), "--out", str(folder / "whole"), *SHARDS]
    assert main(words) == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_store_is_put_and_cleaned_as_one_in_a_local_folder(base, server, local, capsys):
    assert server.contents("store") == contents(local / "store")
    out = server.address("cleaned")
    said = succeed(capsys, "denoise", base / "run", server.address("store"), "--out", out, *SHARDS)
    assert "never-shown" not in said
    assert server.contents("cleaned") == contents(local / "whole")


def test_a_model_is_trained_and_scored_on_a_store(base, server, tmp_path, capsys):
    graph = server.address("store")
    words = train_words(base, tmp_path / "run", Path("unused"))
    succeed(capsys, *[graph if word == "unused" else word for word in words])
    assert "micro" in succeed(capsys, "evaluate", tmp_path / "run")


def test_a_killed_command_is_continued(base, server, local, tmp_path):
    words = [sys.executable, "-m", "gdpnet", "denoise", str(base / "run"), server.address("store")]
    words += ["--out", server.address("killed"), *SHARDS]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ)
        work, end = server.place("killed") / "work", time.monotonic() + PATIENCE
        while not list((work / "done.jsonl").glob("*")) and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
        process.wait()
    assert work.exists(), (tmp_path / "log").read_text()
    assert main(words[3:]) == 0
    assert server.contents("killed") == contents(local / "whole")


def test_what_is_wrong_is_one_sentence(base, server, tmp_path, capsys):
    run, store = base / "run", server.address("store")
    to = ("--out", tmp_path / "out", *SHARDS)
    missing = server.address("store", bucket="nowhere")
    assert refuse(capsys, "denoise", run, missing, *to).startswith("there is no store at s3://nowhere/store")
    out = server.address("out", bucket="nowhere")
    said = refuse(capsys, "denoise", run, store, "--out", out, *SHARDS, code=1)
    assert said == "cannot write s3://nowhere/out/shards.json: there is no such bucket"
    closed = store.replace(server.query.split("&")[0], "endpoint_override=127.0.0.1:1")
    said = refuse(capsys, "denoise", run, closed, *to, code=1)
    assert said == "cannot read s3://bucket/store/graph.json: its endpoint cannot be reached"
    said = refuse(capsys, "denoise", run, store, "--out", server.address("e.parquet"))
    assert "only shards are written to an object store: give --shards" in said
    said = refuse(capsys, "store", base / "graph", "--out", store)
    assert "s3://bucket/store must be a new or an empty folder, found 'feature_column.npy' in it" in said
    said = refuse(capsys, "train", base / "graph", "--out", server.address("run"))
    assert "only stores and shards may be written to an object store" in said


@pytest.mark.parametrize("address", ["s3://me:hidden@bucket/store", "s3://bucket/store?secret_key=hidden"])
def test_credentials_in_an_address_are_refused_and_not_shown(address, base, tmp_path, capsys):
    for words in (
        ("denoise", base / "run", address, "--shards", "--out", tmp_path / "out"),
        ("store", base / "graph", "--out", address),
    ):
        said = refuse(capsys, *words)
        assert "must hold no credentials" in said
        assert "hidden" not in said


def test_denied_access_is_one_sentence(base, tmp_path, server, capsys):
    denying = ObjectServer(tmp_path / "log", denies=True)
    words = ("denoise", base / "run", denying.address("store"), "--out", tmp_path / "out", *SHARDS)
    assert refuse(capsys, *words, code=1).endswith("access is denied")
    denying.stop()
