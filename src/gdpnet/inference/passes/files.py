"""The files of a run by blocks: each pass writes tables of nodes or edges, one file per block and table.

A file is written whole or not at all, and is read by mapping it: nothing of another block is copied, or brought from
an object store, but the rows that are asked for.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gdpnet._core.files import Place, atomic_path
from gdpnet._core.files.fetched import LocalFiles
from gdpnet._core.files.objects import ObjectPath
from gdpnet.data.features import Features, stack_rows
from gdpnet.data.io.arrays import tensor_over
from gdpnet.data.io.mapped import Mapped, MappedFeatures, map_file, map_values
from gdpnet.inference.shards import Seal

_MOST_MAPPED = 1024
"""Files that stay mapped; a process may map some ten thousand."""

_SPARSE = ("row_ptr", "column", "value")


def write_array(path: Place, values: np.ndarray) -> Seal:
    """Write an array as a ``.npy`` file, whole or not at all; return size and checksum of the file."""
    return write_pieces(path, values.dtype, values.shape, [values])


def write_pieces(path: Place, dtype: np.dtype, shape: tuple[int, ...], arrays: Iterable[np.ndarray]) -> Seal:
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


def map_array(path: Place, files: LocalFiles) -> Mapped:
    """Map an array that `write_array` wrote."""
    return map_values(path, *map_file(path, files))


class BlockFiles:
    """The tables that the passes of a run have written so far.

    ``nodes`` and ``edges`` are the first node and the first edge of each block, and their numbers at the end.
    """

    def __init__(
        self, folder: Place, nodes: Int[np.ndarray, "bounds"], edges: Int[np.ndarray, "bounds"]
    ) -> None:
        self.folder, self.nodes, self.edges = folder, nodes, edges
        self._local = LocalFiles()
        most = None if isinstance(folder, ObjectPath) else _MOST_MAPPED
        self._map = lru_cache(most)(self._map_new)
        self._is_sparse = lru_cache(most)(self._is_sparse_new)

    def path(self, name: str, number: int) -> Place:
        """Return the file of a table and block."""
        return self.folder / f"{name}-{number:05d}.npy"

    def _map_new(self, name: str, number: int) -> Mapped:
        return map_array(self.path(name, number), self._local)

    def _is_sparse_new(self, name: str, number: int) -> bool:
        return self.path(f"{name}.column", number).exists()

    def block(self, name: str, number: int) -> Tensor:
        """Return what a pass wrote for one block, mapped: it must not be changed."""
        return tensor_over(self._map(name, number).whole())

    def links(self, name: str, row_ptr: Int[Tensor, "offsets"], nodes: Int[Tensor, "nodes"]) -> Tensor:
        """Return a table of one file that has values for each node; those of some nodes can be read."""
        first, last = row_ptr[nodes].numpy(), row_ptr[nodes + 1].numpy()
        return tensor_over(self._map(name, 0).bring_ranges(first, last))

    def rows(self, name: str, nodes: Int[Tensor, "nodes"]) -> Features:
        """Return the rows of some nodes, which must ascend."""
        parts = list(_by_block(nodes.numpy(), self.nodes))
        if any(self._is_sparse(name, number) for number, _, _ in parts):
            return stack_rows([self._some_rows(name, number, place) for number, _, place in parts])
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
        first = self._map(name, parts[0][0]).values
        out = np.empty((count, *first.shape[1:]), first.dtype)
        for number, here, place in parts:
            np.take(self._map(name, number).bring(place), place, axis=0, out=out[here], mode="clip")
        return torch.from_numpy(out)

    def _some_rows(self, name: str, number: int, place: Int[np.ndarray, "some"]) -> Features:
        """Return the rows of one block's table, dense or sparse, by their places in it."""
        if self._is_sparse(name, number):
            parts, width = [f"{name}.{part}" for part in _SPARSE], int(self.block(f"{name}.width", number))
        else:
            parts, width = [name], None
        table = MappedFeatures(*(self._map(part, number) for part in parts), width=width)
        return table.take(torch.from_numpy(np.ascontiguousarray(place)))


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
