"""An S3 server on the loopback address, as a process of its own that tests may end, and its buckets."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gdpnet._core.files.objects import ObjectPath

PATIENCE = 60.0
"""Seconds that the server may take to start, on a busy machine."""

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "for-tests",
    "AWS_SECRET_ACCESS_KEY": "never-shown",
    "AWS_EC2_METADATA_DISABLED": "true",
}

_SCRIPT = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def need_objects() -> None:
    """Skip the tests of a module where the S3 server is not installed."""
    for name in ("moto", "flask", "flask_cors"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'gdpnet[dev]'")


class ObjectServer:
    """A running server with an empty bucket, or one that denies all access."""

    def __init__(self, log: Path, *, denies: bool = False) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=os.environ | ({"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if denies else {}),
            )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port, log.read_text()
        self.url = f"http://127.0.0.1:{port}"
        self.query = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        if not denies:
            self._make_bucket()

    def _make_bucket(self) -> None:
        """Make the bucket as soon as the server answers."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(f"{self.url}/bucket", method="PUT")).close()
                return
            except urllib.error.URLError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def address(self, name: str, bucket: str = "bucket") -> str:
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


def set_credentials(environment: pytest.MonkeyPatch) -> None:
    """Give this process, and those that it starts, credentials that the server accepts."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        environment.delenv(name)
    for name, value in CREDENTIALS.items():
        environment.setenv(name, value)
