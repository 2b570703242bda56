"""Connections: what is no HTTP, what comes slowly or not at all, and how many there may be."""

import asyncio
import gzip
import http.client
import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gdpnet.data.io.store import open_store, write_store
from gdpnet.errors import ConfigError
from helpers.server import PATIENCE, ServerProcess, need_server

need_server()

# these imports need the packages, so they come after the check
from gdpnet.web.server.batches import Batcher  # noqa: E402
from gdpnet.web.server.guard import BEGAN, Access, Guard  # noqa: E402
from gdpnet.web.server.limits import Limits  # noqa: E402
from gdpnet.web.server.metrics import Metrics  # noqa: E402
from gdpnet.web.server.process import read_token  # noqa: E402
from gdpnet.web.server.protocol import Connections  # noqa: E402
from gdpnet.web.server.server import Server  # noqa: E402

HEAD = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = b'{"targets": ["n1"]}'


def raw(server: ServerProcess, data: bytes) -> tuple[int, http.client.HTTPMessage, dict]:
    """Send bytes; return status, headers and body of the one answer, after which the connection is closed."""
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(data)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            content = answer.read()
            assert connection.recv(1) == b""
        except ConnectionResetError:  # it has not read all that was sent, and has closed
            pass
    return answer.status, answer.headers, json.loads(content)


def is_open(connection: socket.socket) -> bool:
    """Return whether the other side has not closed a connection that has nothing to read."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Host: other\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /v1/nodes/\xc3\xa9 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"X: " + b"x" * 100_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_problem_too(server, data):
    status, headers, answer = raw(server, data)
    assert (status, answer["status"], headers.get_content_type()) == (400, 400, "application/problem+json")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert server.results("predict", targets=["n1"])


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://a]b", "//"])
def test_an_origin_that_cannot_be_read_is_another_site(server, origin):
    status, answer, headers = server.ask("POST", "/v1/predict", {"targets": ["n1"]}, {"Origin": origin})
    assert (status, answer["status"], headers["X-Frame-Options"]) == (403, 403, "DENY")


@pytest.mark.slow
def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(server):
    """A proxy that believes the other length would read the rest as the next request."""
    both = b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Type: application/json\r\n\r\n"
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    status, headers, problem = raw(server, HEAD + both + chunk)
    assert (status, headers["Connection"]) == (400, "close")
    assert "not both" in problem["detail"]


@pytest.mark.slow
def test_a_compressed_body_is_refused_by_the_header_that_says_so(server):
    body = gzip.compress(BODY)
    answer = server.refused("/v1/predict", body, **{"Content-Encoding": "gzip"})
    assert (answer["status"], answer["errors"][0]["field"]) == (415, "Content-Encoding")
    status, _, headers = server.ask("POST", "/v1/predict", body, {"Content-Encoding": "gzip"})
    assert (status, headers["Accept-Encoding"]) == (415, "identity")
    assert server.ask("POST", "/v1/predict", BODY, {"Content-Encoding": "identity"})[0] == 200


@pytest.mark.slow
def test_a_request_for_another_protocol_is_answered_and_logs_no_advice(server):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    assert server.ask("GET", "/healthz", None, upgrade)[0] == 200
    assert "pip install" not in server.logged()


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/v1/model%0A", "/healthz%0A", "/metrics%0A", "/%0A", "/v1/explorer/summary%0A"]
)
def test_a_route_with_a_newline_more_is_no_route(server, path):
    assert server.ask("GET", path)[0] == 404


@pytest.mark.slow
def test_nodes_are_found_by_ids_with_slashes_and_newlines(place, tmp_path):
    graph = open_store(place / "store")
    ids = [f"n{number}" for number in range(graph.num_nodes)]
    ids[:4] = ["a/b", "a/b\n", "line\nbreak", "\n"]
    write_store(replace(graph, node_ids=np.array(ids)), tmp_path / "store")
    running = ServerProcess(place / "run", tmp_path / "store", tmp_path / "log")
    for path, name in (("a%2Fb", ids[0]), ("a/b%0A", ids[1]), ("line%0Abreak", ids[2]), ("%0A", ids[3])):
        assert running.ask("GET", f"/v1/nodes/{path}")[1]["node_id"] == name
    assert running.ask("GET", "/v1/nodes/line%0Abreak%0A")[0] == 404
    assert running.stop() == 0


@pytest.mark.slow
def test_a_connection_without_a_whole_request_is_closed(place, tmp_path):
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", "--seconds", 1.5)
    assert raw(running, HEAD)[0] == 408
    with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
        assert connection.recv(1) == b""  # nothing was asked
    with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
        start = time.monotonic()
        with suppress(OSError):  # a byte now and then does not help
            while time.monotonic() < start + PATIENCE:
                connection.sendall(b"G")
                time.sleep(0.2)
        assert time.monotonic() - start < PATIENCE
    whole = HEAD + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
    with socket.create_connection((running.host, running.port), timeout=PATIENCE) as connection:
        for _ in range(3):  # a connection that asks lives longer than one request may
            connection.sendall(whole)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert (answer.status, answer.read() != b"") == (200, True)
            time.sleep(0.8)
    assert running.stop() == 0


@pytest.mark.slow
def test_the_connection_that_is_silent_longest_makes_room_for_another(place, tmp_path):
    running = ServerProcess(place / "run", place / "store", tmp_path / "log", "--max-requests", 1)
    most = Connections.of(Limits(max_requests=1)).most
    with ExitStack() as stack:
        address = (running.host, running.port)
        opened = [stack.enter_context(socket.create_connection(address)) for _ in range(most + 20)]
        first, last = opened[0], opened[-1]
        until = time.monotonic() + PATIENCE
        while is_open(first) and time.monotonic() < until:
            time.sleep(0.05)
        assert not is_open(first)
        assert is_open(last)
        assert running.ask("GET", "/healthz")[0] == 200
    assert running.stop() == 0


def answer_of(app, began: float, limits: Limits) -> list:
    """Return what a guard sends for a request that began at some time."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(b"host", b"localhost")],
        "state": {BEGAN: began},
    }
    asyncio.run(Guard(app, Access("127.0.0.1"), limits, Metrics())(scope, receive, send))
    return sent


