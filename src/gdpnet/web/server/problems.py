"""Errors as HTTP answers: a status, and a body of RFC 9457 that names the field and the rule."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi.responses import JSONResponse

from gdpnet.errors import shortened

MEDIA_TYPE = "application/problem+json"
NO_ROUTE = "there is no such route: /docs has them all"
_MOST_ERRORS = 20
"""Broken rules that one answer names."""


class Broken(NamedTuple):
    """A field of a request, as a path, and the rule that it breaks."""

    field: str
    rule: str


class ProblemError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, detail: str, *broken: Broken, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.broken, self.headers = status, shortened(detail), broken, headers or {}

    def response(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse(
            problem_body(self.status, self.detail, self.broken),
            self.status,
            headers=self.headers,
            media_type=MEDIA_TYPE,
        )


def problem_body(status: int, detail: str, broken: Sequence[Broken] = ()) -> dict[str, Any]:
    """Return the body of an error."""
    body: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    body |= {"detail": shortened(detail)}
    if broken:
        body["errors"] = [
            {"field": shortened(one.field), "rule": shortened(one.rule)} for one in broken[:_MOST_ERRORS]
        ]
    return body


def unusable(field: str, rule: str) -> ProblemError:
    """Return the answer to a request with a field that cannot be used."""
    return ProblemError(422, f"{field}: {rule}", Broken(field, rule))


def too_many(most: int) -> ProblemError:
    """Return the answer to a request beyond those that may be computed or wait."""
    rule = f"at most {most:,} requests are computed or wait at a time (--max-requests): try again"
    return ProblemError(429, rule, headers={"Retry-After": "1"})


def mistake() -> ProblemError:
    """Return the answer to a request that the program fails at."""
    return ProblemError(500, "something went wrong that should not: see the server's log")
