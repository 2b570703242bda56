"""What every request passes first: host, token, origin, size; what every answer gets: headers, log, metrics."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gdpnet.errors import ConfigError
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.log import tell, tell_mistake
from gdpnet.web.server.metrics import Metrics
from gdpnet.web.server.problems import NO_ROUTE, Broken, ProblemError, mistake, too_many

OPEN = ("/healthz", "/readyz")
"""Routes that need no token."""

_LOCAL = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'"

BEGAN, UNTIL = "gdpnet.began", "gdpnet.until"
"""When a request began, in the state of its scope, and until when it must be answered, in its scope."""

_LEAST_TOKEN = 16
_TOKEN = re.compile(rf"[!-~]{{{_LEAST_TOKEN},}}")  # no header can hold others
_NAME = re.compile(r"[a-z0-9._:-]+")

_DRAINED = 8
"""How many times the largest body is read and thrown away, so that a client that sends first reads the answer."""


def every_header() -> list[tuple[str, str]]:
    """Return the headers of every answer, which one with a policy of its own replaces."""
    return [*_HEADERS.items(), ("Content-Security-Policy", _POLICY)]


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Access:
    """Who may ask: under which host names, and with which token."""

    host: str
    allowed_hosts: tuple[str, ...] = ()
    token: str | None = None

    def __post_init__(self) -> None:
        """Refuse an open address without a token, and a token that can be guessed."""
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} can be reached from other machines and needs a token: set --token-file or "
                "GDPNET_TOKEN, or leave --host out"
            )
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            rule = f"at least {_LEAST_TOKEN} ASCII characters without spaces"
            raise ConfigError(f"the token must have {rule}, found fewer or others")

    def check(self, scope: Scope) -> None:
        """Refuse a request for another host, without the token, or from a page of another site."""
        headers = Headers(scope=scope)
        self._check_host(headers.get("host", ""))
        if scope["path"] in OPEN:
            return
        if self.token is not None and not any(
            hmac.compare_digest(one, self.token.encode()) for one in _tokens(headers.get("authorization", ""))
        ):
            kind = "Bearer" if scope["path"].startswith("/v1") else 'Basic realm="gdpnet", Bearer'
            raise ProblemError(
                401, "a request must have the token of this server", headers={"WWW-Authenticate": kind}
            )
        origin = headers.get("origin")
        if origin is not None and _site(origin) != headers.get("host"):
            raise ProblemError(403, "a page of another site may not ask this server")

    def _check_host(self, given: str) -> None:
        name = _host_name(given)
        if name not in {*_LOCAL, self.host.lower(), *(one.lower() for one in self.allowed_hosts)}:
            if not _NAME.fullmatch(name):
                raise ProblemError(
                    421, "the Host header must be the name of a host that this server answers as"
                )
            raise ProblemError(
                421, f"this server does not answer as '{name}': start it with --allowed-host {name}"
            )


def _host_name(given: str) -> str:
    """Return the name of a Host header, without its port."""
    try:
        return (urlsplit(f"//{given}").hostname or "").lower()
    except ValueError:
        return ""


def _site(origin: str) -> str | None:
    """Return the host and port of an Origin header; None if it cannot be read."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _tokens(authorization: str) -> Iterable[bytes]:
    """Return the token of a header, as a bearer's or as the password that a browser asks for."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return [value.strip().encode("utf-8", "replace")]
    if kind.lower() == "basic":
        try:
            return [base64.b64decode(value, validate=True).partition(b":")[2]]
        except (binascii.Error, ValueError):
            return []
    return []


class Guard:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, metrics: Metrics) -> None:
        self.app, self.access, self.limits, self.metrics = app, access, limits, metrics
        self.posted = 0
        """Requests with a body that are read, computed or waiting."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, seen = time.perf_counter(), {"status": 500, "begun": False, "done": False}
        since = scope.get("state", {}).get(BEGAN) or time.monotonic()
        inner = {**scope, UNTIL: since + self.limits.seconds}
        if scope["method"] == "HEAD":  # it is answered as GET; the HTTP server leaves the body out
            inner["method"] = "GET"

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.update(status=message["status"], begun=True)
                headers = MutableHeaders(scope=message)
                for name, value in every_header():
                    headers.setdefault(name, value)
            await send(message)
            seen["done"] = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._answer(scope, inner, receive, answer)
        except Exception as error:
            if not seen["begun"]:
                tell_mistake(error)
                await mistake().response()(scope, receive, answer)
            elif not seen["done"]:
                raise
        finally:
            self._record(scope["method"], inner, seen["status"], time.perf_counter() - began)

    async def _answer(self, scope: Scope, inner: Scope, receive: Receive, answer: Send) -> None:
        """Let the application answer what passes the checks."""
        try:
            self.access.check(scope)
            if scope["path"].endswith("\n") and not scope["path"].startswith("/v1/nodes/"):
                raise ProblemError(404, NO_ROUTE)  # the router's patterns would match without the newline
            _check_framing(Headers(scope=scope))
            with self._counted(scope):
                body = await self._body(scope, receive, inner[UNTIL])
                await self.app(inner, _replay(body, receive), answer)
        except ProblemError as problem:
            await problem.response()(scope, receive, answer)

    @contextmanager
    def _counted(self, scope: Scope) -> Iterator[None]:
        """Count a request while it may hold a body in memory; refuse it if as many as may wait are being read."""
        headers = Headers(scope=scope)
        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            yield
            return
        if self.posted >= 2 * self.limits.max_requests:
            raise too_many(self.limits.max_requests)
        self.posted += 1
        try:
            yield
        finally:
            self.posted -= 1

    async def _body(self, scope: Scope, receive: Receive, until: float) -> bytes:
        """Read the body of a request, within the limits of size and time."""
        most, declared = self.limits.max_bytes, Headers(scope=scope).get("content-length", "0")
        if declared.isdigit() and int(declared) > _DRAINED * most:
            raise _too_large(most)
        parts, size = list[bytes](), 0
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(0.001, until - time.monotonic()))
            except TimeoutError as error:
                rule = f"a request must arrive within {self.limits.seconds:g} seconds (--seconds)"
                raise ProblemError(408, rule, headers={"Connection": "close"}) from error
            if message["type"] == "http.disconnect":
                raise ProblemError(400, "the request ended before its body did")
            part = message.get("body", b"")
            size += len(part)
            if size <= most:
                parts.append(part)
            else:
                parts.clear()
            is_last = not message.get("more_body", False)
            if size > most and (is_last or size > _DRAINED * most):
                raise _too_large(most)
            if is_last:
                return b"".join(parts)

    def _record(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        route: Any = scope.get("route")
        name = (getattr(route, "path", None) or "other").replace(":whole", "")
        method = method if method in ("GET", "POST", "HEAD") else "other"
        self.metrics.requests.labels(method, name, str(status)).inc()
        self.metrics.seconds.labels(name).observe(seconds)
        tell("request", method=method, route=name, status=status, ms=round(1e3 * seconds, 2))


def _check_framing(headers: Headers) -> None:
    """Refuse a body with two lengths, of which a proxy may believe the other, and one that is compressed."""
    if "transfer-encoding" in headers and "content-length" in headers:
        rule = "a request must have Content-Length or Transfer-Encoding, not both"
        raise ProblemError(400, rule, headers={"Connection": "close"})
    if headers.get("content-encoding", "identity").lower() != "identity":
        rule = "the body must be sent as it is, without compression"
        field = Broken("Content-Encoding", rule)
        raise ProblemError(415, rule, field, headers={"Accept-Encoding": "identity", "Connection": "close"})


def _too_large(most: int) -> ProblemError:
    return ProblemError(
        413, f"a request may have {most:,} bytes (--max-bytes)", headers={"Connection": "close"}
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body that was read, then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
