"""Write and open a store: a graph as a folder of arrays that are memory-mapped, for graphs larger than memory.

``graph.json`` lists the arrays, each a ``.npy`` file; `gdpnet.data.io.arrays.SCHEMA` has their types and shapes. In
an object store it is put last, and what is read of an array is kept in a local file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gdpnet._core.files import Place, address_of, new_folder, place_of
from gdpnet._core.files.fetched import LocalFiles
from gdpnet._core.files.objects import ObjectPath
from gdpnet._core.json_file import entries, entry, expect, read_json
from gdpnet.data.graph import Graph, Stored, Truth
from gdpnet.data.io.archive import check_plain
from gdpnet.data.io.arrays import SCHEMA, TRUTH, Arrays, arrays_of, check_arrays, features_of, tensor_over
from gdpnet.data.io.mapped import Mapped, map_file, map_values
from gdpnet.data.io.store_checks import check_edges, check_nodes
from gdpnet.data.schema import MadeRows
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import UNKNOWN
from gdpnet.errors import GraphError, refusing

FORMAT, VERSION = "gdpnet-store", 1

ABOUT = "graph.json"
"""The file that describes a store."""

PIECE = 1 << 22
"""Values that are read or written at a time."""

_FEW_BITS = 1 << 31
"""Numbers below this are stored in 32 bits."""

_FETCHED: dict[str, tuple[dict[str, Any], dict[str, Mapped]]] = {}
"""By address: the description and the arrays of each store in an object store that this process reads."""


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
        """Begin an array of known shape; yield a function that appends values to its file.

        The checksum of the values goes into the description, so that two stores are alike if their descriptions are.
        """
        dtype, left, digest = np.dtype(kind), int(np.prod(shape, dtype=np.int64)), hashlib.sha256()
        self.arrays[name] = {"type": dtype.str, "shape": list(shape)}
        with (self.folder / f"{name}.npy").open("wb") as file:
            descr = np.lib.format.dtype_to_descr(dtype)
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)

            def append(values: np.ndarray) -> None:
                nonlocal left
                left -= values.size
                content = np.ascontiguousarray(values, dtype=dtype).data
                file.write(content)
                digest.update(content)

            yield append
        self.arrays[name]["sha256"] = digest.hexdigest()
        if left:
            raise GraphError(f"{name}.npy must hold as many values as its shape says, found {left} too few")

    def whole(self, name: str, values: np.ndarray | MadeRows, kind: Any = None) -> None:
        """Write an array that is in memory, mapped, or made row by row, as another type if one is given."""
        with self.array(name, kind or values.dtype, values.shape) as append:
            step = max(1, PIECE // max(1, int(np.prod(values.shape[1:]))))
            for start in range(0, values.shape[0], step):
                append(values[start : start + step])


@contextmanager
def new_store(
    folder: Place,
    class_names: tuple[str, ...],
    width: int | None = None,
    feature_names: tuple[str, ...] | None = None,
    edge_feature_names: tuple[str, ...] | None = None,
    encoding: Encoding | None = None,
    transductive: bool = False,
) -> Iterator[StoreWriter]:
    """Write a store to a new folder, whole or not at all; ``width`` is the number of sparse feature columns."""
    with new_folder(folder, ABOUT) as temporary:
        writer = StoreWriter(temporary)
        yield writer
        about = {"format": FORMAT, "version": VERSION, "class_names": list(class_names), "width": width}
        names = {"feature_names": feature_names, "edge_feature_names": edge_feature_names}
        about |= {key: list(value) for key, value in names.items() if value is not None}
        about |= {} if encoding is None else {"encoding": encoding.to_dict()}
        about |= {"transductive": True} if transductive else {}
        text = json.dumps(about | {"arrays": writer.arrays}, indent=2)
        (temporary / ABOUT).write_text(text + "\n", encoding="utf-8")


def write_store(graph: Graph, folder: str | Place, made: Mapping[str, MadeRows] | None = None) -> None:
    """Write a graph to a new folder; `open_store` returns the same graph.

    ``made`` are arrays by name that are written in place of the graph's own.
    """
    made = made or {}
    arrays: dict[str, Any] = {**arrays_of(graph), **made}
    if "features" in made:
        arrays = {name: values for name, values in arrays.items() if not name.startswith("feature_")}
    width = graph.num_features if "feature_column" in arrays else None
    bounds = {"neighbour": graph.num_nodes, "feature_column": width}
    encoding = None if graph.table is None else graph.table.encoding
    names = (graph.feature_names, graph.edge_feature_names)
    with new_store(place_of(folder), graph.class_names, width, *names, encoding, graph.transductive) as store:
        for name, values in arrays.items():
            bound = bounds.get(name)
            if name != "node_ids" or not _is_range(values):
                store.whole(name, values, None if bound is None else index_type(bound))


def _is_range(ids: np.ndarray) -> bool:
    """Return whether node ids are the node numbers, which need not be stored."""
    return ids.dtype.kind == "i" and np.array_equal(ids, np.arange(ids.size))


def is_store(path: str | Place) -> bool:
    """Return whether a folder is a store."""
    return (place_of(path) / ABOUT).is_file()


def open_store(folder: str | Place) -> Graph:
    """Open a store as a graph, after checking types, sizes and, piece by piece on all cores, all values.

    Edges and features are mapped; labels, splits and offsets are read into memory. A store in an object store is
    brought to a local file as a whole.
    """
    folder = place_of(folder)
    about, where = _read_about(folder), str(folder / ABOUT)
    try:
        with refusing("the store is damaged: its content"):
            names = entries(about, "class_names", str, where, GraphError)
            mapped, width = _map_all(folder, about)
            arrays = {name: one.whole() for name, one in mapped.items()}
            check_arrays(arrays, width)
            graph = _with_names(_graph_of(arrays, tuple(names), width), about, where)
            check_edges(arrays, graph.row_ptr.numpy())
            check_nodes(arrays, graph)
            return replace(graph, stored=Stored(place_of(address_of(folder)), _mapped(graph)))
    except GraphError as error:
        raise GraphError(f"{folder} is not a usable store: {error}") from error


def store_of(graph: Graph) -> Place | None:
    """Return the folder of the store that holds a graph as it is, apart from labels and splits; None if none does.

    A store with edge weights, edge features or known noise that the graph does without holds it too.
    """
    if graph.stored is None:
        return None
    pairs = enumerate(zip(_mapped(graph), graph.stored.arrays, strict=True))
    same = all(one is other or (one is None and place > 2) for place, (one, other) in pairs)
    return graph.stored.folder if same else None


def _mapped(graph: Graph) -> tuple[Any, ...]:
    """Return the arrays of a graph that passes over blocks read; those from the fourth on are optional."""
    needed = (graph.neighbour, graph.features, graph.node_ids)
    return *needed, graph.edge_weight, graph.edge_features, graph.truth and graph.truth.spurious


def map_store(folder: Place) -> tuple[dict[str, Mapped], int | None]:
    """Map the arrays of a store that was opened and checked before; return them and the width of sparse features."""
    return _map_all(folder, _read_about(folder))


def _map_all(folder: Place, about: dict[str, Any]) -> tuple[dict[str, Mapped], int | None]:
    where, files = str(folder / ABOUT), LocalFiles()
    found = entry(about, "arrays", dict, where, GraphError)
    width = entry(about, "width", (int, type(None)), where, GraphError)
    known, arrays = _FETCHED.get(address_of(folder), ({}, {}))
    if known != about or not all(one.is_current() for one in arrays.values()):
        arrays = {name: _map(folder, name, one, files) for name, one in found.items()}
    if isinstance(folder, ObjectPath):
        _FETCHED[folder.address] = (about, arrays)
    return arrays, width


def _with_names(graph: Graph, about: dict[str, Any], where: str) -> Graph:
    """Return a graph with the names and the encoding that the description of a store gives."""
    if about.get("feature_names") is not None:
        graph = graph.with_feature_names(entries(about, "feature_names", str, where, GraphError))
    if about.get("encoding") is not None:
        encoding = Encoding.from_dict(entry(about, "encoding", dict, where, GraphError))
        graph = replace(graph, table=NodeTable(encoding))
    if about.get("edge_feature_names") is not None:
        edge_names = entries(about, "edge_feature_names", str, where, GraphError)
        graph = replace(graph, edge_feature_names=tuple(edge_names))
    return replace(graph, transductive=entry(about, "transductive", bool, where, GraphError, default=False))


def _read_about(folder: Place) -> dict[str, Any]:
    path = folder / ABOUT
    about: dict[str, Any] = read_json(path, dict, GraphError)
    if about.get("format") != FORMAT:
        raise GraphError(f"{path} must describe a gdpnet store, found something else")
    if about.get("version") != VERSION:
        raise GraphError(f"{path} must be of version {VERSION}, found {about.get('version')}")
    return about


def _map(folder: Place, name: str, described: Any, files: LocalFiles) -> Mapped:
    """Map an array, after checking it against its entry in ``graph.json`` and against the size of its file."""
    if name not in SCHEMA:
        raise GraphError(f"there is no array '{name}' in a store")
    path, described = folder / f"{name}.npy", expect(described, dict, f"'{name}' of {ABOUT}", GraphError)
    if not path.is_file():
        raise GraphError(f"it must hold {path.name}, found no such file")
    head, fetched = map_file(path, files)
    shape, dtype = list(head.shape), head.dtype
    check_plain(dtype, name)
    if dtype.str != described.get("type") or shape != described.get("shape"):
        raise GraphError(
            f"{path.name} must be of type {described.get('type')} and shape {described.get('shape')}, found "
            f"{dtype.str} and {shape}"
        )
    size = head.start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if head.size != size or head.fortran or not dtype.isnative:
        raise GraphError(f"{path.name} must have {size:,} bytes, row by row, found {head.size:,}")
    return map_values(path, head, fetched)


def _graph_of(arrays: Arrays, names: tuple[str, ...], width: int | None) -> Graph:
    nodes, edges = arrays["row_ptr"].size - 1, arrays["neighbour"].size
    labels = _read(arrays, "labels", torch.full((nodes,), UNKNOWN))
    truth = None
    if not arrays.keys().isdisjoint(TRUTH):
        truth = Truth(
            tensor_over(arrays["spurious"]) if "spurious" in arrays else torch.zeros(edges, dtype=torch.bool),
            _read(arrays, "corrupted", torch.zeros(nodes, dtype=torch.bool)),
            _read(arrays, "clean_labels", labels),
        )
    return Graph(
        row_ptr=tensor_over(arrays["row_ptr"]),
        neighbour=tensor_over(arrays["neighbour"]),
        features=features_of(arrays, width),
        labels=labels,
        split=_read(arrays, "split", torch.zeros(nodes, dtype=torch.int8)),
        node_ids=arrays.get("node_ids", np.arange(nodes)),
        class_names=names,
        edge_weight=tensor_over(arrays["edge_weight"]) if "edge_weight" in arrays else None,
        edge_features=tensor_over(arrays["edge_features"]) if "edge_features" in arrays else None,
        truth=truth,
        targets=torch.from_numpy(np.array(arrays["targets"])) if "targets" in arrays else None,
    )


def _read(arrays: Arrays, name: str, default: Tensor) -> Tensor:
    return torch.from_numpy(np.array(arrays[name])) if name in arrays else default
