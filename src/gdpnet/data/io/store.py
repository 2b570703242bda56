"""Write a store: a graph as a folder of arrays that can be memory-mapped, for graphs larger than memory.

``graph.json`` lists the arrays, each a ``.npy`` file; `gdpnet.data.io.arrays.SCHEMA` has their types and shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gdpnet._core.files import new_folder
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import arrays_of, sparse_width
from gdpnet.errors import GraphError

FORMAT, VERSION = "gdpnet-store", 1

ABOUT = "graph.json"
"""The file that describes a store."""

PIECE = 1 << 22
"""Values that are read or written at a time."""

_FEW_BITS = 1 << 31
"""Numbers below this are stored in 32 bits."""


def index_type(count: int) -> np.dtype:
    """Return the smallest integer type, of 32 or 64 bits, that stores numbers below ``count``."""
    return np.dtype(np.int32 if count <= _FEW_BITS else np.int64)


@dataclass
class StoreWriter:
    """A store that is being written: its folder, and the type and shape of its arrays."""

    folder: Path
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def array(self, name: str, kind: Any, shape: tuple[int, ...]) -> Iterator[Callable[[np.ndarray], None]]:
        """Begin an array of known shape; yield a function that appends values to its file."""
        dtype, left = np.dtype(kind), int(np.prod(shape, dtype=np.int64))
        self.arrays[name] = {"type": dtype.str, "shape": list(shape)}
        with (self.folder / f"{name}.npy").open("wb") as file:
            descr = np.lib.format.dtype_to_descr(dtype)
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)

            def append(values: np.ndarray) -> None:
                nonlocal left
                left -= values.size
                file.write(np.ascontiguousarray(values, dtype=dtype).data)

            yield append
        if left:
            raise GraphError(f"{name}.npy must hold as many values as its shape says, found {left} too few")

    def whole(self, name: str, values: np.ndarray, kind: Any = None) -> None:
        """Write an array that is in memory or mapped, as another type if one is given."""
        with self.array(name, kind or values.dtype, values.shape) as append:
            step = max(1, PIECE // max(1, int(np.prod(values.shape[1:]))))
            for start in range(0, values.shape[0], step):
                append(values[start : start + step])


@contextmanager
def new_store(
    folder: Path,
    class_names: tuple[str, ...],
    width: int | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Iterator[StoreWriter]:
    """Write a store to a new folder, whole or not at all; ``width`` is the number of sparse feature columns."""
    with new_folder(folder) as temporary:
        writer = StoreWriter(temporary)
        yield writer
        about = {"format": FORMAT, "version": VERSION, "class_names": list(class_names), "width": width}
        about |= {} if feature_names is None else {"feature_names": list(feature_names)}
        text = json.dumps(about | {"arrays": writer.arrays}, indent=2)
        (temporary / ABOUT).write_text(text + "\n", encoding="utf-8")


def write_store(graph: Graph, folder: Path) -> None:
    """Write a graph to a new folder; `gdpnet.data.io.mapped.open_store` returns the same graph."""
    width = sparse_width(graph.features)
    bounds = {"neighbour": graph.num_nodes, "feature_column": width}
    with new_store(folder, graph.class_names, width, graph.feature_names) as store:
        for name, values in arrays_of(graph).items():
            bound = bounds.get(name)
            if name != "node_ids" or not _is_range(values):
                store.whole(name, values, None if bound is None else index_type(bound))


def _is_range(ids: np.ndarray) -> bool:
    """Return whether node ids are the node numbers, which need not be stored."""
    return ids.dtype.kind == "i" and np.array_equal(ids, np.arange(ids.size))
