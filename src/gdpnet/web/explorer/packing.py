"""Columns of a page in few bytes: arrays in base64, probabilities in two bytes, repeated texts as codes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

MISSING = 65535
"""Marks a missing probability in two bytes; the others are multiples of 1 / 65534."""

_TYPES = {"u1": "u8", "u2": "u16", "u4": "u32", "f4": "f32"}


def pack(values: Any, kind: str) -> dict[str, Any]:
    """Return numbers as an array of ``u1``, ``u2``, ``u4`` or ``f4``; numbers that are too large are clipped."""
    array = np.asarray(values)
    if kind[0] == "u":
        array = array.clip(0, np.iinfo(kind).max)
    content = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
    return {"type": _TYPES[kind], "data": base64.b64encode(content).decode("ascii")}


def pack_shares(values: Any) -> dict[str, Any]:
    """Return numbers from 0 to 1, or NaN if missing, in two bytes each."""
    array = np.asarray(values, dtype=np.float64)
    code = np.where(np.isnan(array), MISSING, np.rint(np.nan_to_num(array).clip(0, 1) * (MISSING - 1)))
    return pack(code, "u2") | {"type": "share"}


def pack_names(texts: Sequence[str | None]) -> dict[str, Any]:
    """Return texts of which many are equal: each once, and the place of each, from 1; 0 for None."""
    names = dict.fromkeys(one for one in texts if one is not None)
    place = {name: number for number, name in enumerate(names, start=1)}
    codes = [0 if one is None else place[one] for one in texts]
    return {
        "type": "names",
        "names": list(names),
        "code": pack(codes, "u4" if len(names) > MISSING else "u2"),
    }
