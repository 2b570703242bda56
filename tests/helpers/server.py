"""A server as a process of its own, on the loopback address, and requests to it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120.0
"""Seconds that a server may take to start or to end, on a busy machine."""


def need_server() -> None:
    """Skip the tests of a module where the packages of the server are not installed."""
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'gdpnet[serve]'")


class ServerProcess:
    """A running ``gdpnet serve``."""

    def __init__(self, run: Path, store: Path, log: Path, *words: object, **environment: str) -> None:
        self.log = log.open("w+")
        command = [sys.executable, "-m", "gdpnet", "serve", str(run), "--graph", str(store), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert "http://" in said, self.logged()
        self.host, _, port = said.split("http://")[1].strip().rpartition(":")
        self.port = int(port)

    @property
    def url(self) -> str:
        """Return the address."""
        return f"http://{self.host}:{self.port}"

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Send one request; return status, body (read as JSON where it is) and headers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if data is not None else {}
        try:
            connection.request(method, path, data, kind | (headers or {}))
            answer = connection.getresponse()
            content = answer.read()
            is_json = "json" in (answer.headers.get_content_type())
            return answer.status, json.loads(content) if is_json else content.decode(), answer.headers
        finally:
            connection.close()

    def results(self, question: str, **body: Any) -> list[dict[str, Any]]:
        """Ask a question that must be answered; return the answers."""
        status, answer, _ = self.ask("POST", f"/v1/{question}", body)
        assert status == 200, answer
        return answer["results"]

    def refused(self, path: str, body: Any, **headers: str) -> dict[str, Any]:
        """Send a request that must be refused; return the body of the error."""
        status, answer, sent = self.ask("POST", path, body, headers)
        assert sent.get_content_type() == "application/problem+json", answer
        assert answer["status"] == status
        return answer

    def logged(self) -> str:
        """Return what the server wrote to standard error."""
        self.log.flush()
        return Path(self.log.name).read_text()

    def wait_for(self, event: str) -> str:
        """Wait until the log has an event."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if f'"event": "{event}"' in self.logged():
                return self.logged()
            time.sleep(0.05)
        raise AssertionError(f"no {event} in {self.logged()}")

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
        return code
