"""Records as JSON has them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """Return a record as JSON has it, at any depth: None for NaN and infinity, plain numbers, and paths as text."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):  # a number or an array of numpy or torch
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
