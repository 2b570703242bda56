"""Find out what each column of a node table holds: numbers, categories, dates, texts or identifiers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gdpnet._core.limits import MOST_COLUMNS
from gdpnet._core.words import counted
from gdpnet.errors import GraphError

NUMERIC, BOOLEAN, CATEGORY, DATE, TEXT, LEFT_OUT = (
    "numeric",
    "boolean",
    "category",
    "date",
    "text",
    "left out",
)
"""Kinds of columns."""

_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "--", "unknown", "missing")
"""Texts that stand for a missing value, in lower case."""

_MISSING_ARRAY = pa.array(_MISSING)

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_DECIMAL_COMMA = r"^[+-]?\d*,\d+$"
_TRUE, _FALSE = ("true", "yes", "y", "t"), ("false", "no", "n", "f")
_TRUTH = pa.array(_TRUE), pa.array(_FALSE)
_DATES = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%Y/%m/%d",
)
_SECONDS_PER_DAY = 86_400.0
_IDENTIFIER = re.compile(r"(^|[_ .-])(id|uuid|guid|key|index|idx|rowid)$", re.IGNORECASE)

_LARGEST = float(np.finfo(np.float32).max) / 2
"""Larger numbers are infinite for a network."""

_TOO_LARGE = (
    f"value is infinite or above {_LARGEST:.1e} in size and counts as missing",
    f"values are infinite or above {_LARGEST:.1e} in size and count as missing",
)
_UNREADABLE = ("value cannot be read and counts as missing", "values cannot be read and count as missing")

_OF_TYPE, ALL_LOST = "values of type", "no usable value"

UNUSABLE = (_OF_TYPE, ALL_LOST)
"""How the remark on a column starts that is left out although it has values, since none of them can be used."""

MOSTLY = 0.95
"""A column of text is of a kind if at least this share of its values can be read so; the others count as missing."""


@dataclass(frozen=True)
class Column:
    """One column: its kind, its values in the form of that kind, and what a user should know about it.

    Values are numbers for numeric and boolean columns, days since 1970 for dates, else text; null if missing.
    """

    name: str
    kind: str
    values: Any
    remark: str = ""


def find_kind(name: str, values: Any, *, constant: bool = False) -> Column:
    """Find the kind of a column of an Arrow table, and bring its values into the form of that kind.

    A column with the same value in every row is left out unless ``constant``.
    """
    values = _plain(values)
    found = _of_text(name, values) if _is_text(values.type) else _of_type(name, values)
    if found.values is None:
        return found
    if found.values.null_count == len(found.values):
        return Column(name, LEFT_OUT, None, f"{ALL_LOST}: {found.remark}" if found.remark else "no value")
    if not constant and found.values.null_count == 0 and pc.count_distinct(found.values).as_py() == 1:
        return Column(name, LEFT_OUT, None, "the same value in every row")
    return found


def read_as(kind: str, values: Any) -> Any:
    """Bring the values of a column into the form of a kind; what cannot be read so is null."""
    values = _plain(values)
    if kind in (CATEGORY, TEXT):
        return _trimmed(values if _is_text(values.type) else pc.cast(values, pa.string()))
    if _is_text(values.type):
        values = _trimmed(values)
        return _text_as(kind, values)
    if kind == DATE and _is_time(values.type):
        return _days(values)
    if is_number(values.type) or pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8()) if pa.types.is_boolean(values.type) else values
        values = pc.cast(values, pa.float64(), safe=False)
        return _bounded(values)
    return pa.nulls(len(values), pa.float64())


def _plain(values: Any) -> Any:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    values = pc.cast(values, values.type.value_type) if pa.types.is_dictionary(values.type) else values
    return pc.cast(values, pa.string()) if pa.types.is_large_string(values.type) else values


def _of_type(name: str, values: Any) -> Column:
    """Return a column whose type says what it holds."""
    if pa.types.is_boolean(values.type):
        return Column(name, BOOLEAN, read_as(BOOLEAN, values))
    if _is_time(values.type):
        return Column(name, DATE, read_as(DATE, values))
    if pa.types.is_null(values.type):
        return Column(name, LEFT_OUT, None, "no value")
    if not is_number(values.type):
        return Column(name, LEFT_OUT, None, f"{_OF_TYPE} {values.type}")
    if pa.types.is_integer(values.type) and _is_identifier(name, values):
        return Column(name, LEFT_OUT, None, "an identifier: another whole number in every row")
    read = read_as(NUMERIC, values)
    missing = pc.sum(pc.is_null(values, nan_is_null=True)).as_py() or 0  # no row has no sum
    large = read.null_count - missing
    remark = counted(large, *_TOO_LARGE) if large else ""
    return Column(name, NUMERIC, read, remark)


def _is_identifier(name: str, values: Any) -> bool:
    """Return whether whole numbers are all distinct, and consecutive or called identifiers."""
    if len(values) <= 20 or values.null_count or pc.count_distinct(values).as_py() < len(values):
        return False
    ends = pc.min_max(values)
    return bool(_IDENTIFIER.search(name)) or ends["max"].as_py() - ends["min"].as_py() == len(values) - 1


def _of_text(name: str, values: Any) -> Column:
    """Find out what a column of text holds: the first kind that most values can be read as."""
    text = _trimmed(values)
    present = len(text) - text.null_count
    if present == 0:
        return Column(name, LEFT_OUT, None, "no value")
    has_digits = bool(
        pc.any(pc.match_substring_regex(text, "[0-9]")).as_py()
    )  # else it is no number and no date
    number = _any_numbers(text) if has_digits else pa.nulls(len(text), pa.float64())
    large = (pc.sum(pc.greater(pc.abs(number), _LARGEST)).as_py() or 0) if has_digits else 0
    for kind in (NUMERIC, BOOLEAN, DATE) if has_digits else (BOOLEAN,):
        read, whole = (number, _bounded(number)) if kind == NUMERIC else (_text_as(kind, text),) * 2
        lost = present - len(read) + read.null_count
        if lost <= (1.0 - MOSTLY) * present:
            said = [counted(lost, *_UNREADABLE)] if lost else []
            said += [counted(large, *_TOO_LARGE)] if large and kind == NUMERIC else []
            return Column(name, kind, whole, "; ".join(said))
    distinct = pc.count_distinct(text).as_py()
    if distinct > max(20, present // 2):
        return Column(
            name, LEFT_OUT, None, f"{counted(distinct, 'distinct text')}; --text {name} uses their words"
        )
    return Column(name, CATEGORY, text)


def _text_as(kind: str, text: Any) -> Any:
    """Return trimmed text as numbers of a kind, null where it cannot be read so."""
    return {NUMERIC: _text_as_numbers, BOOLEAN: _text_as_truth, DATE: _text_as_dates}[kind](text)


def _trimmed(text: Any) -> Any:
    """Trim text, with null for what stands for a missing value."""
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(pc.utf8_lower(text), value_set=_MISSING_ARRAY), None, text)


def _text_as_numbers(text: Any) -> Any:
    return _bounded(_any_numbers(text))


def _any_numbers(text: Any) -> Any:
    """Return text as numbers of any size."""
    comma = pc.match_substring_regex(text, _DECIMAL_COMMA)
    text = pc.if_else(comma, pc.replace_substring(text, ",", "."), text)
    return pc.cast(pc.if_else(pc.match_substring_regex(text, _NUMBER), text, None), pa.float64())


def _bounded(number: Any) -> Any:
    """Return numbers, null where one is not finite for a network."""
    return pc.if_else(pc.less_equal(pc.abs(number), _LARGEST), number, None)


def _text_as_truth(text: Any) -> Any:
    low = pc.utf8_lower(text)
    true, false = (pc.is_in(low, value_set=words) for words in _TRUTH)
    return pc.if_else(true, 1.0, pc.if_else(false, 0.0, None))


def _text_as_dates(text: Any) -> Any:
    """Read dates in the usual format that fits most of them; day before month where both fit."""
    tried = [pc.strptime(text, format=form, unit="s", error_is_null=True) for form in _DATES]
    return _days(min(tried, key=lambda read: read.null_count))


def _days(values: Any) -> Any:
    """Return days since 1970, with fractions."""
    seconds = pc.cast(pc.cast(values, pa.timestamp("s"), safe=False), pa.int64())
    return pc.divide(pc.cast(seconds, pa.float64()), _SECONDS_PER_DAY)


def expand_vectors(table: Any) -> Any:
    """Replace columns that hold a list of numbers of one length, such as embeddings, by a column per place."""
    columns: dict[str, Any] = {}
    known = set(table.column_names)
    for name, values in zip(table.column_names, table.columns, strict=True):
        whole = values.combine_chunks()
        lists = pa.types.is_list(whole.type) or pa.types.is_fixed_size_list(whole.type)
        lengths = pc.unique(pc.list_value_length(whole)).to_pylist() if lists else []
        if len(lengths) == 1 and lengths[0] and is_number(whole.type.value_type):
            if len(columns) + lengths[0] > MOST_COLUMNS:
                raise GraphError(
                    f"lists can become at most {MOST_COLUMNS:,} columns, found {lengths[0]:,} numbers per row in "
                    f"column '{name}'"
                )
            made = {f"{name}[{place}]": pc.list_element(whole, place) for place in range(lengths[0])}
            if taken := next((one for one in made if one in known), None):
                raise GraphError(
                    f"the numbers of column '{name}' become columns '{name}[0]' and so on, found another column "
                    f"'{taken}': rename one of them"
                )
            columns |= made
        else:
            columns[name] = values
    return pa.table(columns) if columns else table


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind))


def _is_time(kind: Any) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
