"""Graphs in npz files: GDPNet's own layout, which keeps everything, and that of the CitationFull datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gdpnet._core.files import atomic_path
from gdpnet.data.array_checks import check_csr
from gdpnet.data.edge_features import with_edge_features
from gdpnet.data.edge_weight import with_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.archive import read_archive
from gdpnet.data.io.arrays import TRUTH, Arrays, arrays_of, check_arrays, features_of
from gdpnet.data.io.pyg import from_scipy
from gdpnet.errors import GraphError, refusing

FORMAT = 1
"""Version of GDPNet's layout."""

_NEEDED = ("row_ptr", "neighbour", "labels", "split", "node_ids", "class_names")


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
    arrays = read_archive(Path(path))
    try:
        with refusing("the file is damaged: its content"):
            if "gdpnet_graph" in arrays:
                return _from_own_layout(arrays)
            if "adj_indptr" in arrays:
                features = csr_of(arrays, "attr") if "attr_indptr" in arrays else None
                return from_scipy(csr_of(arrays, "adj"), features, arrays.get("labels"), directed=directed)
    except GraphError as error:
        raise GraphError(f"{path} does not hold a usable graph: {error}") from error
    raise GraphError(
        f"{path} must hold a graph written by gdpnet or the arrays adj_data, adj_indices, adj_indptr and "
        f"adj_shape, found {', '.join(arrays) or 'nothing'}"
    )


def _from_own_layout(arrays: Arrays) -> Graph:
    if (version := _number(arrays, "gdpnet_graph")) != FORMAT:
        raise GraphError(f"its layout must be version {FORMAT}, found {version}")
    check_present(arrays, _NEEDED)
    width = _number(arrays, "feature_width") if "feature_width" in arrays else None
    check_arrays(arrays, width)
    target = np.repeat(np.arange(arrays["row_ptr"].size - 1), np.diff(arrays["row_ptr"]))
    edge_index = np.stack([arrays["neighbour"], target])
    graph = Graph.build(
        edge_index,
        features_of(arrays, width),
        arrays["labels"],
        split=arrays["split"],
        node_ids=arrays["node_ids"],
        class_names=_names(arrays, "class_names"),
        directed=True,
        targets=arrays.get("targets"),
        transductive=bool(_number(arrays, "transductive")) if "transductive" in arrays else False,
        **{name: arrays.get(name) for name in TRUTH},
    )
    if "feature_names" in arrays:
        graph = graph.with_feature_names(_names(arrays, "feature_names"))
    names = _names(arrays, "edge_feature_names") if "edge_feature_names" in arrays else None
    graph = with_edge_features(graph, edge_index, arrays.get("edge_features"), names, directed=True)
    return with_weights(graph, edge_index, arrays.get("edge_weight"), directed=True)


def _number(arrays: Arrays, name: str) -> int:
    """Return an array that holds a single whole number, or true or false."""
    array = arrays[name]
    if array.shape != () or array.dtype.kind not in "biu":
        raise GraphError(
            f"array '{name}' must be one whole number, found shape {array.shape} of {array.dtype}"
        )
    return int(array)


def _names(arrays: Arrays, name: str) -> list[str]:
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind != "U":
        raise GraphError(f"array '{name}' must be a row of texts, found shape {array.shape} of {array.dtype}")
    return [str(text) for text in array.tolist()]


def check_present(arrays: Arrays, names: tuple[str, ...]) -> None:
    """Refuse arrays that lack one of some names."""
    for name in names:
        if name not in arrays:
            raise GraphError(f"it must hold an array '{name}', found {', '.join(arrays) or 'none'}")


def csr_of(arrays: Arrays, prefix: str) -> sp.csr_matrix:
    """Return a matrix of the CitationFull layout, after checking its arrays."""
    parts = ("shape", "data", "indices", "indptr")
    check_present(arrays, tuple(f"{prefix}_{part}" for part in parts))
    shape, data, indices, indptr = (arrays[f"{prefix}_{part}"] for part in parts)
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise GraphError(f"array '{prefix}_shape' must be two whole numbers, found shape {shape.shape}")
    size = (int(shape[0]), int(shape[1]))
    check_csr(indptr, indices, data, size, f"the matrix '{prefix}'")
    return sp.csr_matrix((data, indices, indptr), shape=size)
