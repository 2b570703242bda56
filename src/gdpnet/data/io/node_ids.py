"""Ids of nodes in tables: text or whole numbers, also those that a missing value turned into 1.0, 2.0 and so on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from gdpnet._core.words import counted
from gdpnet.data.io.csv_parquet import column_of, is_text
from gdpnet.errors import GraphError

_WHOLE = r"^([+-]?\d+)\.0+$"
_EXACT = float(1 << 53)
"""Floating-point numbers beyond this are not all whole numbers that were written."""

DROP_HINT = "--drop-unknown (in Python drop_unknown=True) leaves them out"


def id_column(table: Any, name: str, path: Path, role: str | None = None) -> tuple[Any, tuple[str, ...]]:
    """Return a column of ids, text without spaces around it or whole numbers, null for none, and notes."""
    column = column_of(table, name, path, role)
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    kind = column.type
    if pa.types.is_floating(kind):
        return _whole_numbers(column, name, path), ()
    if not (pa.types.is_integer(kind) or is_text(kind) or pa.types.is_null(kind)):
        raise GraphError(f"column '{name}' of {path} must hold text or whole numbers, found {kind}")
    # 64-bit hashes do not fit int64 and become text
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pc.cast(column, pa.int64()), ()
    given = pc.cast(column, pa.string())
    trimmed = pc.utf8_trim_whitespace(given)
    changed = pc.sum(pc.not_equal(trimmed, given)).as_py()
    notes = (
        (f"spaces around {counted(changed, 'id')} in column '{name}' of {path.name} were removed",)
        if changed
        else ()
    )
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed), notes


def read_ids(table: Any, name: str, path: Path) -> Any:
    """Return a column of ids that names a node in every row."""
    ids, _ = id_column(table, name, path)
    check_present(ids, name, path)
    return ids


def check_present(ids: Any, name: str, path: Path) -> None:
    """Refuse a column of ids with a row that names no node."""
    if ids.null_count:
        row = pc.index(pc.is_null(ids), True).as_py() + 1
        raise GraphError(
            f"column '{name}' of {path} must name a node in every row, found nothing in row {row}"
        )


def without_decimals(ids: Any, name: str, path: Path) -> tuple[Any, tuple[str, ...]]:
    """Return ids of text without the ending .0 if all of them have it, and a note that says so."""
    if not is_text(ids.type) or not len(ids) or not pc.all(pc.match_substring_regex(ids, _WHOLE)).as_py():
        return ids, ()
    return _stripped(ids), (f"ids like 1.0 in column '{name}' of {path.name} are read as 1",)


def find_places(ids: Any, known: Any) -> tuple[Int[np.ndarray, "rows"], int]:
    """Return the place of each id among the known ones, -1 for none, and how many were found without an ending .0."""
    if ids.type != known.type:
        ids, known = pc.cast(ids, pa.string()), pc.cast(known, pa.string())
    place = pc.index_in(ids, value_set=known)
    mended = 0
    if is_text(ids.type) and place.null_count > ids.null_count:
        lost, place = place.null_count, pc.coalesce(place, pc.index_in(_stripped(ids), value_set=known))
        mended = lost - place.null_count
    return np.array(pc.fill_null(place, -1), dtype=np.int64), mended


def _stripped(ids: Any) -> Any:
    return pc.replace_substring_regex(ids, _WHOLE, r"\1")


def _whole_numbers(column: Any, name: str, path: Path) -> Any:
    """Return ids that are whole but stored as floating-point numbers, as pandas does beside missing values."""
    column = pc.cast(column, pa.float64())  # there is no floor of half a precision
    column = pc.if_else(pc.is_nan(column), None, column)
    fits = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), _EXACT))
    if not pc.all(pc.fill_null(fits, True), min_count=0).as_py():
        found = column.filter(pc.invert(pc.fill_null(fits, True)))[0].as_py()
        raise GraphError(f"column '{name}' of {path} must hold text or whole numbers, found {found:g}")
    return pc.cast(column, pa.int64())
