"""Read the body of a question; what is large is counted before it is looked at closely.

All of this runs in a thread. A call into a parser holds up the other threads until it returns, so such a call must
not get millions of small things, each of which it would turn into an object or into an error.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, TypeVar

from pydantic import ValidationError

from gdpnet.web.server.fields import broken_rules, name_of
from gdpnet.web.server.limits import Limits
from gdpnet.web.server.payload import Question
from gdpnet.web.server.problems import Broken, ProblemError, unusable

UNREADABLE = "the body must be JSON in UTF-8, not nested deeply, with numbers that fit 64 bits"
_NO_OBJECT = "it must be a JSON object, with the header Content-Type: application/json"

_MOST_FIELDS = 12
"""Fields of an object of a request, those that there are not included; no object has as many."""

Q = TypeVar("Q", bound=Question)


def read_body(body: bytes, content_type: str, form: type[Q], limits: Limits) -> Q:
    """Return the question in a body, or refuse it by field and rule."""
    if not _is_json(content_type):
        raise unusable("body", _NO_OBJECT)
    _check_parts(body, limits)
    given = _parsed(body)
    if not isinstance(given, dict):
        raise unusable("body", _NO_OBJECT)
    _check_sizes(given, limits)
    try:
        return form.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        broken = broken_rules({**one, "loc": ("body", *one["loc"])} for one in found)
        raise ProblemError(422, f"{broken[0].field}: {broken[0].rule}", *broken) from error


def _is_json(content_type: str) -> bool:
    kind, _, rest = content_type.partition(";")[0].strip().lower().partition("/")
    return kind == "application" and (rest == "json" or rest.endswith("+json"))


def _check_parts(body: bytes, limits: Limits) -> None:
    """Refuse a body with more objects or lists than a question within the limits may have."""
    # a node has its features and an edge has features and a type; the rest is the question's own
    most = 3 * limits.max_nodes + 3 * limits.max_edges + 10
    if max(body.count(b"["), body.count(b"{")) <= most:
        return
    outside = b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])  # of texts
    if max(outside.count(b"["), outside.count(b"{")) > most:
        raise unusable("body", f"it must have at most {most:,} lists and objects (--max-nodes, --max-edges)")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        rule = f"it must be JSON, found a mistake at character {error.pos}: {error.msg}"
        raise unusable("body", rule) from error
    except (ValueError, RecursionError) as error:
        raise ProblemError(400, UNREADABLE, Broken("body", UNREADABLE)) from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a field that is given twice nobody knows which one is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise unusable(name_of(twice), "it must be given once")
    return found


def _check_sizes(given: dict[str, Any], limits: Limits) -> None:
    """Refuse lists beyond the limits, and objects with too many fields."""
    most_of = {"nodes": limits.max_nodes, "targets": limits.max_nodes, "edges": limits.max_edges}
    for holder, before in ((given, ""), (given.get("graph"), "graph.")):
        if not isinstance(holder, dict):
            continue
        _check_fields(holder, before.rstrip(".") or "body")
        for name, most in most_of.items():
            items = holder.get(name)
            if not isinstance(items, list):
                continue
            if len(items) > most:
                raise unusable(before + name, f"there must be at most {most:,} of them, found {len(items):,}")
            for place, item in enumerate(items):
                _check_fields(item, f"{before}{name}.{place}")


def _check_fields(item: Any, where: str) -> None:
    if isinstance(item, dict) and len(item) > _MOST_FIELDS:
        raise unusable(where, f"it must have at most {_MOST_FIELDS} fields, found {len(item):,}")
