"""Hand hostile requests to the server's application in this process, as uvicorn would."""

from __future__ import annotations

import asyncio
import functools
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import torch

from campaigns.cases import Case
from campaigns.jobs import WORDS_OF_GRAPH
from campaigns.mutations import damage, damage_json
from campaigns.verdict import sentence_faults
from gdpnet.data.io.files import read_graph
from gdpnet.data.io.store import write_store
from gdpnet.errors import GDPNetError
from gdpnet.web.server.app import Server, make_app
from gdpnet.web.server.guard import Access, Guard
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.served import Place, Served

_GOOD = {"targets": ["000", "007"]}
_LIMITS = Limits(max_bytes=1 << 20, max_nodes=50, max_edges=100)
_NAMES = ("predict", "embed", "denoise", "explain")


class Reply(NamedTuple):
    """What the server answered."""

    status: int
    kind: str
    body: bytes


def draw_request(draw: random.Random) -> Case:
    """Return a damaged question about new and stored nodes."""
    node = {"node_id": "new", "features": [draw.randrange(2) for _ in range(WORDS_OF_GRAPH)]}
    question: dict[str, Any] = {
        "request_uid": "7",
        "nodes": [node, node | {"node_id": "other"}],
        "edges": [
            {"src_node_id": "new", "dest_node_id": "003"},
            {"src_node_id": "other", "dest_node_id": "new"},
        ],
        "targets": ["new", {"node_id": "004"}],
    }
    if draw.random() < 0.2:
        question["graph"] = {"nodes": question.pop("nodes"), "edges": question.pop("edges")}
    route = draw.choice(_NAMES)
    if route == "denoise" and draw.random() < 0.5:
        question["threshold"] = 0.5
    body = damage_json(json.dumps(question).encode(), draw)
    values: dict[str, Any] = {"path": f"/v1/{route}", "method": "POST", "headers": {}}
    how = draw.random()
    if how < 0.1:
        place = damage(f"/v1/nodes/{draw.choice(('000', 'nobody'))}".encode(), draw)
        values |= {"method": draw.choice(("GET", "POST", "PUT")), "path": place.decode("latin-1")}
    elif how < 0.25:
        name = draw.choice(("host", "content-length", "content-type", "origin", "authorization"))
        usual = {"host": "localhost:80", "content-length": str(len(body)), "content-type": "application/json"}
        values["headers"] = {name: damage(usual.get(name, "http://x").encode(), draw).decode("latin-1")}
    return Case("request", "request", files={"body": body}, values=values)


@functools.cache
def _served(base: Path) -> tuple[Place, Served]:
    place = Place(base / "run", base / "served")
    return place, Served.load(place)


def load_served(base: Path) -> None:
    """Write the store of the run's graph and load both, once for all forks."""
    write_store(read_graph(base / "graph"), base / "served")
    _served(base)


def feed_request(case: Case, base: Path, folder: Path) -> list[str]:
    """Send a hostile request between two good ones, whose answers must be equal."""
    torch.set_num_threads(1)
    body = (folder / "in" / "body").read_bytes()
    before, reply, after = asyncio.run(_ask(base, case.values, body))
    problems = [] if before.status == 200 and before == after else ["the answer to another request changed"]
    problems += _wrong_reply(reply)
    if reply.status >= 400 and not problems:
        raise GDPNetError(json.loads(reply.body)["detail"])
    return problems


def _wrong_reply(reply: Reply) -> list[str]:
    if reply.status >= 500 or reply.status < 200:
        return [f"status {reply.status}: {reply.body[:200]!r}"]
    if reply.status >= 400:
        about = json.loads(reply.body)
        texts = [about["detail"], *(one[key] for one in about.get("errors", []) for key in ("field", "rule"))]
        kind = [] if reply.kind == "application/problem+json" else [f"an error of type {reply.kind}"]
        return kind + [fault for text in texts for fault in sentence_faults(text)]
    if not reply.kind.startswith("application/json"):
        return []
    try:
        json.loads(reply.body, parse_constant=lambda name: 1 / 0)
    except ZeroDivisionError:
        return ["an answer holds a number that is not finite"]
    return []


async def _ask(base: Path, values: dict[str, Any], body: bytes) -> list[Reply]:
    """Start the application, send three requests and stop it."""
    server = Server(*_served(base), _LIMITS)
    app = Guard(make_app(server), Access("127.0.0.1"), _LIMITS, server.metrics)
    good = json.dumps(_GOOD).encode()
    server.batcher.start()
    server.is_ready = True
    try:
        asked = (
            ("POST", "/v1/predict", {}, good),
            (*(values[key] for key in ("method", "path", "headers")), body),
        )
        return [await _send(app, *one) for one in (*asked, asked[0])]
    finally:
        await server.batcher.stop()


async def _send(app: Guard, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
    """Send one request, its body in two pieces."""
    usual = {"host": "localhost", "content-type": "application/json", "content-length": str(len(body))}
    given = [(name.encode(), value.encode("latin-1")) for name, value in (usual | headers).items()]
    raw, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": raw, "raw_path": raw.encode(), "query_string": query.encode(), "root_path": "", "headers": given,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    half = len(body) // 2
    pieces = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:], "more_body": False},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return pieces.pop(0) if pieces else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    kinds = [value.decode() for name, value in sent[0]["headers"] if name.lower() == b"content-type"]
    return Reply(sent[0]["status"], "".join(kinds), b"".join(one.get("body", b"") for one in sent[1:]))
