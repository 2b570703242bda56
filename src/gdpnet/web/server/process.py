"""Run the server as a process: bind, answer signals, drain and end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
import uvicorn

from gdpnet.errors import ConfigError, GDPNetError
from gdpnet.web.server.app import make_app
from gdpnet.web.server.guard import Access, Guard
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.log import set_up, tell
from gdpnet.web.server.protocol import Connections
from gdpnet.web.server.served import Place, Served
from gdpnet.web.server.server import Server

TOKEN = "GDPNET_TOKEN"
"""The variable of the environment that may hold the token."""


def read_token(file: Path | None) -> str | None:
    """Return the token from a file or from the environment; None if there is none."""
    if file is None:
        return os.environ.get(TOKEN, "").strip() or None
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--token-file must be a readable text file of ASCII characters, found {file}"
        ) from error


class _Uvicorn(uvicorn.Server):
    """Uvicorn with our own answers to signals: it drains and ends without raising them again."""

    def __init__(self, config: uvicorn.Config, server: Server, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.own, self.ready = server, ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGTERM and Ctrl-C drain and end the server, and SIGHUP load model and graph anew."""
        loop, reloads = asyncio.get_running_loop(), set[asyncio.Task[None]]()

        def end() -> None:
            tell("draining")
            self.own.is_ready, self.should_exit = False, True

        def again() -> None:
            task = loop.create_task(self._reload())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        answers = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: again}
        for number, do in answers.items():
            loop.add_signal_handler(number, do)
        try:
            yield
        finally:
            for number in answers:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept requests, then say so."""
        await super().startup(sockets)
        self.ready()

    async def _reload(self) -> None:
        with suppress(GDPNetError, OSError):  # the log says why
            await self.own.reload()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; refuse one that is taken or not of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only if the protocol is named; otherwise an answer in two parts waits some 40 ms
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise ConfigError(
            f"--host and --port must be a free address of this machine, found {host}:{port}"
        ) from error
    return found


def serve(
    place: Place,
    access: Access,
    port: int,
    limits: Limits,
    say: Callable[[str], None],
    *,
    quiet: bool = False,
) -> None:
    """Load a model and a graph, and answer requests until a signal comes."""
    set_up(quiet=quiet)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to load anew
    torch.set_num_threads(1)  # sums must not depend on the number of cores
    served = Served.load(place)
    bound = listen(access.host, port)
    host = f"[{access.host}]" if ":" in access.host else access.host
    url = f"http://{host}:{bound.getsockname()[1]}"
    asyncio.run(_serve(place, served, access, limits, bound, lambda: say(url)))


async def _serve(
    place: Place,
    served: Served,
    access: Access,
    limits: Limits,
    bound: socket.socket,
    ready: Callable[[], None],
) -> None:
    server = Server(place, served, limits)
    app = Guard(make_app(server), access, limits, server.metrics)
    config = uvicorn.Config(
        app,
        http=Connections.of(limits).protocol,  # type: ignore[arg-type]  # it is called as a class is
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    await _Uvicorn(config, server, ready).serve([bound])
    tell("stopped")
