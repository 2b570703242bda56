"""A graph as a folder of plain arrays that are mapped, not read: for graphs larger than memory.

``graph.json`` names the arrays, each a ``.npy`` file: ``row_ptr``, ``neighbour`` (32 bits where they suffice),
``features`` (single or half precision; or ``feature_row_ptr``, ``feature_column``, ``feature_value``), and where they
are known ``labels``, ``split``, ``node_ids``, ``edge_weight``, ``spurious``, ``corrupted``, ``clean_labels``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from torch import Tensor

from gdpnet._core.files import new_folder
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph, id_text
from gdpnet.errors import GraphError

FORMAT, VERSION = "gdpnet-store", 1

ABOUT = "graph.json"
"""The file that makes a folder a store."""

PIECE = 1 << 22
"""Values read or written at once."""

_FEW_BITS = 1 << 31
"""With fewer nodes than this, neighbours are stored in 32 bits."""


def index_type(count: int) -> np.dtype:
    """Return the smallest type that stores numbers below ``count``: 32 bits where they suffice, else 64."""
    return np.dtype(np.int32 if count <= _FEW_BITS else np.int64)


class ArrayFile:
    """An ``.npy`` file that is written piece by piece; its whole shape is known beforehand."""

    def __init__(self, path: Path, kind: Any, shape: tuple[int, ...]) -> None:
        self.kind, self.left = np.dtype(kind), int(np.prod(shape, dtype=np.int64))
        self.name = path.name
        self.file = path.open("wb")
        about = {"descr": np.lib.format.dtype_to_descr(self.kind), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, about)

    def __enter__(self) -> ArrayFile:
        return self

    def append(self, piece: np.ndarray) -> None:
        """Write the next values."""
        self.left -= piece.size
        self.file.write(np.ascontiguousarray(piece, dtype=self.kind).data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if error is None and self.left:
            raise GraphError(
                f"{self.name} must hold as many values as its shape says, {self.left} are missing"
            )


@dataclass
class StoreWriter:
    """A store that is being written: a folder, and what its arrays are."""

    folder: Path
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)

    def array(self, name: str, kind: Any, shape: tuple[int, ...]) -> ArrayFile:
        """Begin an array."""
        self.arrays[name] = {"type": np.dtype(kind).str, "shape": list(shape)}
        return ArrayFile(self.folder / f"{name}.npy", kind, shape)

    def whole(self, name: str, values: np.ndarray) -> None:
        """Write an array that lies in memory or is mapped."""
        with self.array(name, values.dtype, values.shape) as file:
            step = max(1, PIECE // max(1, int(np.prod(values.shape[1:]))))
            for start in range(0, values.shape[0], step):
                file.append(values[start : start + step])


@contextmanager
def new_store(
    folder: Path,
    class_names: tuple[str, ...],
    width: int | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Iterator[StoreWriter]:
    """Write a store to a new folder, whole or not at all; ``width`` is that of sparse features."""
    with new_folder(folder) as temporary:
        writer = StoreWriter(temporary)
        yield writer
        about = {"format": FORMAT, "version": VERSION, "class_names": list(class_names), "width": width}
        about |= {} if feature_names is None else {"feature_names": list(feature_names)}
        text = json.dumps(about | {"arrays": writer.arrays}, indent=2)
        (temporary / ABOUT).write_text(text + "\n", encoding="utf-8")


def write_store(graph: Graph, folder: Path) -> None:
    """Write everything about a graph to a new folder; `gdpnet.data.io.mapped.open_store` gives it back."""
    rows = graph.features
    width = rows.width if isinstance(rows, SparseRows) else None
    with new_store(folder, graph.class_names, width, graph.feature_names) as store:
        store.whole("row_ptr", graph.row_ptr.numpy())
        _write_indices(store, "neighbour", graph.neighbour, graph.num_nodes)
        if isinstance(rows, SparseRows):
            store.whole("feature_row_ptr", rows.row_ptr.numpy())
            _write_indices(store, "feature_column", rows.column, rows.width)
            store.whole("feature_value", rows.value.numpy())
        else:
            store.whole("features", rows.numpy())
        store.whole("labels", graph.labels.numpy())
        store.whole("split", graph.split.numpy())
        ids = graph.node_ids if graph.node_ids.dtype.kind in "iu" else id_text(graph.node_ids)
        if ids.dtype.kind != "i" or not np.array_equal(ids, np.arange(graph.num_nodes)):
            store.whole("node_ids", ids)
        if graph.edge_weight is not None:
            store.whole("edge_weight", graph.edge_weight.numpy())
        for name in ("spurious", "corrupted", "clean_labels") if graph.truth is not None else ():
            store.whole(name, getattr(graph.truth, name).numpy())


def _write_indices(store: StoreWriter, name: str, values: Tensor, count: int) -> None:
    with store.array(name, index_type(count), (values.numel(),)) as file:
        for part in values.split(PIECE):
            file.append(part.numpy())
