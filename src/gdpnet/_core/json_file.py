"""Read JSON that others may have written: bounded in size and depth, with the types that are expected."""

from __future__ import annotations

import re
from typing import Any

from gdpnet._core.files.places import Place
from gdpnet._core.limits import MOST_JSON_BYTES, MOST_JSON_DEPTH
from gdpnet._core.regular import check_regular
from gdpnet._core.strict_json import load_json
from gdpnet.errors import GDPNetError, reason_of

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
"""Strings, also one without an end, and brackets. No part is tried twice, so time and memory do not grow with it."""

_NAMES = {
    dict: "an object",
    list: "a list",
    tuple: "a tuple",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
"""How errors call the types."""

_LARGEST = 1 << 63

REQUIRED: Any = object()
"""The default of an entry that must be there."""


def read_json(
    path: Place, kind: type = dict, error: type[GDPNetError] = GDPNetError, most: int = MOST_JSON_BYTES
) -> Any:
    """Read a JSON file whose outermost value must be of a kind; refuse one that is too large or nested too deeply."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as reason:
        raise error(f"{path} cannot be read as JSON: {reason_of(reason)}") from reason
    return parse_json(content, str(path), kind, error, most)


def parse_json(
    content: bytes | str,
    where: str,
    kind: type = dict,
    error: type[GDPNetError] = GDPNetError,
    most: int = MOST_JSON_BYTES,
) -> Any:
    """Read JSON from a text; ``where`` is how errors call it."""
    if len(content) > most:
        raise error(f"{where} must be JSON of at most {most:,} bytes, found more")
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        if _is_deep(text):
            raise error(f"{where} must be JSON of at most {MOST_JSON_DEPTH} levels, found more")
        value = load_json(text)
    except (ValueError, RecursionError) as reason:
        raise error(f"{where} cannot be read as JSON: {reason_of(reason)}") from reason
    return expect(value, kind, where, error)


def expect(
    value: Any, kind: type | tuple[type, ...], where: str, error: type[GDPNetError] = GDPNetError
) -> Any:
    """Return a value of JSON that is of a kind, or of one of several; a whole number is a number too."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    allowed = (*kinds, int) if float in kinds else kinds
    if isinstance(value, allowed) and (bool in kinds or not isinstance(value, bool)):
        return value
    names = " or ".join(_NAMES.get(one, one.__name__) for one in kinds)
    raise error(f"{where} must be {names}, found {_NAMES.get(type(value), type(value).__name__)}")


def entry(
    record: dict[str, Any],
    key: str,
    kind: type | tuple[type, ...],
    where: str,
    error: type[GDPNetError] = GDPNetError,
    default: Any = REQUIRED,
) -> Any:
    """Return an entry of an object that is of a kind; the default, if there is one, where it is absent."""
    if key not in record:
        if default is REQUIRED:
            raise error(f"{where} must have an entry '{key}', found none")
        return default
    return expect(record[key], kind, f"'{key}' of {where}", error)


def entries(
    record: dict[str, Any],
    key: str,
    kind: type | tuple[type, ...],
    where: str,
    error: type[GDPNetError] = GDPNetError,
) -> list[Any]:
    """Return an entry that is a list of values of a kind; a tuple that no file holds is a list too."""
    found = entry(record, key, (list, tuple), where, error)
    for place, value in enumerate(found):
        expect(value, kind, f"value {place + 1} of '{key}' of {where}", error)
    return list(found)


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number that arrays and pictures can hold; JSON has larger ones."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= _LARGEST)


def _is_deep(text: str) -> bool:
    """Return whether brackets are nested too deeply; brackets in strings do not count."""
    if text.count("[") + text.count("{") <= MOST_JSON_DEPTH:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        first = found[0][0]
        if first in "[{":
            depth += 1
            if depth > MOST_JSON_DEPTH:
                return True
        elif first in "]}":
            depth -= 1
    return False
