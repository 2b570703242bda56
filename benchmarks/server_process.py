"""A server as a process of its own, for the benchmark of the server."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds that an answer, or the end of the server, may take."""


class Server:
    """A running server."""

    def __init__(self, run: Path, store: Path, log: Path, seconds: float) -> None:
        command = [
            sys.executable,
            "-m",
            "gdpnet",
            "serve",
            str(run),
            "--graph",
            str(store),
            "--port",
            "0",
            "--quiet",
            "--seconds",
            str(seconds),
        ]
        with log.open("w") as file:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        if found is None:
            raise RuntimeError(log.read_text())
        self.port = int(found[1])

    def connect(self, patience: float = PATIENCE) -> http.client.HTTPConnection:
        """Return a connection that is kept alive."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)

    def memory(self) -> int:
        """Return the resident bytes of the server."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """Return the processor time of the server, which does not depend on what else the machine does."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """End the server; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(run: Path, store: Path, base: Path, seconds: float) -> Iterator[Server]:
    """Run a server, and end it whatever happens."""
    server = Server(run, store, base / f"{store.name}.log", seconds)
    try:
        yield server
    finally:
        if server.process.poll() is None and server.stop() != 0:
            raise RuntimeError("the server did not end in order")


def ask(connection: http.client.HTTPConnection, question: str, body: Any) -> tuple[int, Any]:
    """Send a question; return status and answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", f"/v1/{question}", data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
