"""Convert class and split names to the codes that a graph stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError, nearest

_SPLIT_CODES = {
    **{name: code for code, name in enumerate(SPLITS) if name != "none"},
    "val": SPLITS.index("validation"),
}


def code_labels(values: Any, where: str) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """Return class codes and sorted class names of an Arrow column; null and blank are unknown.

    Classes are sorted as numbers if all of them are whole numbers, else as text.
    """
    text = _text_or_null(values, where)
    names = sorted(pc.unique(text).drop_null().to_pylist())
    if all(_is_whole_number(name) for name in names):
        names.sort(key=int)
    codes = pc.fill_null(pc.index_in(text, value_set=pa.array(names, pa.string())), UNKNOWN)
    return np.array(codes, dtype=np.int64), tuple(names)


def code_split(values: Any, where: str) -> Int[np.ndarray, "nodes"]:
    """Return the split codes of an Arrow column of train, validation (or val), test or nothing."""
    text = pc.utf8_trim_whitespace(_text_or_null(values, where))
    known = pc.index_in(text, value_set=pa.array(list(_SPLIT_CODES)))
    wrong = pc.and_(pc.is_valid(text), pc.is_null(known))
    if pc.any(wrong).as_py():
        word = text.filter(wrong)[0].as_py()
        hint = nearest(word, _SPLIT_CODES)
        raise GraphError(f"{where} must hold train, validation, test or nothing, found '{word}'{hint}")
    codes = np.array([*_SPLIT_CODES.values(), 0], dtype=np.int8)
    return codes[np.array(pc.fill_null(known, -1))]


def _text_or_null(values: Any, where: str) -> Any:
    """Return a column as text, with null for blank and NaN."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
        try:
            values = pc.cast(values, pa.int64())
        except pa.ArrowInvalid as error:
            raise GraphError(f"{where} must hold names or whole numbers, found fractions") from error
    try:
        text = pc.cast(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise GraphError(f"{where} must hold names or whole numbers, found {values.type}") from error
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)


def _is_whole_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
