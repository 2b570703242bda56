"""Graphs in npz files: our own layout, written and read back exactly, and the one that CitationFull uses."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gdpnet._core.files import atomic_path
from gdpnet.data.edge_weight import with_weights
from gdpnet.data.features import ONE_HOT_NOTE, SparseRows
from gdpnet.data.graph import Graph, id_text
from gdpnet.errors import GraphError

FORMAT = 1
"""Version of our layout."""

Arrays = dict[str, np.ndarray]


def write_npz(graph: Graph, path: Path) -> None:
    """Write everything about a graph, weights and known noise included; :func:`read_npz` gives it back."""
    if path.suffix != ".npz":
        raise GraphError(f"a graph must be written to a .npz file, found {path.name}")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **_arrays_of(graph))


def read_npz(path: Path, *, directed: bool = False) -> Graph:
    """Read a graph from an npz file of either layout; ``directed`` is for the second, ours knows."""
    arrays = _load(path)
    try:
        if "gdpnet_graph" in arrays:
            return _from_ours(arrays)
        if "adj_indptr" in arrays:
            return _from_common(arrays, directed)
    except KeyError as error:
        raise GraphError(f"{path} must hold an array {error}, found {', '.join(arrays)}") from error
    except GraphError as error:
        raise GraphError(f"{path} does not hold a usable graph: {error}") from error
    except (ValueError, TypeError, IndexError) as error:
        raise GraphError(f"{path} is damaged: {error}") from error
    raise GraphError(
        f"{path} must hold a graph written by gdpnet or the arrays adj_data, adj_indices, adj_indptr and "
        f"adj_shape, found {', '.join(arrays) or 'nothing'}"
    )


def _load(path: Path) -> Arrays:
    """Read every plain array; those that would need unpickling are left out, whatever they hold."""
    try:
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            return {name: array for name in file.files if (array := _plain(file, name)) is not None}
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else "it is truncated, damaged or something else"
        raise GraphError(f"{path} cannot be read as an npz file: {reason}") from error


def _plain(file: Any, name: str) -> np.ndarray | None:
    try:
        return file[name]
    except ValueError as error:
        if "pickle" in str(error):
            return None
        raise


def _arrays_of(graph: Graph) -> Arrays:
    ids = graph.node_ids if graph.node_ids.dtype.kind in "iu" else id_text(graph.node_ids)
    arrays = {
        "gdpnet_graph": np.array(FORMAT),
        "row_ptr": graph.row_ptr.numpy(),
        "neighbour": graph.neighbour.numpy(),
        "labels": graph.labels.numpy(),
        "split": graph.split.numpy(),
        "node_ids": ids,
        "class_names": np.array(graph.class_names, dtype=str),
    }
    if isinstance(graph.features, SparseRows):
        arrays["feature_row_ptr"] = graph.features.row_ptr.numpy()
        arrays["feature_column"] = graph.features.column.numpy()
        arrays["feature_value"] = graph.features.value.numpy()
        arrays["feature_width"] = np.array(graph.features.width)
    else:
        arrays["features"] = graph.features.numpy()
    if graph.edge_weight is not None:
        arrays["edge_weight"] = graph.edge_weight.numpy()
    if graph.feature_names is not None:
        arrays["feature_names"] = np.array(graph.feature_names, dtype=str)
    if graph.truth is not None:
        arrays["spurious"] = graph.truth.spurious.numpy()
        arrays["corrupted"] = graph.truth.corrupted.numpy()
        arrays["clean_labels"] = graph.truth.clean_labels.numpy()
    return arrays


def _from_ours(arrays: Arrays) -> Graph:
    if int(arrays["gdpnet_graph"]) != FORMAT:
        raise GraphError(f"its layout must be version {FORMAT}, found {int(arrays['gdpnet_graph'])}")
    nodes, edges = arrays["row_ptr"].size - 1, arrays["neighbour"].size
    adjacency = _checked_csr((nodes, nodes), np.ones(edges), arrays["neighbour"], arrays["row_ptr"])
    edge_index = np.stack([arrays["neighbour"], np.repeat(np.arange(nodes), np.diff(adjacency.indptr))])
    graph = Graph.build(
        edge_index,
        arrays["features"] if "features" in arrays else _sparse_features(arrays),
        arrays["labels"],
        split=arrays["split"],
        node_ids=arrays["node_ids"],
        class_names=arrays["class_names"].tolist(),
        directed=True,
        spurious=arrays.get("spurious"),
        corrupted=arrays.get("corrupted"),
        clean_labels=arrays.get("clean_labels"),
    )
    if graph.num_nodes != nodes:
        raise GraphError(f"there must be one feature row a node ({nodes}), found {graph.num_nodes}")
    if "feature_names" in arrays:
        graph = graph.with_feature_names(arrays["feature_names"].tolist())
    if "edge_weight" in arrays:
        return with_weights(graph, edge_index, arrays["edge_weight"], directed=True)
    return graph


def _sparse_features(arrays: Arrays) -> SparseRows:
    parts = [arrays[f"feature_{part}"] for part in ("value", "column", "row_ptr")]
    _checked_csr((parts[2].size - 1, int(arrays["feature_width"])), *parts)
    value, column, row_ptr = (torch.from_numpy(part) for part in parts)
    return SparseRows(row_ptr.long(), column.long(), value.float(), int(arrays["feature_width"]))


def _from_common(arrays: Arrays, directed: bool) -> Graph:
    adjacency = _common_csr(arrays, "adj").tocoo()
    real = adjacency.data != 0
    named = "attr_indptr" in arrays
    features = _common_csr(arrays, "attr") if named else SparseRows.identity(adjacency.shape[0])
    if adjacency.shape[0] != adjacency.shape[1] or adjacency.shape[0] != features.shape[0]:
        raise GraphError(
            f"adj_shape must be square with as many rows as attr_shape ({features.shape[0]}), "
            f"found {adjacency.shape}"
        )
    edge_index = np.stack([adjacency.row[real], adjacency.col[real]])
    graph = Graph.build(edge_index, features, arrays.get("labels"), directed=directed)
    return graph if named else graph.with_notes(ONE_HOT_NOTE)


def _common_csr(arrays: Arrays, prefix: str) -> sp.csr_matrix:
    rows, columns = (int(size) for size in arrays[f"{prefix}_shape"])
    parts = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr"))
    return _checked_csr((rows, columns), *parts)


def _checked_csr(shape: tuple[int, int], *parts: np.ndarray) -> sp.csr_matrix:
    matrix = sp.csr_matrix(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix
