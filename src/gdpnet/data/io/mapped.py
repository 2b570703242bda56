"""Open a store: a graph whose edges and features are mapped, and stay on the disk until they are asked for."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gdpnet.data.edge_weight import MOST
from gdpnet.data.features import Features, SparseRows
from gdpnet.data.graph import SPLITS, UNKNOWN, Graph, Truth
from gdpnet.data.io.store import ABOUT, FORMAT, PIECE, VERSION
from gdpnet.errors import GraphError

_KINDS = {
    "row_ptr": ("int64",),
    "neighbour": ("int32", "int64"),
    "features": ("float32", "float16"),
    "feature_row_ptr": ("int64",),
    "feature_column": ("int32", "int64"),
    "feature_value": ("float32",),
    "labels": ("int64",),
    "split": ("int8",),
    "edge_weight": ("float32",),
    "spurious": ("bool",),
    "corrupted": ("bool",),
    "clean_labels": ("int64",),
}


def is_store(path: Path) -> bool:
    """Say whether a folder is a store."""
    return (path / ABOUT).is_file()


def open_store(folder: Path) -> Graph:
    """Map a store as a graph, checked: sizes and types at once, edges and features in one pass over their files.

    Edges and features stay on the disk until they are asked for; what belongs to nodes alone is read.
    """
    about = _read_about(folder)
    try:
        arrays = {name: _map(folder, name, told) for name, told in about["arrays"].items()}
        names, width = tuple(str(name) for name in about["class_names"]), about["width"]
        _check_sizes(arrays, width)
        graph = _graph_of(arrays, names, width)
        if told := about.get("feature_names"):
            graph = graph.with_feature_names(told)
        _check_edges(graph, folder)
        _check_nodes(graph, folder)
    except KeyError as error:
        raise GraphError(f"{folder / ABOUT} must tell of {error}, found nothing of it") from error
    except GraphError as error:
        raise GraphError(f"{folder} is not a usable store: {error}") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise GraphError(f"{folder} is a damaged store: {error}") from error
    return graph


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GraphError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise GraphError(f"{path} must describe a store of gdpnet, found something else")
    if about.get("version") != VERSION:
        raise GraphError(f"{path} must be of version {VERSION}, found {about.get('version')}")
    return about


def _map(folder: Path, name: str, told: Mapping[str, Any]) -> np.ndarray:
    """Map an array and hold it to what ``graph.json`` says of it."""
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise GraphError(f"it must hold {path.name}, found no such file")
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.str != told["type"] or list(array.shape) != told["shape"]:
        raise GraphError(
            f"{path.name} must be of type {told['type']} and shape {told['shape']}, found {array.dtype.str} and "
            f"{list(array.shape)}"
        )
    known = _KINDS.get(name)
    if known is not None and array.dtype.name not in known:
        raise GraphError(f"{path.name} must hold {' or '.join(known)}, found {array.dtype.name}")
    return array


def _check_sizes(arrays: Mapping[str, np.ndarray], width: int | None) -> None:
    """Refuse arrays that do not fit one another."""
    nodes, edges = arrays["row_ptr"].size - 1, arrays["neighbour"].size
    wanted: dict[str, tuple[int, ...]] = {"row_ptr": (nodes + 1,), "neighbour": (edges,)}
    wanted |= dict.fromkeys(("labels", "split", "node_ids", "corrupted", "clean_labels"), (nodes,))
    wanted |= dict.fromkeys(("edge_weight", "spurious"), (edges,))
    if width is None:
        wanted["features"] = (nodes, arrays["features"].shape[-1])
    else:
        wanted |= {"feature_row_ptr": (nodes + 1,), "feature_value": arrays["feature_column"].shape}
    if nodes < 1:
        raise GraphError("the graph is empty: it has no node")
    for name, shape in wanted.items():
        if name in arrays and arrays[name].shape != shape:
            raise GraphError(f"{name}.npy must have the shape {shape}, found {arrays[name].shape}")
    _check_offsets("row_ptr", arrays["row_ptr"], edges)
    if width is not None:
        _check_offsets("feature_row_ptr", arrays["feature_row_ptr"], arrays["feature_column"].size)


def _check_offsets(name: str, offsets: np.ndarray, end: int) -> None:
    if offsets[0] != 0 or offsets[-1] != end or bool((np.diff(offsets) < 0).any()):
        raise GraphError(f"{name}.npy must ascend from 0 to {end}, found other offsets")


def _graph_of(arrays: Mapping[str, np.ndarray], names: tuple[str, ...], width: int | None) -> Graph:
    nodes, edges = arrays["row_ptr"].size - 1, arrays["neighbour"].size
    labels = _read(arrays.get("labels"), torch.full((nodes,), UNKNOWN))
    truth = None
    if {"spurious", "corrupted", "clean_labels"} & arrays.keys():
        truth = Truth(
            mapped(arrays["spurious"]) if "spurious" in arrays else torch.zeros(edges, dtype=torch.bool),
            _read(arrays.get("corrupted"), torch.zeros(nodes, dtype=torch.bool)),
            _read(arrays.get("clean_labels"), labels),
        )
    features: Features
    if width is None:
        features = mapped(arrays["features"])
    else:
        row_ptr = torch.from_numpy(np.array(arrays["feature_row_ptr"]))
        column, value = mapped(arrays["feature_column"]), mapped(arrays["feature_value"])
        features = SparseRows(row_ptr, column, value, width)
    return Graph(
        row_ptr=torch.from_numpy(np.array(arrays["row_ptr"])),
        neighbour=mapped(arrays["neighbour"]),
        features=features,
        labels=labels,
        split=_read(arrays.get("split"), torch.zeros(nodes, dtype=torch.int8)),
        node_ids=arrays.get("node_ids", np.arange(nodes)),
        class_names=names,
        edge_weight=mapped(arrays["edge_weight"]) if "edge_weight" in arrays else None,
        truth=truth,
    )


def mapped(array: np.ndarray) -> Tensor:
    """Return a tensor over a mapped array; it must never be written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(array))


