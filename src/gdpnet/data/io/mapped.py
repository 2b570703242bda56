"""Open a store: a graph whose edges and features are memory-mapped and read from disk when they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gdpnet.data.edge_weight import checked_weights
from gdpnet.data.graph import Graph, Truth
from gdpnet.data.io.arrays import TRUTH, Arrays, check_arrays, features_of, tensor_over
from gdpnet.data.io.store import ABOUT, FORMAT, PIECE, VERSION
from gdpnet.data.validation import SPLIT_RULE, SPLITS, UNKNOWN
from gdpnet.errors import GraphError


def is_store(path: Path) -> bool:
    """Return whether a folder is a store."""
    return (path / ABOUT).is_file()


def open_store(folder: Path) -> Graph:
    """Open a store as a graph, after checking types, sizes and, in one pass over the files, all values.

    Edges and features are mapped; labels, splits and offsets are read into memory.
    """
    about = _read_about(folder)
    try:
        arrays = {name: _map(folder, name, entry) for name, entry in about["arrays"].items()}
        names, width = tuple(str(name) for name in about["class_names"]), about["width"]
        check_arrays(arrays, width)
        graph = _graph_of(arrays, names, width)
        if feature_names := about.get("feature_names"):
            graph = graph.with_feature_names(feature_names)
        _check_edges(arrays, graph.row_ptr.numpy())
        _check_nodes(arrays, graph)
    except KeyError as error:
        raise GraphError(f"{folder / ABOUT} must describe {error}, found no entry for it") from error
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
        raise GraphError(f"{path} must describe a gdpnet store, found something else")
    if about.get("version") != VERSION:
        raise GraphError(f"{path} must be of version {VERSION}, found {about.get('version')}")
    return about


def _map(folder: Path, name: str, entry: Mapping[str, Any]) -> np.memmap:
    """Map an array, and check it against its entry in ``graph.json``."""
    path = folder / f"{name}.npy"
    if not path.is_file():
        raise GraphError(f"it must hold {path.name}, found no such file")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.str != entry["type"] or list(array.shape) != entry["shape"]:
        raise GraphError(
            f"{path.name} must be of type {entry['type']} and shape {entry['shape']}, found {array.dtype.str} and "
            f"{list(array.shape)}"
        )
    return array


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
        row_ptr=torch.from_numpy(np.array(arrays["row_ptr"])),
        neighbour=tensor_over(arrays["neighbour"]),
        features=features_of(arrays, width),
        labels=labels,
        split=_read(arrays, "split", torch.zeros(nodes, dtype=torch.int8)),
        node_ids=arrays.get("node_ids", np.arange(nodes)),
        class_names=names,
        edge_weight=tensor_over(arrays["edge_weight"]) if "edge_weight" in arrays else None,
        truth=truth,
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
    nodes = row_ptr.size - 1
    owner_before, before = -1, -1
    for start, piece in _pieces(arrays["neighbour"]):
        _check_range(piece, nodes, "neighbour")
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
    if "edge_weight" in arrays:
        for start, piece in _pieces(arrays["edge_weight"]):
            checked_weights(piece, piece.size, start)


def _owners(row_ptr: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return the target of each edge from ``start`` up to ``stop``."""
    first = int(np.searchsorted(row_ptr, start, side="right")) - 1
    last = int(np.searchsorted(row_ptr, stop, side="left"))
    return np.repeat(np.arange(first, last), np.diff(row_ptr[first : last + 1].clip(start, stop)))


def _check_nodes(arrays: Mapping[str, np.memmap], graph: Graph) -> None:
    """Refuse features that are not finite or lie outside the columns, and labels and splits that do not exist."""
    if graph.num_features == 0:
        raise GraphError("a node must have at least one feature, found none")
    for name in {"features", "feature_value"} & arrays.keys():
        if not all(np.isfinite(piece).all() for _, piece in _pieces(arrays[name])):
            raise GraphError(f"array '{name}' must hold finite numbers, found NaN or infinity")
    if "feature_column" in arrays:
        for _, piece in _pieces(arrays["feature_column"]):
            _check_range(piece, graph.num_features, "feature_column")
    low, high = int(graph.labels.min()), int(graph.labels.max())
    if low < UNKNOWN or high >= graph.num_classes:
        raise GraphError(f"labels must be {UNKNOWN} or below {graph.num_classes}, found {low} to {high}")
    if int(graph.split.min()) < 0 or int(graph.split.max()) >= len(SPLITS):
        raise GraphError(SPLIT_RULE)


def _check_range(piece: np.ndarray, count: int, name: str) -> None:
    low, high = int(piece.min()), int(piece.max())
    if low < 0 or high >= count:
        raise GraphError(f"array '{name}' must hold numbers from 0 to {count - 1}, found {low} to {high}")
