"""Tables in files as they come: CSV, TSV and text, also compressed, Parquet, and folders of Parquet parts."""

from __future__ import annotations

import csv as python_csv
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from gdpnet.data.io.dialect import Dialect, find_dialect, with_decimal_points
from gdpnet.errors import GraphError

PARQUET = ".parquet"

READ_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", PARQUET)
"""Endings of the names of tables that are read."""

_UNREADABLE = (pa.ArrowException, python_csv.Error, zlib.error, EOFError, ValueError, OSError)


@dataclass(frozen=True)
class TableFile:
    """A table that was found: its path, the names of its columns, and how it is written."""

    path: Path
    names: tuple[str, ...]
    """The names of the columns, without spaces around them."""
    dialect: Dialect | None
    """How a file of separated values is written; None for Parquet."""

    def read(self, text: Iterable[str] = ()) -> tuple[Any, tuple[str, ...]]:
        """Return an Arrow table, and notes on how it was read; CSV columns named in ``text`` are read as text."""
        try:
            if self.dialect is None:
                table = _read_parquet(self.path)
                kept = table.schema.metadata  # renaming would lose it
                return table.rename_columns(list(self.names)).replace_schema_metadata(kept), ()
            return self._read_csv(self.dialect, tuple(text))
        except _UNREADABLE as error:
            raise _unreadable(self.path, error) from error

    def _read_csv(self, dialect: Dialect, text: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        spelled = zip(dialect.header, self.names, strict=True)
        types = {given: pa.string() for given, name in spelled if name in text}
        table = csv.read_csv(
            self.path,
            read_options=csv.ReadOptions(encoding=dialect.encoding),
            parse_options=csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types),
        ).rename_columns(list(self.names))
        notes = []
        if dialect.is_guess:
            notes.append(f"{self.path.name} is not UTF-8 and was read as latin-1")
        if dialect.delimiter != ",":
            table, changed = with_decimal_points(table, except_for=text)
            if changed:
                notes.append(f"decimal commas were read in {self.path.name}: {', '.join(changed[:5])}")
        return table, tuple(notes)


@dataclass(frozen=True)
class TableInMemory(TableFile):
    """A table that is an Arrow table already; its path is how errors and notes call it."""

    table: Any = None

    def read(self, text: Iterable[str] = ()) -> tuple[Any, tuple[str, ...]]:
        """Return the table."""
        return self.table, ()


def open_table(path: Path) -> TableFile:
    """Find the names of the columns of a table and how it is written, without reading it whole."""
    try:
        if _is_parquet(path):
            names, dialect = pq.read_schema(_parts_of(path)[0]).names, None
        else:
            dialect = find_dialect(path)
            names = list(dialect.header)
    except GraphError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    return TableFile(path, tuple(name.strip() for name in names), dialect)


def find_table(folder: Path, stem: str) -> Path | None:
    """Return the table of a name in a folder, None if there is none; refuse several."""
    endings = ("", *READ_SUFFIXES)
    found = [
        path for path in sorted(folder.iterdir()) if path.name.lower() in {stem + end for end in endings}
    ]
    found = [path for path in found if is_table(path)]
    if len(found) > 1:
        raise GraphError(f"{folder} must hold one table '{stem}', found {found[0].name} and {found[1].name}")
    return found[0] if found else None


def is_table(path: Path) -> bool:
    """Return whether a path is a file that can be read as a table, or a folder of Parquet files."""
    return has_parts(path) if path.is_dir() else bool(_ending_of(path))


def has_parts(path: Path) -> bool:
    """Return whether a path is a folder that holds Parquet files."""
    return path.is_dir() and bool(_parts_of(path))


def _ending_of(path: Path) -> str:
    return next((end for end in READ_SUFFIXES if path.name.lower().endswith(end)), "")


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == PARQUET or path.is_dir()


def _parts_of(path: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names, or the path itself."""
    if not path.is_dir():
        return [path]
    return sorted(part for part in path.glob(f"*{PARQUET}") if not part.name.startswith(("_", ".")))


def _read_parquet(path: Path) -> Any:
    parts = []
    for part in _parts_of(path):
        with pq.ParquetFile(part, page_checksum_verification=True) as file:
            parts.append(file.read())
    return pa.concat_tables(parts, promote_options="permissive") if len(parts) > 1 else parts[0]


def _unreadable(path: Path, error: Exception) -> GraphError:
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else " ".join(str(error).split()).rstrip(".")
    kind = "PARQUET" if _is_parquet(path) else (_ending_of(path) or ".csv").split(".")[1].upper()
    return GraphError(f"{path} cannot be read as a {kind} table: {reason}")
