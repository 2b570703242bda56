"""Tables in files as they come: CSV, TSV and text, also compressed, Parquet, and folders of Parquet parts."""

from __future__ import annotations

import csv as python_csv
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from gdpnet._core.limits import MOST_COLUMNS, expanded
from gdpnet._core.regular import check_regular
from gdpnet.data.io.dialect import Dialect, find_dialect, open_quote, with_decimal_points
from gdpnet.data.io.parquet_pages import opened_bytes, pages_of
from gdpnet.errors import GraphError, reason_of

PARQUET = ".parquet"

READ_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", PARQUET)
"""Endings of the names of tables that are read."""

_UNREADABLE = (
    *(pa.ArrowException, python_csv.Error, zlib.error, EOFError, OSError),
    *(ValueError, TypeError, LookupError, RecursionError, OverflowError),
)
"""What readers raise for damaged files."""

_FEW_ROWS = 1024


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
                table = _read_parquets(self.path)
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
        if line := open_quote(self.path, dialect, _line_breaks_at_end(table)):
            raise GraphError(
                f"{self.path} has a quoted value that does not end, in the row that begins in line {line:,}: the "
                "file was cut, or a quote inside a value is not written twice"
            )
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
        for part in parts_of(path):
            check_regular(part)
        if _is_parquet(path):
            names, dialect = pq.read_schema(parts_of(path)[0]).names, None
        else:
            dialect = find_dialect(path)
            names = list(dialect.header)
    except GraphError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    if len(names) > MOST_COLUMNS:
        raise GraphError(f"{path} can have at most {MOST_COLUMNS:,} columns, found {len(names):,}")
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
    return path.is_dir() and bool(parts_of(path))


def _ending_of(path: Path) -> str:
    return next((end for end in READ_SUFFIXES if path.name.lower().endswith(end)), "")


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == PARQUET or path.is_dir()


def parts_of(path: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names, or the path itself."""
    if not path.is_dir():
        return [path]
    return sorted(part for part in path.glob(f"*{PARQUET}") if not part.name.startswith(("_", ".")))


def _read_parquets(path: Path) -> Any:
    """Read the parts of a table, in bounded memory, and check that texts are UTF-8 and offsets lie in them."""
    parts, left = [], sum(expanded(part.stat().st_size) for part in parts_of(path))
    for part in parts_of(path):
        table = _read_parquet(part, left)
        table.validate(full=True)
        left -= table.nbytes
        parts.append(table)
    return pa.concat_tables(parts, promote_options="permissive") if len(parts) > 1 else parts[0]


def _read_parquet(path: Path, most: int) -> Any:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        repeated, grows = _repeated_texts(file, path, most)
    with pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=repeated) as file:
        table = _read_pieces(file, path, most) if grows else file.read()
    columns = list(table.columns)
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if not pa.types.is_dictionary(column.type):
            continue
        most -= sum(_decoded_size(chunk) for chunk in column.chunks)
        if most < 0:
            raise GraphError(f"{path}: column '{name}' is too large for a file of this size")
        columns[place] = column.cast(column.type.value_type) if name in repeated else column
    names, kept = table.column_names, table.schema.metadata
    return pa.Table.from_arrays(columns, names=names, metadata=kept) if repeated else table


def _repeated_texts(file: Any, path: Path, most: int) -> tuple[list[str], bool]:
    """Return the columns whose texts are stored once and repeated; refuse more values than a file may hold.

    Such a column can be far larger in memory than in the file, so its size is found before it is written out; one in
    a list or an object never is. Also return whether there are texts that are stored as differences.
    """
    about, found, size, stored, grows = file.metadata, dict[str, None](), 0, 0, False
    columns = (
        (place, about.row_group(number).column(place))
        for number in range(about.num_row_groups)
        for place in range(about.num_columns)
    )
    with opened_bytes(path) as content:
        for place, column in columns:
            pages, is_text = pages_of(content, column), column.physical_type == "BYTE_ARRAY"
            values = 0 if is_text else column.num_values * max(8, file.schema.column(place).length)
            size, stored = size + max(values, pages.expanded), stored + pages.stored
            if stored > len(content):
                raise GraphError(f"{path} has columns that share bytes of the file, which no writer makes")
            if size > most:
                raise GraphError(f"{path} may hold {most:,} bytes for a file of this size, found more")
            grows |= is_text and pages.grows
            if is_text and pages.repeats:
                found[column.path_in_schema] = None
    names = file.schema_arrow.names
    return [name for name in found if names.count(name) == 1 or name not in names], grows


def _read_pieces(file: Any, path: Path, most: int) -> Any:
    """Read a file some rows at a time, until it is larger than it may be."""
    pieces = []
    for piece in file.iter_batches(_FEW_ROWS):
        most -= piece.nbytes
        if most < 0:
            raise GraphError(f"{path} is too large for a file of this size: its texts repeat")
        pieces.append(piece)
    return pa.Table.from_batches(pieces, file.schema_arrow)


def _decoded_size(chunk: Any) -> int:
    """Return the bytes of the texts of a chunk that is a dictionary and places in it."""
    kind = chunk.type.value_type
    if not (_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return 8 * len(chunk)
    lengths = np.array(pc.fill_null(pc.binary_length(chunk.dictionary), 0), dtype=np.int64)
    places = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
    return int(lengths[places].sum()) if lengths.size else 0


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _line_breaks_at_end(table: Any) -> int:
    """Return how many line breaks the values of the last row have."""
    last = table.slice(max(0, table.num_rows - 1))
    values = [str(value) for column in last.columns for value in column.to_pylist()]
    return sum(max(value.count("\n"), value.count("\r")) for value in values)


def _unreadable(path: Path, error: Exception) -> GraphError:
    kind = "PARQUET" if _is_parquet(path) else (_ending_of(path) or ".csv").split(".")[1].upper()
    if isinstance(error, GraphError):
        return error
    reason = reason_of(error)
    if "straddling object" in reason:  # of two blocks in which the file is read
        reason = "a row must have less than 1 MiB, found a longer one"
    return GraphError(f"{path} cannot be read as a {kind} table: {reason}")
