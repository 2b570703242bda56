"""Download a file over verified HTTPS; it is checked before it gets its name, and a part of it never does."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from gdpnet._core.files import atomic_path
from gdpnet._core.limits import MOST_DOWNLOAD_BYTES
from gdpnet.errors import DatasetError, reason_of

_SILENCE, _LONGEST = 30.0, 600.0
"""Seconds without an answer, and seconds of a whole download, after which it is given up."""

_PIECE = 1 << 16


def fetch(url: str, path: Path, check: Callable[[Path], None], most: int = MOST_DOWNLOAD_BYTES) -> None:
    """Download a file of at most so many bytes to a path; ``check`` raises if it is not the right one."""
    content = _content(url, most)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
        check(temporary)


def _content(url: str, most: int) -> bytes:
    try:
        # the default context verifies the certificate and the name of the host
        with _opener(ssl.create_default_context()).open(url, timeout=_SILENCE) as answer:
            return _read(answer, url, most)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise DatasetError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise DatasetError(f"{url}: {_reason(error)}") from error


def _read(answer: Any, url: str, most: int) -> bytes:
    declared = answer.headers.get("Content-Length", "")
    expected = int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 19 else None
    if expected is not None and expected > most:
        raise DatasetError(f"{url} must have at most {most:,} bytes, found {expected:,}")
    content, end = bytearray(), time.monotonic() + _LONGEST
    while piece := answer.read1(_PIECE):  # not read, which waits for a whole piece however slowly it comes
        content += piece
        if len(content) > most:
            raise DatasetError(f"{url} must have at most {most:,} bytes, found more")
        if time.monotonic() > end:
            raise DatasetError(f"{url} was not downloaded within {_LONGEST:.0f} seconds")
    if expected is not None and len(content) != expected:
        raise DatasetError(f"{url} was cut short: {len(content):,} of {expected:,} bytes came")
    return bytes(content)


class _OnlyHTTPS(urllib.request.HTTPRedirectHandler):
    """Follow redirects to HTTPS alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows, or refuse it."""
        if not newurl.lower().startswith("https://"):
            fp.close()
            raise DatasetError(f"{req.full_url} leads to {newurl}, which is not HTTPS: it was not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Return an opener that knows HTTPS, proxies and redirects, and no other protocol or file."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _OnlyHTTPS(),
    ):
        opener.add_handler(handler)
    return opener


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    return reason_of(inner) if isinstance(inner, Exception) else reason_of(error)
