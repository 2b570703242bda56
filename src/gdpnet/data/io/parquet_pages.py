"""Read the headers of the pages of a Parquet file: what its values really take, whatever its footer says.

A footer names sizes and encodings of each column, but a decoder follows the headers of the pages. So a small file
can promise little and hold gigabytes.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DICTIONARY_PAGE, _DATA_PAGE, _DATA_PAGE_V2 = 2, 0, 3
_ABOUT = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
"""The field of a page header that holds more about a page of some type."""

_TYPE, _EXPANDED, _COMPRESSED, _VALUES = 1, 2, 3, 1
_DICTIONARY_ENCODINGS = (2, 8)
_PLAIN_SIZES = (0, 3, 4, 6, 9)
"""Encodings whose texts are as large in memory as the page: plain, runs, bits, lengths first, split streams."""

_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes of truth values, which are part of their type, of bytes and of floats."""

_DEEPEST = 8


@dataclass
class Pages:
    """What the pages of a column of a row group hold."""

    stored: int = 0
    """Bytes in the file."""
    expanded: int = 0
    """Bytes after decompression."""
    repeats: bool = False
    """Whether values are stored once and repeated."""
    grows: bool = False
    """Whether values are stored in a way that lets texts grow, such as differences."""


@contextmanager
def opened_bytes(path: Path) -> Iterator[mmap.mmap]:
    """Map a file into memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def pages_of(content: mmap.mmap, column: Any) -> Pages:
    """Walk over the pages of a column of a row group as a decoder does."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    start, end, seen, found = at, at + column.total_compressed_size, 0, Pages()
    while at < end and seen < column.num_values:
        header, at = _read_struct(content, at, 0)
        kind, size = header.get(_TYPE, -1), header[_COMPRESSED]
        if size < 0 or header[_EXPANDED] < 0:
            raise ValueError("a page has a size below 0")
        about = header.get(_ABOUT.get(kind, 0), {})
        encoding = about.get(4 if kind == _DATA_PAGE_V2 else 2, 0)
        found.expanded += header[_EXPANDED]
        found.repeats |= kind == _DICTIONARY_PAGE or encoding in _DICTIONARY_ENCODINGS
        found.grows |= encoding not in (*_PLAIN_SIZES, *_DICTIONARY_ENCODINGS)
        seen += 0 if kind == _DICTIONARY_PAGE else about.get(_VALUES, 0)
        at += size
    found.stored = at - start
    return found


def _read_struct(content: mmap.mmap, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read a struct in Thrift's compact protocol; return its fields by number, and where it ends."""
    if depth > _DEEPEST:
        raise ValueError("a page header is nested too deeply")
    fields, number = dict[int, Any](), 0
    while head := content[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_signed(content, at)
        fields[number], at = _read_value(content, at, head & 15, depth)
    return fields, at + 1


def _read_value(content: mmap.mmap, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Read a number or a struct; values of other types are passed over."""
    if kind in _FIXED:
        return None, at + _FIXED[kind]
    if kind in (4, 5, 6):
        return _read_signed(content, at)
    if kind in (9, 10):
        return None, _pass_list(content, at, depth)
    if kind == 12:
        return _read_struct(content, at, depth + 1)
    if kind != 8:
        raise ValueError(f"a page header has a value of unknown type {kind}")
    size, at = _read_unsigned(content, at)
    return None, at + size


def _pass_list(content: mmap.mmap, at: int, depth: int) -> int:
    size, kind, at = content[at] >> 4, content[at] & 15, at + 1
    if size == 15:
        size, at = _read_unsigned(content, at)
    for _ in range(size):
        at = at + 1 if kind in (1, 2) else _read_value(content, at, kind, depth + 1)[1]
        if at > len(content):
            raise ValueError("a page header is cut")
    return at


def _read_unsigned(content: mmap.mmap, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[at]
        number, at, shift = number | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise ValueError("a page header has a number of more than 64 bits")


def _read_signed(content: mmap.mmap, at: int) -> tuple[int, int]:
    number, at = _read_unsigned(content, at)
    return number >> 1 ^ -(number & 1), at
