"""Graphs in npz files: GDPNet's own layout, which keeps everything, and that of the CitationFull datasets."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gdpnet._core.files import atomic_path
from gdpnet.data.edge_features import with_edge_features
from gdpnet.data.edge_weight import with_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import TRUTH, Arrays, arrays_of, check_arrays, features_of
from gdpnet.data.io.pyg import from_scipy
from gdpnet.errors import GraphError

FORMAT = 1
"""Version of GDPNet's layout."""


def write_npz(graph: Graph, path: str | Path) -> None:
    """Write a graph with its weights and known noise; :func:`read_npz` returns the same graph."""
    path = Path(path)
    if path.suffix != ".npz":
        raise GraphError(f"a graph must be written to a .npz file, found {path.name}")
    arrays = {"gdpnet_graph": np.array(FORMAT), "class_names": np.array(graph.class_names, dtype=str)}
    arrays |= arrays_of(graph)
    if "feature_column" in arrays:  # no array tells how many columns sparse features have
        arrays["feature_width"] = np.array(graph.num_features)
    if graph.feature_names is not None:
        arrays["feature_names"] = np.array(graph.feature_names, dtype=str)
    if graph.edge_feature_names is not None:
        arrays["edge_feature_names"] = np.array(graph.edge_feature_names, dtype=str)
    if graph.transductive:
        arrays["transductive"] = np.array(True)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_npz(path: str | Path, *, directed: bool = False) -> Graph:
    """Read a graph from an npz file of either layout; ``directed`` applies to the CitationFull layout only."""
    arrays = load_arrays(Path(path))
    try:
        if "gdpnet_graph" in arrays:
            return _from_own_layout(arrays)
        if "adj_indptr" in arrays:
            features = csr_of(arrays, "attr") if "attr_indptr" in arrays else None
            return from_scipy(csr_of(arrays, "adj"), features, arrays.get("labels"), directed=directed)
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


def load_arrays(path: Path) -> Arrays:
    """Read every plain array; arrays that would need unpickling are left out."""
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


def _from_own_layout(arrays: Arrays) -> Graph:
    if int(arrays["gdpnet_graph"]) != FORMAT:
        raise GraphError(f"its layout must be version {FORMAT}, found {int(arrays['gdpnet_graph'])}")
    width = int(arrays["feature_width"]) if "feature_width" in arrays else None
    check_arrays(arrays, width)
    target = np.repeat(np.arange(arrays["row_ptr"].size - 1), np.diff(arrays["row_ptr"]))
    edge_index = np.stack([arrays["neighbour"], target])
    graph = Graph.build(
        edge_index,
        features_of(arrays, width),
        arrays["labels"],
        split=arrays["split"],
        node_ids=arrays["node_ids"],
        class_names=arrays["class_names"].tolist(),
        directed=True,
        targets=arrays.get("targets"),
        transductive=bool(arrays.get("transductive", False)),
        **{name: arrays.get(name) for name in TRUTH},
    )
    if "feature_names" in arrays:
        graph = graph.with_feature_names(arrays["feature_names"].tolist())
    names = arrays["edge_feature_names"].tolist() if "edge_feature_names" in arrays else None
    graph = with_edge_features(graph, edge_index, arrays.get("edge_features"), names, directed=True)
    return with_weights(graph, edge_index, arrays.get("edge_weight"), directed=True)


def csr_of(arrays: Arrays, prefix: str) -> sp.csr_matrix:
    """Return a matrix of the CitationFull layout."""
    rows, columns = (int(size) for size in arrays[f"{prefix}_shape"])
    parts = tuple(arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr"))
    matrix = sp.csr_matrix(parts, shape=(rows, columns))
    matrix.check_format(full_check=True)
    return matrix
