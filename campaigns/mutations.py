"""Damage bytes, text and JSON: flipped bits, cuts, splices, strange words, wrong types, deep nesting."""

from __future__ import annotations

import json
import random
import re
from typing import Any

WORDS = [
    "",
    " ",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "-1",
    "-0",
    "1e999",
    "1e-999",
    "0x10",
    "1_000",
    "1,5",
    "999999999",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "9" * 5000,
    "0." + "1" * 400,
    "true",
    "None",
    "null",
    "[/]",
    "[red]",
    "<script>alert(1)</script>",
    "=1+1",
    "../../x",
    "a" * 9000,
    "\x00",
    "a\x00b",
    "\ufeff",
    "\u202e\u2066",
    "e\u0301",
    "🧨",
    "\ud800",
    "\u2028",
    "\r",
    "\n",
    "\t",
    '"',
    "'",
    ";",
    "|",
    "%s",
    "{0}",
    "\\",
    "train",
    "001",
    "١٢٣",
]
"""Words that have broken readers before."""

_NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def deep(depth: int, left: str = "[", right: str = "]") -> str:
    """Return nested brackets."""
    return left * depth + right * depth


def as_bytes(word: str) -> bytes:
    """Return a word as UTF-8; a lone surrogate as the bytes that are no UTF-8."""
    return word.encode("utf-8", "surrogatepass")


def damage(content: bytes, draw: random.Random, other: bytes = b"") -> bytes:
    """Return bytes with one or a few places damaged."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(_DAMAGES)(content, draw, other)
    return content


def _flip(content: bytes, draw: random.Random, other: bytes) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    for _ in range(draw.choice((1, 2, 8))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _set(content: bytes, draw: random.Random, other: bytes) -> bytes:
    if not content:
        return content
    place, width = draw.randrange(len(content)), draw.choice((1, 2, 4, 8))
    value = draw.choice((b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01")) * width
    return content[:place] + value + content[place + width :]


def _cut(content: bytes, draw: random.Random, other: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _drop(content: bytes, draw: random.Random, other: bytes) -> bytes:
    first, last = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:first] + content[last:]


def _repeat(content: bytes, draw: random.Random, other: bytes) -> bytes:
    first, last = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:last] + content[first:last] * draw.choice((1, 2, 20)) + content[last:]


def _splice(content: bytes, draw: random.Random, other: bytes) -> bytes:
    mine, theirs = draw.randrange(len(content) + 1), draw.randrange(len(other) + 1)
    return content[:mine] + other[theirs:]


def _insert(content: bytes, draw: random.Random, other: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return content[:place] + as_bytes(draw.choice(WORDS)) + content[place:]


def _renumber(content: bytes, draw: random.Random, other: bytes) -> bytes:
    found = list(_NUMBER.finditer(content[: 1 << 16]))
    if not found:
        return content
    one = draw.choice(found)
    return content[: one.start()] + as_bytes(draw.choice(WORDS)) + content[one.end() :]


_DAMAGES = (_flip, _flip, _set, _cut, _drop, _repeat, _splice, _insert, _renumber)


def odd_json(draw: random.Random) -> Any:
    """Return a JSON value that is rarely expected; `dump` writes it."""
    return draw.choice(
        [
            None,
            True,
            -1,
            0,
            1.5,
            1e308,
            10**400,
            2**63,
            -(2**63) - 1,
            float("nan"),
            float("inf"),
            [],
            {},
            [[]],
            [1, "a", None],
            {"a": 1},
            {"": {"": {}}},
            draw.choice(WORDS),
            draw.choice(WORDS),
            "DEEP",
            [0] * 3000,
        ]
    )


def dump(value: Any, draw: random.Random) -> bytes:
    """Write a JSON value, with nesting in place of the word DEEP."""
    text = json.dumps(value, indent=draw.choice((None, 2)))
    return as_bytes(text.replace('"DEEP"', deep(draw.choice((50, 2000, 200_000)))))


def damage_json(content: bytes, draw: random.Random) -> bytes:
    """Return JSON with a few of its values, keys or parts changed; or its bytes damaged."""
    if draw.random() < 0.3:
        return damage(content, draw)
    value = json.loads(content)
    for _ in range(draw.choice((1, 1, 2))):
        value = changed_inside(value, draw)
    return dump(value, draw)


def changed_inside(value: Any, draw: random.Random) -> Any:
    """Return a copy of a JSON value with one part changed, at a random depth."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return odd_json(draw)
    if isinstance(value, list):
        place = draw.randrange(len(value))
        how = draw.random()
        if how < 0.2:
            return value[:place] + value[place + 1 :]
        if how < 0.3:
            return value + [value[place]] * draw.choice((1, 5))
        return [changed_inside(part, draw) if number == place else part for number, part in enumerate(value)]
    key, how = draw.choice(list(value)), draw.random()
    if how < 0.15:
        return {name: part for name, part in value.items() if name != key}
    if how < 0.25:
        return {draw.choice(WORDS) if name == key else name: part for name, part in value.items()}
    return {name: changed_inside(part, draw) if name == key else part for name, part in value.items()}
