"""HTTP/1.1 on a connection: a time limit before a request is there, a bounded number, and errors as problems."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gdpnet.web.server.guard import BEGAN, every_header
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.problems import MEDIA_TYPE, problem_body

_SPARE = 128
"""Connections beyond those of requests that are read, computed or wait: of supervisors, browsers, idle clients."""


@dataclass
class Connections:
    """The connections of one server."""

    seconds: float
    most: int
    open: dict[Connection, None] = field(default_factory=dict)
    """Those that are open, the one that was heard of last at the end."""

    @classmethod
    def of(cls, limits: Limits) -> Connections:
        """Return the connections within the limits of requests."""
        return cls(limits.seconds, 4 * limits.max_requests + _SPARE)

    def protocol(self, *given: Any, **named: Any) -> Connection:
        """Return what speaks on a new connection."""
        return Connection(self, *given, **named)

    def heard_of(self, one: Connection) -> None:
        """Put a connection at the end."""
        self.open.pop(one, None)
        self.open[one] = None

    def make_room(self) -> bool:
        """Close the connection that was silent longest, of those without a request, if there are too many."""
        if len(self.open) < self.most:
            return True
        silent = next((one for one in self.open if one.is_idle), None)
        if silent is not None:
            self.open.pop(silent)
            silent.transport.close()
        return silent is not None


class Connection(H11Protocol):
    """A connection that is closed if no whole request comes in time."""

    def __init__(self, shared: Connections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.shared = shared
        self.app_state = dict(self.app_state)  # own: it tells the guard when the request began
        self.deadline: asyncio.TimerHandle | None = None
        self.began: float | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, if there is room for one more connection."""
        super().connection_made(transport)
        if not self.shared.make_room():
            self._refuse(503, "too many connections are open: try again")
            return
        self.shared.heard_of(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.shared.open.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what was sent."""
        if self.transport.is_closing():
            return
        if self in self.shared.open:
            self.shared.heard_of(self)
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin to answer a request that is there, or wait for it, not for ever."""
        if self.conn.their_state is h11.IDLE:  # it is no rest of a request that was refused before its end
            self.began = self.began or time.monotonic()
        self.app_state[BEGAN] = self.began
        super().handle_events()
        if not self.is_idle:
            self.began = None
            self._stop_waiting()
        elif self.deadline is None and not self.transport.is_closing():
            self._wait()

    def on_response_complete(self) -> None:
        """Begin anew."""
        self.began = None
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(400, "the request must be valid HTTP/1.1, with one Host and a head of at most 64 KiB")

    def _unsupported_upgrade_warning(self) -> None:
        """Answer by HTTP/1.1 without a word: what uvicorn logs advises to install something."""

    def _wait(self) -> None:
        self.deadline = self.loop.call_later(self.shared.seconds, self._too_late)

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _too_late(self) -> None:
        self.deadline = None
        if not self.is_idle or self.transport.is_closing():
            return
        if self.began is None:  # nothing was sent, so nothing is answered
            self.transport.close()
        else:
            self._refuse(408, f"a request must arrive within {self.shared.seconds:g} seconds (--seconds)")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer with a problem, unless an answer has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(problem_body(status, detail)).encode()
            headers = [*every_header(), ("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body)))]
            sent = [(name.lower().encode(), value.encode()) for name, value in headers]
            parts = (
                h11.Response(status_code=status, headers=[*sent, (b"connection", b"close")]),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        if self.cycle is not None:  # the rest of a request that is being read will not come
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
