"""Read what a page of the explorer holds, and texts that a careless page would read as HTML."""

import base64
import json
import re

import numpy as np

HOSTILE = (
    "<script>document.title='broken'</script>",
    "</script><img src=x onerror=\"document.title='broken'\">",
    "\"quoted\" & 'single' <b>",
    "שלום עולם",
    "=1+1",
    "a,b\nc",
    "ünïcode ✕ \u2028 line",
)
CLASSES = ("<script>alert(1)</script>", 'say "x" & <i>y</i>', "مرحبا")

TYPES = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4", "share": "<u2"}


def unpacked(column: dict) -> np.ndarray | list:
    """Return the values of a packed column, as the page reads them."""
    if column["type"] == "names":
        return [column["names"][code - 1] if code else None for code in unpacked(column["code"])]
    values = np.frombuffer(base64.b64decode(column["data"]), TYPES[column["type"]])
    if column["type"] != "share":
        return values
    return np.where(values == 65535, np.nan, values / 65534)


def payload_of(page: str) -> dict:
    """Return the data in a page."""
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])
