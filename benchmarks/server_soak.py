"""Many clients at a server for some minutes, some of their requests hostile: statuses, and the server's memory."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from server_process import PATIENCE, Server, ask
from server_questions import QUESTIONS

CLIENTS = 32
HOSTILE = 0.01

BAD: list[bytes] = [
    b"", b"{", b"[" * 20_000, b"\xff" * 100, b'{"targets": [NaN]}', b'{"targets": ["nobody"]}', b'{"targets": []}',
    b'{"targets": [1e400]}', b'{"targets": ["0"], "nodes": [{"node_id": "0", "features": []}]}',
    b'{"targets": ["x"], "nodes": [{"node_id": "x", "features": [1e999]}]}',
    b'{"targets": ["' + b"9" * 100_000 + b'"]}',
    json.dumps({"targets": ["0"] * 5_000}).encode(),
    json.dumps({"targets": ["0"], "edges": [{"src_node_id": "0", "dest_node_id": "1"}] * 20_000}).encode(),
]  # fmt: skip
RAW: list[bytes] = [
    b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    b"\x00\x01\x02\x03\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /v1/nodes/%00%0d%0a HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


def soak(server: Server, asked: list[Any], minutes: float, seed: int) -> dict[str, Any]:
    """Let many clients ask for some minutes, one request in a hundred hostile; return counts and memory."""
    statuses, lock, until = Counter[int](), threading.Lock(), time.monotonic() + 60 * minutes
    hostile = Counter[str]()

    def client(number: int) -> None:
        rng, connection = np.random.default_rng([seed, number]), server.connect()
        while time.monotonic() < until:
            if rng.random() < HOSTILE:
                if rng.random() < 0.5:
                    _send_raw(server.port, RAW[rng.integers(len(RAW))])
                    with lock:
                        hostile["raw"] += 1
                    continue
                status = ask(connection, QUESTIONS[rng.integers(4)], BAD[rng.integers(len(BAD))])[0]
                with lock:
                    hostile[str(status)] += 1
                continue
            status = ask(connection, *asked[rng.integers(len(asked))])[0]
            with lock:
                statuses[status] += 1

    threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(CLIENTS)]
    for one in threads:
        one.start()
    memory = []
    while any(one.is_alive() for one in threads) and time.monotonic() < until + PATIENCE:
        time.sleep(2.0)
        memory.append(server.memory() / 2**20)
    return {
        "minutes": minutes,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "hostile": dict(hostile),
        "clients_left": sum(one.is_alive() for one in threads),
    } | memory_trend(memory)


def memory_trend(memory: list[float]) -> dict[str, Any]:
    """Return how much the memory grows over a run, after a fifth in which the server warms up.

    The memory of a server goes up and down with the requests in flight. So the medians of thirds of the run are
    compared. Memory that is lost grows from each third to the next; memory that settles stops growing, which
    ``memory_growth_late``, from the second third to the last, tells apart.
    """
    settled = memory[len(memory) // 5 :]
    bounds = [len(settled) * third // 3 for third in range(4)]
    parts = [settled[begin:end] or settled for begin, end in pairwise(bounds)]
    first, second, last = (float(np.median(one)) for one in parts)
    return {
        "memory_mib": [round(one, 1) for one in (first, second, last)],
        "memory_range_mib": [round(min(settled), 1), round(max(settled), 1)],
        "memory_growth": round(last / first - 1, 4),
        "memory_growth_late": round(last / second - 1, 4),
    }


def _send_raw(port: int, data: bytes) -> None:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2.0) as raw:
        raw.sendall(data)
        raw.settimeout(0.5)
        raw.recv(4096)
