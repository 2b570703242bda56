"""Read the arrays of an npz file that others may have written, without pickle and in bounded memory.

What the file declares, sizes and shapes, is compared with its real size and with the limits before it is read.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from gdpnet._core.limits import expanded
from gdpnet._core.regular import check_regular
from gdpnet.errors import GDPNetError, GraphError, reason_of

_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes; others need libraries that may be absent, and expand without bound."""

_KINDS = "biufSU"
"""Kinds of arrays: truth values, numbers and text."""

_BAD_HEADER = (MemoryError, RecursionError, SyntaxError, TokenError, ValueError, TypeError)
"""What numpy's reader of headers and Python's parser raise; of memory too, for deeply nested words."""

_ENDING = ".npy"
_PIECE = 1 << 20
_NPZ = "cannot be read as an npz file"


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """Return every plain array of an npz file by name; arrays that would need unpickling are left out."""
    try:
        check_regular(path)
        size = path.stat().st_size
        with path.open("rb") as content, zipfile.ZipFile(content) as archive:
            members = archive.infolist()
            _check_sizes(members, size)
            found = {}
            for member in members:
                with archive.open(member) as file:
                    array = _read_array(file, member)
                if array is not None:
                    found[member.filename.removesuffix(_ENDING)] = array
            return found
    except OSError as error:
        raise GraphError(f"{path} {_NPZ}: {reason_of(error)}") from error
    except GDPNetError as error:
        raise GraphError(f"{path} {_NPZ}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds for a damaged file
        raise GraphError(f"{path} {_NPZ}: it is truncated, damaged or something else") from error


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse what is no array, two of one name, compression that numpy does not write, and too much content."""
    for one in members:
        if not one.filename.endswith(_ENDING):  # its name may be damaged, and its array would be missed
            raise GraphError(f"it must hold arrays (.npy) alone, found '{one.filename[:80]}'")
    if len({one.filename for one in members}) < len(members):
        raise GraphError("it holds two arrays of one name")
    for one in members:
        if one.compress_type not in _READABLE or one.flag_bits & 1:
            raise GraphError(
                f"array '{one.filename}' must be stored or deflated, as numpy.savez writes it, found something else"
            )
    total, most = sum(one.file_size for one in members), expanded(size)
    if total > most:
        raise GraphError(f"its arrays may have {most:,} bytes for a file of this size, found {total:,}")


def _read_array(file: Any, member: zipfile.ZipInfo) -> np.ndarray | None:
    """Read one array; None if it holds Python objects."""
    shape, fortran, dtype, start = read_header(file)
    if dtype.hasobject:
        return None
    check_plain(dtype, member.filename)
    count = math.prod(shape)
    if start + count * dtype.itemsize != member.file_size:
        raise GraphError(
            f"array '{member.filename}' must be as large as its header says, {count * dtype.itemsize:,} bytes, found "
            f"{member.file_size - start:,}"
        )
    content = np.empty(count * dtype.itemsize, dtype=np.uint8)
    place = 0
    while place < content.size:
        piece = file.read(min(_PIECE, content.size - place))
        if not piece:
            raise GraphError(f"array '{member.filename}' is cut short")
        content[place : place + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        place += len(piece)
    if file.read(1):  # the end is where zipfile compares the checksum
        raise GraphError(f"array '{member.filename}' goes on after its end")
    array = content.view(dtype).reshape(shape[::-1]).T if fortran else content.view(dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Return shape, order and type of an array in numpy's format, and where its values begin."""
    version, readers = np.lib.format.read_magic(file), np.lib.format
    known = {(1, 0): readers.read_array_header_1_0, (2, 0): readers.read_array_header_2_0}
    if version not in known:
        raise GraphError(f"an array must be of numpy's format 1 or 2, found {version[0]}.{version[1]}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of headers that Python 2 wrote, and reads them
            shape, fortran, dtype = known[version](file)
    except _BAD_HEADER as error:
        raise GraphError("the header of an array must be as numpy writes it, found something else") from error
    if any(length < 0 for length in shape) or math.prod(shape) >= 1 << 62:
        raise GraphError(f"an array cannot have the shape {shape}")
    return shape, fortran, dtype, file.tell()


def check_plain(dtype: np.dtype, name: str) -> None:
    """Refuse arrays that hold neither numbers, truth values nor text."""
    if (
        dtype.kind not in _KINDS
        or dtype.names is not None
        or dtype.subdtype is not None
        or dtype.itemsize == 0
    ):
        raise GraphError(f"array '{name}' must hold numbers or text, found {dtype}")
