"""Arrays and sparse matrices as users give them: types, shapes and indices are checked before anything is computed.

Compiled code of scipy and torch trusts the indices of a sparse matrix, so a wrong one can end the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gdpnet._core.limits import FREE_BYTES, FREE_NODES
from gdpnet.errors import GraphError, reason_of

_COMPRESSED = ("csr", "csc", "bsr")
_PAIRS = ("coo",)


def tensor_of(values: Any, what: str) -> Tensor:
    """Convert a tensor, an array or a list of numbers; the result has the machine's byte order and no gaps."""
    if isinstance(values, Tensor):
        return _plain_tensor(values, what)
    array = array_of(values, what)
    if array.dtype.kind not in "biuf":
        found = "text" if array.dtype.kind in "SU" else "other values"
        raise GraphError(f"{what} must be numbers, found {found}")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise GraphError(f"{what} must fit 64 bits with a sign, found {int(array.max())}")
        array = array.astype(np.int64)
    elif array.dtype.itemsize > 8:  # numbers of more than double precision
        array = array.astype(np.float64)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    # torch takes neither steps backwards nor steps that are no whole number of values
    if any(stride < 0 or stride % array.itemsize for stride in array.strides) or not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)


def check_switches(**given: Any) -> None:
    """Refuse arguments that are neither true nor false: the text 'no' would count as true."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            found = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
            raise GraphError(f"'{name}' must be True or False, found {found}")


def length_of(value: Any) -> int:
    """Return how many values a list has, with those of lists in it; a range takes no memory until it is an array."""
    if isinstance(value, np.ndarray | Tensor):
        return int(np.prod(value.shape))
    if not isinstance(value, list | tuple | range):
        return 1
    inner = {type(one) for one in value} if isinstance(value, list | tuple) else set()
    nested = any(issubclass(kind, list | tuple | range) for kind in inner)
    return sum(length_of(one) for one in value) if nested else len(value)


def array_of(values: Any, what: str) -> np.ndarray:
    """Return an array of what a user gives; refuse rows of different lengths and arrays that repeat their memory."""
    if isinstance(values, np.ma.MaskedArray):
        raise GraphError(f"{what} must be a plain array, found a masked one: fill it first")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise GraphError(f"{what} must be an array, found rows of different lengths") from error
    except (TypeError, RuntimeError, OverflowError, RecursionError, AttributeError) as error:
        raise GraphError(
            f"{what} must be an array, found {type(values).__name__}: {reason_of(error)}"
        ) from error
    _check_repeats(array.strides, array.shape, array.nbytes, what)
    return array


def _plain_tensor(values: Tensor, what: str) -> Tensor:
    if values.layout != torch.strided or values.is_meta or values.is_quantized or values.is_complex():
        raise GraphError(f"{what} must be a plain tensor of numbers, found {values.layout}, {values.dtype}")
    size = values.numel() * values.element_size()
    strides = tuple(stride * values.element_size() for stride in values.stride())
    _check_repeats(strides, tuple(values.shape), size, what)
    found = values.detach().cpu()
    if found.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return tensor_of(found.numpy(), what)
    return found


def _check_repeats(strides: tuple[int, ...], shape: tuple[int, ...], size: int, what: str) -> None:
    """Refuse an array that is larger than the memory it lies in: a copy would be as large as it says."""
    lies_in = 1 + sum(abs(stride) * (length - 1) for stride, length in zip(strides, shape, strict=True))
    if size > FREE_BYTES and size > 8 * lies_in:
        raise GraphError(f"{what} must be an array with memory of its own, found {size:,} bytes that repeat")


def checked_matrix(matrix: Any, what: str) -> sp.csr_matrix:
    """Return a sparse matrix in CSR layout, after checking that its indices lie in it."""
    if not sp.issparse(matrix):
        raise GraphError(f"{what} must be a scipy sparse matrix, found {type(matrix).__name__}")
    if matrix.ndim != 2:
        raise GraphError(f"{what} must have two dimensions, found {matrix.ndim}")
    layout, shape = matrix.format, (int(matrix.shape[0]), int(matrix.shape[1]))
    if layout in _COMPRESSED:
        _check_compressed(matrix, layout, shape, what)
    elif layout in _PAIRS:
        row, column = matrix.coords
        _check_pairs(row, column, matrix.data, shape, what)
    elif layout == "lil":
        _check_lists(matrix, shape, what)
    elif layout == "dia":
        _check_diagonals(matrix, shape, what)
    check_rows(shape[0], int(matrix.nnz), what)
    try:
        found = sp.csr_matrix(matrix)
    except (ValueError, TypeError, IndexError, OverflowError, RuntimeError, AttributeError) as error:
        raise GraphError(f"{what} must be a matrix of numbers: {reason_of(error)}") from error
    check_csr(found.indptr, found.indices, found.data, tuple(found.shape), what)
    return found


def check_rows(rows: int, stored: int, what: str) -> None:
    """Refuse a shape of far more rows than there are values: memory is needed for each."""
    most = max(FREE_NODES, 100 * stored)
    if rows > most:
        raise GraphError(f"{what} may have {most:,} rows as it stores {stored:,} values, found {rows:,}")


def _check_compressed(matrix: Any, layout: str, shape: tuple[int, int], what: str) -> None:
    data, lengths = matrix.data, shape
    if layout == "bsr":
        if data.ndim != 3 or 0 in data.shape[1:] or shape[0] % data.shape[1] or shape[1] % data.shape[2]:
            raise GraphError(f"{what} must be of whole blocks, found data of shape {data.shape}")
        lengths = (shape[0] // data.shape[1], shape[1] // data.shape[2])
        data = data[:, 0, 0] if data.size else np.zeros(0, dtype=data.dtype)
    # the columns of a CSC matrix are what the rows of a CSR matrix are
    check_csr(matrix.indptr, matrix.indices, data, lengths[::-1] if layout == "csc" else lengths, what)


def check_csr(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, shape: tuple[int, ...], what: str
) -> None:
    """Refuse offsets that do not ascend, indices outside the matrix, and values that are not numbers."""
    if len(shape) != 2 or min(shape) < 0:
        raise GraphError(f"{what} must have two dimensions, found shape {shape}")
    for name, array, kinds in (("indptr", indptr, "iu"), ("indices", indices, "iu"), ("data", data, "biuf")):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in kinds:
            raise GraphError(f"{what}: {name} must be a row of {'whole ' * (kinds == 'iu')}numbers")
    if indptr.size != shape[0] + 1:
        raise GraphError(f"{what}: indptr must have {shape[0] + 1:,} values, found {indptr.size:,}")
    if indices.size != data.size or int(indptr[0]) != 0 or int(indptr[-1]) != indices.size:
        raise GraphError(
            f"{what}: indptr must run from 0 to the number of indices and of values, found {int(indptr[0])} to "
            f"{int(indptr[-1])}, {indices.size:,} indices and {data.size:,} values"
        )
    if bool((indptr[1:] < indptr[:-1]).any()):
        raise GraphError(f"{what}: indptr must ascend, found a smaller number after a larger one")
    _check_indices(indices, shape[1], what)


def _check_pairs(row: Any, column: Any, data: Any, shape: tuple[int, int], what: str) -> None:
    for one, most in ((row, shape[0]), (column, shape[1])):
        if one.ndim != 1 or one.dtype.kind not in "iu" or one.size != data.size:
            raise GraphError(f"{what} must have a row and a column for each of {data.size:,} values")
        _check_indices(one, most, what)


def _check_lists(matrix: Any, shape: tuple[int, int], what: str) -> None:
    """Refuse a matrix of lists (LIL) without one list of columns and one of as many values per row."""
    for lists in (matrix.rows, matrix.data):
        if not isinstance(lists, np.ndarray) or lists.shape != (shape[0],) or lists.dtype != object:
            raise GraphError(f"{what} must have one list per row, found others")
    for row, (columns, values) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if not (isinstance(columns, list) and isinstance(values, list) and len(columns) == len(values)):
            raise GraphError(f"{what} must have as many columns as values in each row; row {row} does not")


def _check_diagonals(matrix: Any, shape: tuple[int, int], what: str) -> None:
    """Refuse a matrix of diagonals (DIA) whose offsets are not those of its diagonals."""
    offsets, data = matrix.offsets, matrix.data
    for array, dimensions, kinds in ((offsets, 1, "iu"), (data, 2, "biuf")):
        if not isinstance(array, np.ndarray) or array.ndim != dimensions or array.dtype.kind not in kinds:
            raise GraphError(f"{what} must have a row of offsets and one of numbers for each, found others")
    if offsets.size != data.shape[0] or np.unique(offsets).size != offsets.size:
        raise GraphError(
            f"{what} must have one offset for each of {data.shape[0]:,} diagonals, found {offsets.size:,}"
        )
    if offsets.size and not -shape[0] < int(offsets.min()) <= int(offsets.max()) < shape[1]:
        raise GraphError(f"{what}: offsets must be those of diagonals of a matrix of shape {shape}")


def _check_indices(indices: np.ndarray, most: int, what: str) -> None:
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < most:
        low, high = int(indices.min()), int(indices.max())
        raise GraphError(f"{what}: indices must lie between 0 and {most - 1}, found {low} to {high}")
