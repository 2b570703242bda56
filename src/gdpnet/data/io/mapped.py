"""Arrays in numpy's format, mapped: those of this machine as they are, those in an object store row by row."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gdpnet._core.files import Place
from gdpnet._core.files.fetched import Fetched, LocalFiles
from gdpnet._core.files.objects import ObjectPath
from gdpnet.data.features import Features, SparseRows, slice_rows, take_rows
from gdpnet.data.io.archive import read_header
from gdpnet.data.io.arrays import tensor_over

_MOST_HEADER = 1 << 12
"""Bytes in which numpy's header lies; those of arrays that are no records are shorter."""


@dataclass(frozen=True)
class Mapped:
    """A mapped array. Rows must be brought before they are read; the others are zero in an object store."""

    values: np.ndarray
    fetched: Fetched | None = None
    start: int = 0
    """Where the values begin in the object."""

    @property
    def _bytes_per_row(self) -> int:
        return self.values.itemsize * int(np.prod(self.values.shape[1:], dtype=np.int64))

    def bring(self, rows: Int[np.ndarray, "rows"]) -> np.ndarray:
        """Return the array after bringing some of its rows."""
        if self.fetched is not None:
            self.bring_ranges(rows, rows + 1)
        return self.values

    def bring_ranges(self, first: Int[np.ndarray, "ranges"], last: Int[np.ndarray, "ranges"]) -> np.ndarray:
        """Return the array after bringing rows, each range from its first number up to its last one."""
        if self.fetched is not None:
            size = self._bytes_per_row
            self.fetched.bring(self.start + first * size, self.start + last * size)
        return self.values

    def slice(self, rows: slice) -> np.ndarray:
        """Return consecutive rows."""
        return self.bring_ranges(np.array([rows.start]), np.array([rows.stop]))[rows]

    def is_current(self) -> bool:
        """Return whether what was brought is still what the object holds."""
        return self.fetched is None or self.fetched.is_current()

    def whole(self) -> np.ndarray:
        """Return the array with all its rows."""
        if self.fetched is not None:
            self.fetched.bring_all()
        return self.values


class MappedFeatures:
    """The rows of a mapped table, dense if there is one array, sparse if there are offsets, columns and values."""

    def __init__(self, *arrays: Mapped, width: int | None) -> None:
        self.arrays = arrays
        if width is None:
            self.features: Features = tensor_over(arrays[0].values)
        else:
            row_ptr, column, value = arrays
            offsets = torch.from_numpy(np.array(row_ptr.whole()))
            self.features = SparseRows(offsets, tensor_over(column.values), tensor_over(value.values), width)

    def take(self, rows: Int[Tensor, "taken"]) -> Features:
        """Return some rows, in the order given."""
        self._bring(rows, rows + 1)
        return take_rows(self.features, rows)

    def slice(self, rows: slice) -> Features:
        """Return consecutive rows."""
        self._bring(torch.tensor([rows.start]), torch.tensor([rows.stop]))
        return slice_rows(self.features, rows)

    def _bring(self, first: Int[Tensor, "ranges"], last: Int[Tensor, "ranges"]) -> None:
        if self.arrays[0].fetched is None:
            return
        ends = (first, last)
        if isinstance(self.features, SparseRows):
            ends = (self.features.row_ptr[first], self.features.row_ptr[last])
        for one in self.arrays[-2:]:
            one.bring_ranges(*(end.numpy() for end in ends))


@dataclass(frozen=True)
class Header:
    """What the head of a file in numpy's format says, and the size of the file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    start: int
    size: int


def map_file(place: Place, files: LocalFiles) -> tuple[Header, Fetched | None]:
    """Read the head of an array; an object has room in ``files`` for what will be brought."""
    if isinstance(place, ObjectPath):
        fetched = Fetched(place, files)
        head = fetched.read(0, min(_MOST_HEADER, fetched.size))
        return Header(*read_header(io.BytesIO(head)), fetched.size), fetched
    with place.open("rb") as file:
        return Header(*read_header(file), place.stat().st_size), None


def map_values(place: Place, header: Header, fetched: Fetched | None) -> Mapped:
    """Map an array whose head was read and checked; an empty one is made, since nothing can be mapped."""
    if 0 in header.shape:
        return Mapped(np.zeros(header.shape, header.dtype))
    if fetched is not None:
        return Mapped(fetched.array(header.dtype, header.shape, header.start), fetched, header.start)
    assert not isinstance(place, ObjectPath)
    return Mapped(np.memmap(place, header.dtype, "r", offset=header.start, shape=header.shape))
