"""Downloads over verified HTTPS, from a server on this machine; another file than the published one is refused."""

import hashlib
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gdpnet.data.datasets import citation, download, known
from gdpnet.data.datasets.citation import load_dataset
from gdpnet.data.datasets.download import fetch
from gdpnet.errors import DatasetError

CONTENT = b"the published file"
REQUEST = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")


class Answers(BaseHTTPRequestHandler):
    """What the server says to each path."""

    slow_bytes = 0
    """Bytes that it has sent one at a time."""

    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        if name == "away":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/plain")
            self.end_headers()
            return
        if name == "moved":
            self.send_response(302)
            self.send_header("Location", "/good")
            self.end_headers()
            return
        if name in ("circle", "file"):
            self.send_response(302)
            self.send_header("Location", "/circle" if name == "circle" else "file:///etc/passwd")
            self.end_headers()
            return
        if name == "missing":
            self.send_error(404)
            return
        if name == "silent":
            time.sleep(1)
        content = CONTENT * 100 if name in ("large", "slow") else CONTENT
        self.send_response(200)
        if name not in ("endless", "cut"):
            self.send_header("Content-Length", str(len(content) + (5 if name == "short" else 0)))
        self.end_headers()
        if name == "cut":
            self.wfile.write(content[:5])
            return
        for _ in range(100 if name == "slow" else 0):
            time.sleep(0.05)
            self.wfile.write(b"x")
            Answers.slow_bytes += 1
        for _ in range(1000 if name == "endless" else 1):
            self.wfile.write(content)

    def log_message(self, *words):
        """Say nothing."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, pem = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        *REQUEST,
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        key,
        "-out",
        pem,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return key, pem


@pytest.fixture(scope="module")
def server(certificate) -> Iterator[str]:
    key, pem = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    found.socket = context.wrap_socket(found.socket, server_side=True)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{found.server_port}"
    found.shutdown()
    found.server_close()
    thread.join()


@pytest.fixture
def trusted(certificate, monkeypatch) -> None:
    """Let the certificate of the server count as one of the machine's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))


def check(path: Path) -> None:
    if hashlib.sha256(path.read_bytes()).digest() != hashlib.sha256(CONTENT).digest():
        raise DatasetError("another file came")


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("name", ["good", "moved"])
def test_a_file_is_downloaded_checked_and_moved_into_place(name, server, tmp_path):
    fetch(f"{server}/{name}", tmp_path / "new" / "file", check)
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("large", "must have at most 500 bytes, found 1,800"),
        ("endless", "must have at most 500 bytes, found more"),
        ("short", r"was cut short: 18 of 23 bytes came|IncompleteRead"),
        ("cut", "another file came"),
        ("away", "which is not HTTPS: it was not followed"),
        ("file", "file:///etc/passwd. is not allowed"),
        ("circle", "infinite loop"),
        ("missing", "answered 404"),
    ],
)
def test_an_answer_that_is_too_large_cut_short_or_leads_away_is_refused(name, sentence, server, tmp_path):
    with pytest.raises(DatasetError, match=sentence) as found:
        fetch(f"{server}/{name}", tmp_path / "file", check, most=500)
    assert "\n" not in str(found.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("trusted")
def test_another_file_than_the_published_one_never_gets_its_name(server, tmp_path):
    def refuse(path: Path) -> None:
        raise DatasetError(f"{path.read_bytes().decode()} is not it")

    with pytest.raises(DatasetError, match="the published file is not it"):
        fetch(f"{server}/good", tmp_path / "file", refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_that_nobody_vouches_for_is_refused(server, tmp_path):
    with pytest.raises(DatasetError, match="certificate verify failed"):
        fetch(f"{server}/good", tmp_path / "file", check)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_host_is_refused(server, tmp_path):
    with pytest.raises(DatasetError, match="certificate verify failed: Hostname mismatch"):
        fetch(f"{server.replace('127.0.0.1', 'localhost')}/good", tmp_path / "file", check)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("limit", "name", "sentence"),
    [("_SILENCE", "silent", "timed out"), ("_LONGEST", "endless", "was not downloaded within 0 seconds")],
)
def test_a_server_that_is_silent_or_never_ends_is_given_up(
    limit, name, sentence, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(download, limit, 0.2 if limit == "_SILENCE" else 0.0)
    with pytest.raises(DatasetError, match=sentence):
        fetch(f"{server}/{name}", tmp_path / "file", check)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("trusted")
def test_a_server_that_sends_byte_by_byte_is_given_up_before_a_piece_is_full(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "_LONGEST", 0.3)
    with pytest.raises(DatasetError, match="was not downloaded within 0 seconds"):
        fetch(f"{server}/slow", tmp_path / "file", check)
    assert 0 < Answers.slow_bytes < 100
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("start", ["http://127.0.0.1:9", "file:///etc", "ftp://127.0.0.1:9"])
def test_no_other_protocol_is_spoken(start, tmp_path):
    with pytest.raises(DatasetError, match="unknown url type"):
        fetch(f"{start}/passwd", tmp_path / "file", check)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("name", sorted(known.DATASETS))
def test_a_dataset_whose_files_are_others_leaves_nothing_behind(name, server, tmp_path, monkeypatch):
    monkeypatch.setattr(known, "SOURCES", dict.fromkeys(known.SOURCES, f"{server}/data"))
    with pytest.raises(
        DatasetError, match=r"what came is not the published file: its (sha256|content) differs"
    ):
        load_dataset(name, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("trusted")
def test_a_download_that_fails_in_the_middle_goes_on_with_the_files_that_came(server, tmp_path, monkeypatch):
    monkeypatch.setattr(known, "SOURCES", dict.fromkeys(known.SOURCES, server))
    came = []
    plain = citation.fetch

    def first_three(url, path, check):
        came.append(path.name)
        if len(came) > 3:
            raise DatasetError("the network is gone")
        plain(f"{server}/good", path, lambda temporary: None)

    monkeypatch.setattr(citation, "fetch", first_three)
    for _ in range(2):
        with pytest.raises(DatasetError, match="the network is gone"):
            load_dataset("cora", tmp_path)
    raw = known.DATASETS["cora"].raw_folder(tmp_path)
    assert sorted(path.name for path in raw.iterdir()) == sorted(came[:3])
    assert came[3] == came[4]  # what is there is not downloaded again


def test_every_file_of_every_dataset_has_a_checksum():
    for dataset in known.DATASETS.values():
        assert len(dataset.raw_files) == len(dataset.sha256) > 0
        assert all(len(one) == 64 for one in dataset.sha256.values())
        assert dataset.url.startswith("https://")
    assert all(len(dataset.sha256) == 64 for dataset in known.ATTACKED.values())
