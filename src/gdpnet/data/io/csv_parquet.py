"""Checked and coded columns of tables, and tables written as CSV and Parquet; errors count rows from 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Int
from pyarrow import csv

from gdpnet._core.files import Place, atomic_path, is_stream
from gdpnet._core.limits import MOST_CLASSES
from gdpnet._core.words import counted
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError, nearest

SUFFIXES = (".csv", ".parquet")
"""File suffixes of tables that are written; `gdpnet.data.io.table_file` reads more."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

_MOST_DIGITS = 1_000
"""Classes of more digits are sorted as text; Python reads no whole number of more than 4,300."""

NO_LABELS = ("n/a", "na", "#n/a", "<na>", "nan", "null")
"""Texts that stand for no label, in lower case."""

_SPLIT_CODES = {
    **{name: code for code, name in enumerate(SPLITS) if name != "none"},
    "val": SPLITS.index("validation"),
}


def write_table(table: Any, path: Place) -> None:
    """Write an Arrow table, whole or not at all, as CSV or Parquet by the file's suffix; devices get CSV."""
    if path.suffix not in SUFFIXES and not is_stream(path):
        raise GraphError(f"a table must be written to a .csv or .parquet file, found {path.name}")
    # opened here: pyarrow refuses names that are no UTF-8
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        if path.suffix == ".parquet":
            pq.write_table(table, file, write_page_checksum=True)
        else:
            csv.write_csv(table, file)


def column_of(table: Any, name: str, path: Path, role: str | None = None) -> Any:
    """Return a column by its name; the error suggests a similar name, and the flag that names the role's column."""
    found = table.column_names.count(name)
    if found == 0:
        other = "" if role is None else f", or another that --column {role}=NAME names"
        raise GraphError(f"{path} must have a column '{name}'{other}{nearest(name, table.column_names)}")
    if found > 1:
        raise GraphError(f"{path} must have one column '{name}', found {found}")
    return table.column(name)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def read_numbers(table: Any, name: str, path: Path, ids: Any = None) -> Float[np.ndarray, "rows"]:
    """Return a column of finite numbers; errors name a row by its node id if ids are given."""
    value = _as_double(column_of(table, name, path), name, path)
    with np.errstate(over="ignore"):
        number = np.array(value, dtype=np.float64).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(number))
    if bad.size:
        row = int(bad[0])
        given = value[row].as_py()
        found = "nothing" if given is None else f"{given:g}"
        place = f"in row {row + 1}" if ids is None else f"for node '{ids[row].as_py()}'"
        raise GraphError(
            f"column '{name}' of {path} must hold a finite number in every row, found {found} {place}"
        )
    return number


def read_targets(table: Any, name: str, path: Path, ids: Any) -> Float[np.ndarray, "nodes"]:
    """Return a column of numbers to predict; empty rows, and n/a, are NaN. Errors name a row by its node id."""
    column = column_of(table, name, path)
    if is_text(column.type):
        low = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        column = pc.if_else(pc.is_in(low, value_set=pa.array(NO_LABELS)), None, column)
    value = _as_double(column, name, path).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        number = np.array(value, dtype=np.float32)
    infinite = np.flatnonzero(np.isinf(number))
    if infinite.size:
        row = int(infinite[0])
        raise GraphError(
            f"column '{name}' of {path} must hold numbers that are finite in single precision, or nothing, "
            f"found {value[row]:g} for node '{ids[row].as_py()}'"
        )
    return number


def code_labels(values: Any, where: str) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """Return class codes and sorted class names of an Arrow column; null, blank and n/a are unknown.

    Classes are sorted as numbers if all of them are whole numbers, else as text.
    """
    text = _text_or_null(values, where)
    text = pc.if_else(pc.is_in(pc.utf8_lower(text), value_set=pa.array(NO_LABELS)), None, text)
    names = sorted(pc.unique(text).drop_null().to_pylist())
    if len(names) > MOST_CLASSES:
        raise GraphError(f"{where} can hold at most {MOST_CLASSES:,} classes, found {len(names):,}")
    if all(_is_whole_number(name) for name in names):
        names.sort(key=int)
    codes = pc.fill_null(pc.index_in(text, value_set=pa.array(names, pa.string())), UNKNOWN)
    return np.array(codes, dtype=np.int64), tuple(names)


def missing_labels_note(values: Any, where: str) -> tuple[str, ...]:
    """Return a note on labels that stand for none, if there are any."""
    text = _text_or_null(values, where)
    marked = text.filter(pc.is_in(pc.utf8_lower(text), value_set=pa.array(NO_LABELS)))
    if not len(marked):
        return ()
    words = ", ".join(f"'{word}'" for word in sorted(pc.unique(marked).to_pylist()))
    one, many = f"label {words} of {where} counts as unknown", f"labels {words} of {where} count as unknown"
    return (counted(len(marked), one, many),)


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


def _as_double(column: Any, name: str, path: Path) -> Any:
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    kind = column.type
    if pa.types.is_boolean(kind):
        return pc.cast(pc.cast(column, pa.int8()), pa.float64())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.float64(), safe=False)
    wrong = pc.is_valid(column)
    if is_text(kind):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), None, column)
        wrong = pc.invert(pc.fill_null(pc.match_substring_regex(column, _NUMBER), True))
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        found = column[row].as_py()
        raise GraphError(f"column '{name}' of {path} must hold numbers, found '{found}' in row {row + 1}")
    return pc.cast(column, pa.float64()) if is_text(kind) else pa.nulls(len(column), pa.float64())


def _text_or_null(values: Any, where: str) -> Any:
    """Return a column as text, with null for blank and NaN."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
        try:
            values = pc.cast(values, pa.int64())
        except pa.ArrowInvalid as error:
            raise GraphError(
                f"{where} must hold names or whole numbers, found fractions: --task regression predicts numbers "
                "(in Python read_graph(..., task='regression'))"
            ) from error
    try:
        text = pc.cast(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise GraphError(f"{where} must hold names or whole numbers, found {values.type}") from error
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(text, ""), None, text)


def _is_whole_number(name: str) -> bool:
    return len(name) <= _MOST_DIGITS and name.removeprefix("-").isdecimal()
