"""What is wrong with the body of a request, from the framework's errors: each field once, and the rule it breaks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from gdpnet.web.server.payload import BAD_CELL
from gdpnet.web.server.problems import Broken

_ID = "it must be text of 1 to 1,000 characters, or a whole number"
_TARGET = f"{_ID}, or an object with node_id"
_FEATURES = "it must be a list of numbers, or an object with a value per column"
_CELL = "it must be a finite number, text, true, false, null or a list of numbers"

_MOST_ERRORS = 1_000
"""Errors that are looked at; an answer names fewer."""

_WRONG_TEXT = "string_pattern_mismatch"
_RULES = {
    "missing": "it must be given",
    "extra_forbidden": "there is no such field",
    "finite_number": "it must be a finite number",
    "too_short": "there must be at least {min_length}, found {actual_length}",
    "string_too_short": "it must have at least {min_length} characters",
    "string_too_long": "it must have at most {max_length:,} characters",
    _WRONG_TEXT: "it must not have the character NUL",
}
"""What an error says, by its type."""

_Path = tuple[str | int, ...]


def broken_rules(errors: Iterable[Mapping[str, Any]]) -> list[Broken]:
    """Return the fields that break a rule, each once, in the order of the errors."""
    found: dict[_Path, str] = {}
    for error in islice(errors, _MOST_ERRORS):
        path, rule = _broken(error)
        # a wrong character tells more than that a text is not of another form
        found[path] = rule if error["type"] == _WRONG_TEXT else found.get(path, rule)
    # of a field that may have several forms, every form is complained of: a part of it tells more than the whole
    whole = {path[:length] for path in found for length in range(len(path))}
    broken = [Broken(_field(path), rule) for path, rule in found.items() if path not in whole]
    return broken or [Broken("body", "it cannot be read")]


def _broken(error: Mapping[str, Any]) -> tuple[_Path, str]:
    """Return the path to a field, and the rule that it breaks."""
    path = tuple(error["loc"][1:])
    if error["type"] == BAD_CELL:
        return (*path, error["ctx"]["column"]), _CELL
    named, rule = _by_form(path)
    return named, _rule_of(error) if rule is None or error["type"] == _WRONG_TEXT else rule


def _field(path: _Path) -> str:
    return ".".join(map(name_of, path)) or "body"


def _by_form(path: _Path) -> tuple[_Path, str | None]:
    """Return the path to a field without the form that was tried, and the rule of fields with several forms."""
    for place, part in enumerate(path):
        rest = path[place + 1 :]
        if part == "targets" and len(rest) > 1:
            inner = rest[2:] if rest[1] == "Target" else ()
            return (*path[: place + 2], *inner[:1]), None if inner and inner[0] != "node_id" else _TARGET
        if part == "features" and rest:
            named = path[: place + 1]
            return (*named, *rest[1:2]), "it must be a finite number" if rest[1:] else _FEATURES
        if str(part).endswith("node_id") and rest:
            return path[: place + 1], _ID
    return path, None


def _rule_of(error: Mapping[str, Any]) -> str:
    template = _RULES.get(error["type"])
    if template is not None:
        return template.format_map(error.get("ctx", {}))
    return str(error["msg"]).replace("Input should", "it should", 1)


def name_of(part: str | int) -> str:
    """Return a number or a name of a path to a field; a name that is no word is quoted."""
    text = str(part)
    return text if text.replace("-", "_").isidentifier() or text.isdigit() else json.dumps(text)
