"""JSON whose texts can be written again."""

from __future__ import annotations

import json
import re
from typing import Any

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character beyond 16 bits; both halves together are one."""


def load_json(text: str) -> Any:
    """Return a value of JSON; raise ValueError for text that is no Unicode, such as a single surrogate."""
    value = json.loads(text)
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value
