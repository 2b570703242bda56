"""The arrays of a stored graph, in npz files and in stores: their names, types and shapes, and their checksum."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gdpnet.data.features import Features, SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.validation import whole_or_text_ids
from gdpnet.errors import GraphError

Arrays = Mapping[str, np.ndarray]

SCHEMA: dict[str, tuple[tuple[str, ...], str]] = {
    "row_ptr": (("int64",), "offsets"),
    "neighbour": (("int32", "int64"), "edges"),
    "features": (("float32", "float16"), "rows"),
    "feature_row_ptr": (("int64",), "offsets"),
    "feature_column": (("int32", "int64"), "values"),
    "feature_value": (("float32",), "values"),
    "labels": (("int64",), "nodes"),
    "targets": (("float32",), "nodes"),
    "split": (("int8",), "nodes"),
    "node_ids": ((), "nodes"),
    "edge_weight": (("float32",), "edges"),
    "edge_features": (("float32",), "edge_rows"),
    "spurious": (("bool",), "edges"),
    "corrupted": (("bool",), "nodes"),
    "clean_labels": (("int64",), "nodes"),
}
"""The types that each array may have (none: any type), and its shape by the name that `check_arrays` uses."""

_HASHED = 1 << 18
"""Rows of an array that are hashed at a time."""

_CHECKED = 1 << 22
"""Offsets that are checked at a time."""

TRUTH = ("spurious", "corrupted", "clean_labels")
"""The arrays of known noise."""


def arrays_of(graph: Graph) -> dict[str, np.ndarray]:
    """Return the arrays of a graph by name."""
    tensors = {"row_ptr": graph.row_ptr, "neighbour": graph.neighbour, **feature_arrays(graph.features)}
    tensors |= {"labels": graph.labels, "split": graph.split}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    arrays["node_ids"] = whole_or_text_ids(graph.node_ids)
    if graph.targets is not None:
        arrays["targets"] = graph.targets.numpy()
    if graph.edge_weight is not None:
        arrays["edge_weight"] = graph.edge_weight.numpy()
    if graph.edge_features is not None:
        arrays["edge_features"] = graph.edge_features.numpy()
    if graph.truth is not None:
        arrays |= {name: getattr(graph.truth, name).numpy() for name in TRUTH}
    return arrays


def feature_arrays(features: Features) -> dict[str, Tensor]:
    """Return the arrays of features by name: one if they are dense, three if they are sparse."""
    if not isinstance(features, SparseRows):
        return {"features": features}
    return {f"feature_{part}": getattr(features, part) for part in ("row_ptr", "column", "value")}


def features_of(arrays: Arrays, width: int | None) -> Features:
    """Return the features that some arrays hold; ``width`` is the number of columns of sparse ones."""
    if width is None:
        return tensor_over(arrays["features"])
    row_ptr = torch.from_numpy(np.array(arrays["feature_row_ptr"]))
    return SparseRows(
        row_ptr, tensor_over(arrays["feature_column"]), tensor_over(arrays["feature_value"]), width
    )


def tensor_over(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the memory of an array; if the array is mapped, it must not be written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(array))


def fingerprint(graph: Graph) -> str:
    """Return a checksum of a graph's edges, features, edge weights and features, labels or targets, and split.

    A transductive graph has another checksum than the same graph for inductive training.
    """
    digest = hashlib.sha256(b"transductive" if graph.transductive else b"")
    arrays = [graph.row_ptr, graph.neighbour, graph.labels, graph.split]
    arrays += feature_arrays(graph.features).values()
    arrays += [one for one in (graph.edge_weight, graph.edge_features, graph.targets) if one is not None]
    for array in arrays:
        for piece in array.split(_HASHED):
            # node numbers in 32 and in 64 bits must give the same checksum
            wide = piece.long() if piece.dtype == torch.int32 else piece
            digest.update(wide.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def check_arrays(arrays: Arrays, width: int | None) -> None:
    """Refuse arrays that are missing, of a wrong type or shape, and offsets that do not ascend."""
    _check_complete(arrays, width)
    nodes, edges = arrays["row_ptr"].size - 1, arrays["neighbour"].size
    if nodes < 1:
        raise GraphError("the graph is empty: it has no node")
    shapes: dict[str, tuple[int, ...]] = {"offsets": (nodes + 1,), "nodes": (nodes,), "edges": (edges,)}
    if "edge_features" in arrays:
        if arrays["edge_features"].ndim != 2:
            raise GraphError("array 'edge_features' must have two dimensions, found another number")
        shapes["edge_rows"] = (edges, arrays["edge_features"].shape[1])
    if width is None:
        if arrays["features"].ndim != 2:
            raise GraphError(f"array 'features' must have two dimensions, found {arrays['features'].ndim}")
        shapes["rows"] = (nodes, arrays["features"].shape[1])
    else:
        shapes["values"] = (arrays["feature_column"].size,)
    for name, array in arrays.items():
        shape = SCHEMA.get(name, ((), ""))[1]
        _check_type(name, array)
        if array.shape != shapes.get(shape, array.shape):
            raise GraphError(f"array '{name}' must have shape {shapes[shape]}, found {array.shape}")
    _check_offsets("row_ptr", arrays["row_ptr"], edges)
    if width is not None:
        _check_offsets("feature_row_ptr", arrays["feature_row_ptr"], arrays["feature_column"].size)


def _check_complete(arrays: Arrays, width: int | None) -> None:
    """Refuse a graph without edges or features; ``width`` is the number of columns of sparse ones."""
    needed = ("features",) if width is None else ("feature_row_ptr", "feature_column", "feature_value")
    for name in ("row_ptr", "neighbour", *needed):
        if name not in arrays:
            raise GraphError(f"there must be an array '{name}', found none")


def _check_type(name: str, array: np.ndarray) -> None:
    """Refuse an array of another type than the schema allows, and truth values that are neither 0 nor 1."""
    types, shape = SCHEMA.get(name, ((), ""))
    if types and array.dtype.name not in types:
        raise GraphError(f"array '{name}' must hold {' or '.join(types)}, found {array.dtype.name}")
    if shape and not types and array.dtype.kind not in "iuU":
        raise GraphError(f"array '{name}' must hold text or whole numbers, found {array.dtype.name}")
    if array.dtype == bool and array.size and int(array.view(np.uint8).max()) > 1:
        raise GraphError(f"array '{name}' must hold true and false, found other bytes")


def _check_offsets(name: str, offsets: np.ndarray, end: int) -> None:
    starts = range(0, offsets.size, _CHECKED)
    descends = any(bool((np.diff(offsets[start : start + _CHECKED + 1]) < 0).any()) for start in starts)
    if offsets[0] != 0 or offsets[-1] != end or descends:
        raise GraphError(f"array '{name}' must ascend from 0 to {end}, found other offsets")
