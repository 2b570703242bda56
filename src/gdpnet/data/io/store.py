"""Write and open a store: a graph as a folder of arrays that are memory-mapped, for graphs larger than memory.

``graph.json`` lists the arrays, each a ``.npy`` file; `gdpnet.data.io.arrays.SCHEMA` has their types and shapes.
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
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from gdpnet._core.files import new_folder
from gdpnet._core.json_file import entries, entry, expect, read_json
from gdpnet.data.edge_weight import checked_weights
from gdpnet.data.graph import Graph, Stored, Truth
from gdpnet.data.io.archive import check_plain, read_header
from gdpnet.data.io.arrays import SCHEMA, TRUTH, Arrays, arrays_of, check_arrays, features_of, tensor_over
from gdpnet.data.schema import MadeRows
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.tables.node_table import NodeTable
from gdpnet.data.validation import SPLIT_RULE, SPLITS, UNKNOWN, check_width, checked_class_names
from gdpnet.errors import GraphError, refusing

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
    folder: Path,
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


def write_store(graph: Graph, folder: str | Path, made: Mapping[str, MadeRows] | None = None) -> None:
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
    with new_store(Path(folder), graph.class_names, width, *names, encoding, graph.transductive) as store:
        for name, values in arrays.items():
            bound = bounds.get(name)
            if name != "node_ids" or not _is_range(values):
                store.whole(name, values, None if bound is None else index_type(bound))


def _is_range(ids: np.ndarray) -> bool:
    """Return whether node ids are the node numbers, which need not be stored."""
    return ids.dtype.kind == "i" and np.array_equal(ids, np.arange(ids.size))


def is_store(path: str | Path) -> bool:
    """Return whether a folder is a store."""
    return (Path(path) / ABOUT).is_file()


def open_store(folder: str | Path) -> Graph:
    """Open a store as a graph, after checking types, sizes and, in one pass over the files, all values.

    Edges and features are mapped; labels, splits and offsets are read into memory.
    """
    folder = Path(folder)
    about, where = _read_about(folder), str(folder / ABOUT)
    try:
        with refusing("the store is damaged: its content"):
            names = entries(about, "class_names", str, where, GraphError)
            arrays, width = _map_all(folder, about)
            check_arrays(arrays, width)
            graph = _with_names(_graph_of(arrays, tuple(names), width), about, where)
            _check_edges(arrays, graph.row_ptr.numpy())
            _check_nodes(arrays, graph)
            return replace(graph, stored=Stored(folder.resolve(), _mapped(graph)))
    except GraphError as error:
        raise GraphError(f"{folder} is not a usable store: {error}") from error


def store_of(graph: Graph) -> Path | None:
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


def map_store(folder: Path) -> tuple[dict[str, np.memmap], int | None]:
    """Map the arrays of a store that was opened and checked before; return them and the width of sparse features."""
    return _map_all(folder, _read_about(folder))


def _map_all(folder: Path, about: dict[str, Any]) -> tuple[dict[str, np.memmap], int | None]:
    where = str(folder / ABOUT)
    found = entry(about, "arrays", dict, where, GraphError)
    width = entry(about, "width", (int, type(None)), where, GraphError)
    return {name: _map(folder, name, one) for name, one in found.items()}, width


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


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    about: dict[str, Any] = read_json(path, dict, GraphError)
    if about.get("format") != FORMAT:
        raise GraphError(f"{path} must describe a gdpnet store, found something else")
    if about.get("version") != VERSION:
        raise GraphError(f"{path} must be of version {VERSION}, found {about.get('version')}")
    return about


def _map(folder: Path, name: str, described: Any) -> np.memmap:
    """Map an array, after checking it against its entry in ``graph.json`` and against the size of its file."""
    if name not in SCHEMA:
        raise GraphError(f"there is no array '{name}' in a store")
    path, described = folder / f"{name}.npy", expect(described, dict, f"'{name}' of {ABOUT}", GraphError)
    if not path.is_file():
        raise GraphError(f"it must hold {path.name}, found no such file")
    with path.open("rb") as file:
        shape, fortran, dtype, start = read_header(file)
    check_plain(dtype, name)
    if dtype.str != described.get("type") or list(shape) != described.get("shape"):
        raise GraphError(
            f"{path.name} must be of type {described.get('type')} and shape {described.get('shape')}, found "
            f"{dtype.str} and {list(shape)}"
        )
    size = start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if path.stat().st_size != size or fortran or not dtype.isnative:
        raise GraphError(f"{path.name} must have {size:,} bytes, row by row, found {path.stat().st_size:,}")
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape)


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


def _pieces(array: np.memmap) -> Iterator[tuple[int, np.ndarray]]:
    """Read the file of a mapped array piece by piece, so that a check does not leave it in memory."""
    assert array.filename is not None
    with Path(array.filename).open("rb") as file:
        file.seek(array.offset)
        for start in range(0, array.size, PIECE):
            yield start, np.fromfile(file, array.dtype, min(PIECE, array.size - start))


def _check_edges(arrays: Mapping[str, np.memmap], row_ptr: np.ndarray) -> None:
    """Refuse neighbours that do not exist, self-loops, rows that do not ascend, and unusable weights."""
    _check_ascending(arrays["neighbour"], row_ptr, row_ptr.size - 1, "neighbour", loops=False)
    if "edge_weight" in arrays:
        for start, piece in _pieces(arrays["edge_weight"]):
            checked_weights(piece, piece.size, start)


def _check_ascending(
    values: np.memmap, row_ptr: np.ndarray, most: int, what: str, *, loops: bool = True
) -> None:
    """Refuse rows whose values lie outside, or do not ascend, or are the number of the row unless it may be."""
    owner_before, before = -1, -1
    for start, piece in _pieces(values):
        _check_range(piece, most, what)
        owner = _owners(row_ptr, start, start + piece.size)
        ascends = np.diff(piece, prepend=piece.dtype.type(before)) > 0
        ascends |= np.diff(owner, prepend=owner_before) > 0
        wrong = ~ascends if loops else ~ascends | (owner == piece)
        if wrong.any():
            itself = "" if loops else " and without the node itself"
            raise GraphError(
                f"the values of a node in array '{what}' must ascend, without repeats{itself}; those of node "
                f"{owner[wrong.argmax()]} do not"
            )
        owner_before, before = int(owner[-1]), int(piece[-1])


def _owners(row_ptr: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the target of each edge from ``start`` up to ``stop``."""
    first = int(np.searchsorted(row_ptr, start, side="right")) - 1
    last = int(np.searchsorted(row_ptr, stop, side="left"))
    return np.repeat(np.arange(first, last), np.diff(row_ptr[first : last + 1].clip(start, stop)))


