"""An S3 server on the loopback address, as a process of its own, and what lies in its bucket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdpnet._core.files.objects import ObjectPath
from helpers import s3_server

PATIENCE = 60.0
"""Seconds that something may take to appear, on a busy machine."""

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "for-tests",
    "AWS_SECRET_ACCESS_KEY": "never-shown",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class ObjectServer:
    """A running server with an empty bucket, or one that denies all access."""

    def __init__(self, log: Path, *, denies: bool = False) -> None:
        self.log = log
        words = [sys.executable, str(s3_server.__file__), *(["--denies"] if denies else [])]
        with log.open("w") as file:
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port, log.read_text()
        self.query = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"

    def address(self, name: str, bucket: str = s3_server.BUCKET) -> str:
        """Return the address of a place."""
        return f"s3://{bucket}/{name}?{self.query}"

    def place(self, name: str) -> ObjectPath:
        """Return a place."""
        return ObjectPath.of(self.address(name))

    def contents(self, name: str) -> dict[str, bytes]:
        """Return the objects directly below a place, by name."""
        return {one.name: one.read_bytes() for one in self.place(name).iterdir() if one.is_file()}

    def requests(self, method: str, path: str) -> list[str]:
        """Return the requests so far with a method, of paths that begin so."""
        return [line for line in self.log.read_text().splitlines() if f'"{method} {path}' in line]

    def stop(self) -> None:
        """End the server."""
        self.process.communicate()


@contextmanager
def running_server(log: Path) -> Iterator[ObjectServer]:
    """Yield a server; meanwhile this process, and those that it starts, have credentials for it and no others."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            environment.delenv(name)
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        server = ObjectServer(log)
        yield server
        server.stop()
