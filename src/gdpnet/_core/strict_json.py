"""JSON whose texts can be written again, and whose numbers are no larger than those of arrays."""

from __future__ import annotations

import json
import re
from typing import Any

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character beyond 16 bits; both halves together are one."""

_MANY_DIGITS = re.compile(r"\d{300}")


class HugeNumberError(ValueError):
    """A whole number that no float holds."""


def load_json(text: str) -> Any:
    """Return a value of JSON.

    Raises ValueError for text that is no Unicode, such as a single surrogate, and for whole numbers that no float
    holds.
    """
    value = json.loads(text, parse_int=_whole_number) if _MANY_DIGITS.search(text) else json.loads(text)
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _whole_number(digits: str) -> int:
    try:
        number = int(digits)
        float(number)
    except (OverflowError, ValueError):
        raise HugeNumberError(f"a whole number has {len(digits):,} digits") from None
    return number