def test_what_goes_wrong_before_an_answer_is_a_problem():
    async def app(scope, receive, send):
        raise RuntimeError("secret")

    begin, body = answer_of(app, time.monotonic(), Limits())
    headers = dict(begin["headers"])
    assert (begin["status"], headers[b"content-type"]) == (500, b"application/problem+json")
    assert headers[b"x-frame-options"] == b"DENY"
    assert b"secret" not in body["body"]


def test_reading_and_computing_have_one_clock():
    """A request that has used its time up while it was read is not computed for as long again."""
    batcher = Batcher(Metrics(), 1, 60.0, 1)

    async def app(scope, receive, send):
        await batcher.ask(lambda place: [], [None], scope["gdpnet.until"])

    start = time.monotonic()
    begin = answer_of(app, start - 60, Limits(seconds=60.0))[0]
    assert begin["status"] == 503
    assert time.monotonic() - start < 30


def test_a_failure_to_judge_is_not_kept():
    tries = []

    def judge() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError
        return "{}"

    async def judge_twice() -> str:
        server = Server.__new__(Server)
        server.limits, server._judged = Limits(), None
        server.served = SimpleNamespace(graph=SimpleNamespace(num_edges=1), judge=judge)
        with pytest.raises(MemoryError):
            await server.judge()
        await server.judge()
        return await server.judge()

    assert asyncio.run(judge_twice()) == "{}"
    assert len(tries) == 2


def test_a_reload_that_fails_in_any_way_leaves_the_old_ones(monkeypatch, capsys):
    from gdpnet.errors import GDPNetError
    from gdpnet.web.server.served import Served

    def fail(place):
        raise RuntimeError("out of luck")

    async def reload() -> None:
        server = Server.__new__(Server)
        server.metrics, server.reloading, server.place, server.served = Metrics(), asyncio.Lock(), None, "old"
        with pytest.raises(GDPNetError, match="RuntimeError"):
            await server.reload()
        assert server.served == "old"

    monkeypatch.setattr(Served, "load", fail)
    asyncio.run(reload())


def test_a_token_has_no_space_around_it_or_in_it(monkeypatch):
    monkeypatch.setenv("GDPNET_TOKEN", "0123456789abcdef\n")
    assert read_token(None) == "0123456789abcdef"
    for wrong in (
        "0123456789 abcdef",
        "0123456789\tabcdef",
        "0123456789abcdef\n",
        "0123456789abcdéf",
        "short",
    ):
        with pytest.raises(ConfigError, match="at least 16 ASCII characters without spaces"):
            Access("127.0.0.1", token=wrong)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 0.0, -1.0])
def test_the_time_of_a_request_is_finite(seconds):
    with pytest.raises(ConfigError, match="--seconds must be above 0 and finite"):
        Limits(seconds=seconds)


@pytest.mark.slow
def test_a_request_to_load_anew_while_the_model_is_first_loaded_does_not_end_the_server():
    program = """if True:
        import os, signal, sys
        from gdpnet.web.server import process

        class Loading:
            def load(place):
                os.kill(os.getpid(), signal.SIGHUP)
                sys.exit(7)

        process.Served = Loading
        process.serve(None, None, 0, None, print)
    """
    ended = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False)
    assert ended.returncode == 7
