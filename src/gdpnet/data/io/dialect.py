"""Find out how a file of separated values is written: its encoding, delimiter, column names and decimal commas."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gdpnet._core.limits import expanded
from gdpnet.errors import GraphError

_DELIMITERS = (";", "\t", "|", ",")
"""In the order of preference: where a semicolon and a comma fit alike, the comma is a decimal one."""

_ENCODINGS = ("utf-8", "cp1252", "latin-1")
"""Tried in this order; cp1252 is what most files called latin-1 are, and latin-1 reads any bytes."""

_SAMPLE = 50
"""Lines that the delimiter is found from."""

_PIECE = 1 << 20
_LONGEST_LINE = 16 << 20
"""Characters of a line that the delimiter is found from."""

_DECIMAL_COMMA = r"^\s*[+-]?(\d+|\d*,\d+|\d+,)([eE][+-]?\d+)?\s*$"
_GROUPED = r"^\s*[+-]?\d{1,3}(\.\d{3})+(,\d*)?\s*$"
"""Numbers with points between thousands, which some write beside decimal commas."""

_ABSENT = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


@dataclass(frozen=True)
class Dialect:
    """How a file of separated values is written."""

    encoding: str
    delimiter: str
    header: tuple[str, ...]
    """The names of the columns as they stand in the file."""

    @property
    def is_guess(self) -> bool:
        """Return whether the encoding is a guess, because the file is not UTF-8 and does not say what it is."""
        return self.encoding in _ENCODINGS[1:]


def find_dialect(path: Path) -> Dialect:
    """Find out how a file is written; refuse one that is not text or begins without column names."""
    encoding = _encoding_of(path)
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    with opened(path) as file, io.TextIOWrapper(file, codec, newline="") as text:
        lines = [line for line in (text.readline(_LONGEST_LINE) for _ in range(_SAMPLE)) if line]
    if lines and len(lines[0]) >= _LONGEST_LINE:
        raise GraphError(f"{path} must begin with a row of column names, found a row of more than 16 MiB")
    delimiter = _delimiter_of(lines, spaces=".txt" in path.suffixes)
    header = next((row for row in csv.reader(lines, delimiter=delimiter) if row), [])
    if header and any(name.strip() for name in header) and all(_is_number(name) for name in header):
        found = ", ".join(f"'{name.strip()}'" for name in header[:3])
        raise GraphError(
            f"{path} must begin with a row of column names, such as source,target, found {found}"
        )
    return Dialect(encoding, delimiter, tuple(header))


def opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a file for reading, decompressed if it ends in .gz."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def open_quote(path: Path, dialect: Dialect, breaks: int) -> int | None:
    """Return the line in which the last row begins if a quote in it has no partner.

    ``breaks`` is the number of line breaks within values of that row. Without any, the last line is the row, and is
    looked at field by field; else a quote has no partner if the file has an odd number of them.
    """
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    quotes, lines, last = 0, 1, [""]
    for text in map(decoder.decode, _pieces(path)):
        quotes, lines = quotes + text.count('"'), lines + text.count("\n")
        _, is_new, end = text.rpartition("\n")
        last = [end] if is_new else [*last, end]
    ends = "".join(last).split("\r")
    if lines == 1:
        lines = len(ends)
    is_open = quotes % 2 == 1 if breaks else _ends_in_quotes(ends[-1], dialect.delimiter)
    return lines - breaks if is_open else None


def _ends_in_quotes(row: str, delimiter: str) -> bool:
    """Return whether the last field of a row begins with a quote that does not end."""
    other = f"[^{re.escape(delimiter)}]*+"
    quoted = '"(?:[^"]++|"")*+'
    field = f'(?:{quoted}"{other}|(?!"){other})'
    return re.fullmatch(f"(?:{field}{re.escape(delimiter)})*+{quoted}", row) is not None


def with_decimal_points(table: Any, except_for: Iterable[str]) -> tuple[Any, list[str]]:
    """Turn columns of text that hold only numbers with decimal commas into numbers; return their names too."""
    changed, kept, columns = [], set(except_for), list(table.columns)
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if name in kept or not pa.types.is_string(column.type):
            continue
        given = pc.if_else(pc.is_in(column, value_set=pa.array(_ABSENT)), None, column)
        if given.null_count < len(given) and (text := _with_points(given)) is not None:
            columns[place] = pc.cast(text, pa.float64())
            changed.append(name)
    if not changed:
        return table, changed
    return pa.Table.from_arrays(columns, names=table.column_names, metadata=table.schema.metadata), changed


def _with_points(given: Any) -> Any:
    """Return numbers with decimal commas as text with decimal points; None if not all are such numbers."""
    plain = pc.match_substring_regex(given, _DECIMAL_COMMA)
    text = pc.utf8_trim_whitespace(given)
    if not pc.all(plain).as_py():
        grouped = pc.match_substring_regex(given, _GROUPED)
        # without a comma anywhere, a point may be a decimal one
        if not (pc.all(pc.or_(plain, grouped)).as_py() and pc.any(pc.match_substring(given, ",")).as_py()):
            return None
        text = pc.if_else(grouped, pc.replace_substring(text, ".", ""), text)
    return pc.replace_substring(text, ",", ".")


def _encoding_of(path: Path) -> str:
    """Return the encoding of a file: by its byte-order mark, else the first that all of its bytes fit."""
    with opened(path) as file:
        start = file.read(_PIECE)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        if not _fits(path, "utf-16"):
            raise GraphError(f"{path} must be text, found a byte-order mark of UTF-16 and other bytes")
        return "utf-16"
    if b"\0" in start:
        raise GraphError(
            f"{path} must be text in UTF-8, found other bytes (UTF-16 must begin with a byte-order mark)"
        )
    return next(name for name in _ENCODINGS if _fits(path, name))


def _fits(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in _pieces(path):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _pieces(path: Path) -> Iterator[bytes]:
    """Read a file piece by piece; refuse a compressed one with more content than its size allows."""
    read, most = 0, expanded(path.stat().st_size)
    with opened(path) as file:
        while piece := file.read(_PIECE):
            read += len(piece)
            if read > most:
                raise GraphError(f"{path} may hold {most:,} bytes for a file of this size, found more")
            yield piece


def _delimiter_of(lines: list[str], *, spaces: bool) -> str:
    """Return the delimiter that cuts most lines into as many fields as the header, and the header into most."""
    rows = re.sub(r'"[^"]*"', "", "".join(lines)).splitlines()
    rows = [row for row in rows if row.strip()] or [""]

    def fit(delimiter: str) -> tuple[bool, int]:
        cuts = rows[0].count(delimiter)
        alike = sum(row.count(delimiter) == cuts for row in rows)
        return cuts > 0 and alike >= 0.8 * len(rows), cuts

    best = max(_DELIMITERS, key=fit)
    if best in rows[0]:
        return best
    return " " if spaces and " " in rows[0] else ","


def _is_number(name: str) -> bool:
    return re.fullmatch(r"\s*([+-]?\d+([.,]\d+)?([eE][+-]?\d+)?)?\s*", name) is not None
