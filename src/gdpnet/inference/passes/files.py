"""The files of a run by blocks: each pass writes tables of nodes or edges, one file per block and table.

A file is written whole or not at all, and is read by mapping it: nothing of another block is copied but the rows that
are asked for.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.files import atomic_path
from gdpnet.data.features import Features, SparseRows, stack_rows
from gdpnet.data.io.arrays import tensor_over
from gdpnet.inference.shards import Seal

_MOST_MAPPED = 1024
"""Files that stay mapped; a process may map some ten thousand."""

_SPARSE = ("row_ptr", "column", "value")


def write_array(path: Path, values: np.ndarray) -> Seal:
    """Write an array as a ``.npy`` file, whole or not at all; return size and checksum of the file."""
    return write_pieces(path, values.dtype, values.shape, [values])


def write_pieces(path: Path, dtype: np.dtype, shape: tuple[int, ...], arrays: Iterable[np.ndarray]) -> Seal:
    """Write the array that some arrays are below each other; they are taken one at a time.

    The system writes it to disk when it likes: a resumed run compares the checksum.
    """
    header = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    digest, size = hashlib.sha256(header.getbuffer()), header.tell()
    with atomic_path(path, durable=False) as temporary, temporary.open("wb") as file:
        file.write(header.getbuffer())
        for values in arrays:
            content = np.ascontiguousarray(values, dtype).reshape(-1).view(np.uint8).data
            digest.update(content)
            size += file.write(content)
    return Seal(size, digest.hexdigest())


def map_array(path: Path) -> np.ndarray:
    """Map an array that `write_array` wrote; an empty one is read, since nothing can be mapped."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        start = file.tell()
    assert version == (1, 0), "written by write_array"
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape)


class BlockFiles:
    """The tables that the passes of a run have written so far.

    ``nodes`` and ``edges`` are the first node and the first edge of each block, and their numbers at the end.
    """

    def __init__(
        self, folder: Path, nodes: Int[np.ndarray, "bounds"], edges: Int[np.ndarray, "bounds"]
    ) -> None:
        self.folder, self.nodes, self.edges = folder, nodes, edges
        self._map = lru_cache(_MOST_MAPPED)(self._map_new)

    def path(self, name: str, number: int) -> Path:
        """Return the file of a table and block."""
        return self.folder / f"{name}-{number:05d}.npy"

    def _map_new(self, name: str, number: int) -> np.ndarray:
        return map_array(self.path(name, number))

    def block(self, name: str, number: int) -> Tensor:
        """Return what a pass wrote for one block, mapped: it must not be changed."""
        return tensor_over(self._map(name, number))

    def rows(self, name: str, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the rows of some nodes, which must ascend."""
        parts = list(_by_block(nodes.numpy(), self.nodes))
        if any(self.path(f"{name}.column", number).exists() for number, _, _ in parts):
            return stack_rows([self._sparse(name, number)[place] for number, _, place in _as_tensors(parts)])
        return self._gather(name, nodes.numel(), parts)

    def dense_rows(self, name: str, nodes: Int[Tensor, "nodes"]) -> Shaped[Tensor, "nodes *any"]:
        """Return the rows of some nodes, which must ascend, of a table that is dense."""
        return self._gather(name, nodes.numel(), list(_by_block(nodes.numpy(), self.nodes)))

    def of_edges(self, name: str, edges: Int[Tensor, "edges"]) -> Float[Tensor, "edges"]:
        """Return the values of some edges, in any order; zero for the number -1."""
        order = torch.argsort(edges)
        ascending = edges[order]
        missing = int(torch.searchsorted(ascending, 0))
        found = torch.zeros(edges.numel())
        wanted = ascending[missing:].numpy()
        found[order[missing:]] = self._gather(name, wanted.size, list(_by_block(wanted, self.edges)))
        return found

    def edge_rows(self, name: str, edges: Int[Tensor, "edges"]) -> Shaped[Tensor, "edges *any"]:
        """Return the rows of some edges, which must ascend."""
        return self._gather(name, edges.numel(), list(_by_block(edges.numpy(), self.edges)))

    def _gather(self, name: str, count: int, parts: list[tuple[int, slice, np.ndarray]]) -> Tensor:
        first = self._map(name, parts[0][0])
        out = np.empty((count, *first.shape[1:]), first.dtype)
        for number, here, place in parts:
            np.take(self._map(name, number), place, axis=0, out=out[here], mode="clip")
        return torch.from_numpy(out)

    def _sparse(self, name: str, number: int) -> _Sliceable:
        if not self.path(f"{name}.column", number).exists():
            return _Sliceable(self.block(name, number))
        row_ptr, column, value = (self.block(f"{name}.{part}", number) for part in _SPARSE)
        width = int(self.block(f"{name}.width", number))
        return _Sliceable(SparseRows(row_ptr, column, value, width))


class _Sliceable:
    """Features whose rows are taken by their places."""

    def __init__(self, features: Features) -> None:
        self.features = features

    def __getitem__(self, place: Tensor) -> Features:
        return self.features.take(place) if isinstance(self.features, SparseRows) else self.features[place]


def arrays_of_table(name: str, values: Features) -> dict[str, np.ndarray]:
    """Return the arrays of a table by the names of their files: one if it is dense, four if it is sparse."""
    if isinstance(values, Tensor):
        return {name: values.detach().cpu().numpy()}
    arrays = {f"{name}.{part}": getattr(values, part).numpy() for part in _SPARSE}
    return arrays | {f"{name}.width": np.array(values.width)}


def _by_block(
    wanted: Int[np.ndarray, "wanted"], bounds: Int[np.ndarray, "bounds"]
) -> Iterator[tuple[int, slice, Int[np.ndarray, "some"]]]:
    """Yield each block that holds some of the numbers, which must ascend: the numbers, and their places in it.

    If there are none, yield the first block with no places, which says of which type and width rows are.
    """
    if not wanted.size:
        yield 0, slice(0, 0), wanted
        return
    first, last = np.searchsorted(bounds, wanted[[0, -1]], side="right") - 1
    ends = np.searchsorted(wanted, bounds[first + 1 : last + 2])
    start = 0
    for number, end in enumerate(ends.tolist(), start=int(first)):
        if end > start:
            yield number, slice(start, end), wanted[start:end] - bounds[number]
        start = end


def _as_tensors(parts: Any) -> Iterator[tuple[int, slice, Tensor]]:
    for number, here, place in parts:
        yield number, here, torch.from_numpy(np.ascontiguousarray(place))