def _read(array: np.ndarray | None, otherwise: Tensor) -> Tensor:
    return otherwise if array is None else torch.from_numpy(np.array(array))


def _pieces(folder: Path, name: str) -> Iterator[tuple[int, np.ndarray]]:
    """Read an array's file from beginning to end, so that what is only looked at does not stay mapped."""
    with (folder / f"{name}.npy").open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, kind = read(file)
        left, start = int(np.prod(shape, dtype=np.int64)), 0
        while start < left:
            piece = np.fromfile(file, dtype=kind, count=min(PIECE, left - start))
            if piece.size == 0:
                raise GraphError(f"{name}.npy is cut short")
            yield start, piece
            start += piece.size


def _check_edges(graph: Graph, folder: Path) -> None:
    """Refuse neighbours that do not exist, loops, and rows that do not ascend."""
    row_ptr, nodes = graph.row_ptr.numpy(), graph.num_nodes
    owner_before, before = -1, -1
    for start, piece in _pieces(folder, "neighbour"):
        low, high = int(piece.min()), int(piece.max())
        if low < 0 or high >= nodes:
            raise GraphError(f"neighbour.npy must hold numbers from 0 to {nodes - 1}, found {low} to {high}")
        owner = _owners(row_ptr, start, start + piece.size)
        ascends = np.diff(piece, prepend=piece.dtype.type(before)) > 0
        ascends |= np.diff(owner, prepend=owner_before) > 0
        wrong = ~ascends | (owner == piece)
        if wrong.any():
            raise GraphError(
                "the neighbours of a node must ascend, without repeats and without the node itself; those of node "
                f"{owner[wrong.argmax()]} do not"
            )
        owner_before, before = int(owner[-1]), int(piece[-1])
    if graph.edge_weight is not None:
        _check_finite(folder, "edge_weight")
        for _, piece in _pieces(folder, "edge_weight"):
            if float(piece.min()) <= 0:
                raise GraphError(f"edge_weight.npy must hold numbers above zero, found {piece.min():g}")
            if float(piece.max()) > MOST:
                raise GraphError(
                    f"edge_weight.npy must hold numbers up to {MOST:,.0f}, found {piece.max():g}"
                )


def _owners(row_ptr: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the target of each edge from ``start`` to ``stop``."""
    first = int(np.searchsorted(row_ptr, start, side="right")) - 1
    last = int(np.searchsorted(row_ptr, stop, side="left"))
    return np.repeat(np.arange(first, last), np.diff(row_ptr[first : last + 1].clip(start, stop)))


def _check_nodes(graph: Graph, folder: Path) -> None:
    """Refuse features that are not numbers, and labels and splits that there are not."""
    if graph.features.shape[1] == 0:
        raise GraphError("a node must have at least one feature, found none")
    _check_finite(folder, "feature_value" if isinstance(graph.features, SparseRows) else "features")
    if isinstance(graph.features, SparseRows):
        for _, piece in _pieces(folder, "feature_column"):
            if int(piece.min()) < 0 or int(piece.max()) >= graph.features.width:
                raise GraphError(f"sparse features must lie in columns 0 to {graph.features.width - 1}")
    low, high = int(graph.labels.min()), int(graph.labels.max())
    if low < UNKNOWN or high >= graph.num_classes:
        raise GraphError(f"labels must be {UNKNOWN} or below {graph.num_classes}, found {low} to {high}")
    if int(graph.split.min()) < 0 or int(graph.split.max()) >= len(SPLITS):
        raise GraphError("the split must hold one code a node: 0 none, 1 train, 2 validation, 3 test")


def _check_finite(folder: Path, name: str) -> None:
    for _, piece in _pieces(folder, name):
        if not np.isfinite(piece).all():
            raise GraphError(f"{name}.npy must hold finite numbers, found NaN or infinity")