def _check_nodes(arrays: Mapping[str, np.memmap], graph: Graph) -> None:
    """Refuse features that are not finite or lie outside the columns, and labels and splits that do not exist."""
    if graph.num_features == 0:
        raise GraphError("a node must have at least one feature, found none")
    names, rows = graph.edge_feature_names, graph.edge_features
    if names is not None and (rows is None or len(names) != rows.shape[1]):
        raise GraphError(f"there must be a name for each edge feature, found {len(names)} names")
    for name in {"features", "feature_value", "edge_features"} & arrays.keys():
        if not all(np.isfinite(piece).all() for _, piece in _pieces(arrays[name])):
            raise GraphError(f"array '{name}' must hold finite numbers, found NaN or infinity")
    if "feature_column" in arrays:
        _check_ascending(
            arrays["feature_column"], arrays["feature_row_ptr"], graph.num_features, "feature_column"
        )
    check_width(graph.features)
    _check_unique(graph.node_ids)
    if graph.targets is not None and bool(graph.targets.isinf().any()):
        raise GraphError("targets must be finite numbers, or NaN for unknown, found infinity")
    _check_classes(graph)
    checked_class_names(graph.class_names, graph.labels)
    if int(graph.split.min()) < 0 or int(graph.split.max()) >= len(SPLITS):
        raise GraphError(SPLIT_RULE)


def _check_classes(graph: Graph) -> None:
    """Refuse labels that are neither unknown nor one of the classes."""
    for labels in (graph.labels, *([graph.truth.clean_labels] if graph.truth else [])):
        low, high = int(labels.min()), int(labels.max())
        if low < UNKNOWN or high >= graph.num_classes:
            raise GraphError(f"labels must be {UNKNOWN} or below {graph.num_classes}, found {low} to {high}")
    if graph.targets is not None and int(graph.labels.max()) != UNKNOWN:
        raise GraphError("a graph must have class labels or numbers to predict (targets), found both")


def _check_unique(ids: np.ndarray) -> None:
    if isinstance(ids, np.memmap) and pc.count_distinct(pa.array(np.asarray(ids))).as_py() < ids.size:
        raise GraphError("node ids must be unique, found one of several nodes")


def _check_range(piece: np.ndarray, count: int, name: str) -> None:
    low, high = int(piece.min()), int(piece.max())
    if low < 0 or high >= count:
        raise GraphError(f"array '{name}' must hold numbers from 0 to {count - 1}, found {low} to {high}")
