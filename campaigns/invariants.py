"""What holds for every graph that is accepted, and readings of files that share no code with the package."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.arrays import fingerprint


def graph_faults(graph: Graph) -> list[str]:
    """Return what is wrong with a graph that was accepted."""
    row_ptr, neighbour = graph.row_ptr.numpy(), graph.neighbour.numpy().astype(np.int64)
    nodes = row_ptr.size - 1
    if nodes < 1 or row_ptr[0] != 0 or (np.diff(row_ptr) < 0).any() or row_ptr[-1] != neighbour.size:
        return ["row_ptr is not a list of offsets"]
    owner = np.repeat(np.arange(nodes), np.diff(row_ptr))
    checks = {
        "a neighbour does not exist": neighbour.size and not 0 <= neighbour.min() <= neighbour.max() < nodes,
        "a node is its own neighbour": (neighbour == owner).any(),
        "neighbours do not ascend": (np.diff(owner * nodes + neighbour) <= 0).any(),
        "labels are outside the classes": graph.labels.numel() != nodes
        or not -1 <= int(graph.labels.min()) <= int(graph.labels.max()) < max(1, graph.num_classes),
        "class names repeat": len(set(graph.class_names)) != len(graph.class_names),
        "a split is outside 0 to 3": graph.split.numel() != nodes
        or not 0 <= int(graph.split.min()) <= int(graph.split.max()) <= 3,
        "node ids repeat": len({str(name) for name in graph.node_ids.tolist()}) != nodes,
        "an edge weight is not usable": graph.edge_weight is not None
        and not _usable(graph.edge_weight.numpy(), neighbour.size),
        "edge features are not finite": graph.edge_features is not None
        and not (graph.edge_features.shape[0] == neighbour.size and np.isfinite(graph.edge_features).all()),
        "a target is infinite": graph.targets is not None
        and (graph.targets.numel() != nodes or bool(graph.targets.isinf().any())),
    }
    faults = [name for name, wrong in checks.items() if bool(wrong)]
    faults += _feature_faults(graph.features, nodes)
    if not faults:
        _use(graph)
    return faults


def _usable(weight: np.ndarray, edges: int) -> bool:
    return weight.size == edges and bool(np.isfinite(weight).all()) and bool((weight >= 0).all())


def _feature_faults(features: Any, nodes: int) -> list[str]:
    if features.shape[0] != nodes or features.shape[1] < 1:
        return [f"features are of shape {tuple(features.shape)} for {nodes} nodes"]
    if isinstance(features, SparseRows):
        column, row_ptr = features.column.numpy(), features.row_ptr.numpy()
        if (np.diff(row_ptr) < 0).any() or row_ptr[-1] != column.size:
            return ["rows of sparse features are no offsets"]
        if column.size and not 0 <= column.min() <= column.max() < features.width:
            return ["a sparse feature is outside the columns"]
        return [] if np.isfinite(features.value.numpy()).all() else ["a feature is not finite"]
    return [] if np.isfinite(features.numpy()).all() else ["a feature is not finite"]


def _use(graph: Graph) -> None:
    """Do what every command does first; an exception is a finding."""
    repr(graph)
    fingerprint(graph)
    assert graph.is_directed in (True, False)
    graph.numbers_of([str(graph.node_ids[0])])


def own_npz_faults(path: Path, graph: Graph) -> list[str]:
    """Return where a graph differs from the arrays of its npz file."""
    if zipfile.ZipFile(path).testzip() is not None:
        return ["a file with a wrong checksum was accepted"]
    with np.load(path, allow_pickle=False) as file:
        if "gdpnet_graph" not in file.files:
            return []
        arrays = {name: file[name] for name in ("row_ptr", "neighbour", "labels", "node_ids")}
    return array_faults(arrays, graph)


def array_faults(arrays: dict[str, np.ndarray], graph: Graph) -> list[str]:
    """Return where a graph differs from arrays of GDPNet's own layout."""
    owner = np.repeat(np.arange(arrays["row_ptr"].size - 1), np.diff(arrays["row_ptr"]))
    given = set(zip(arrays["neighbour"].tolist(), owner.tolist(), strict=True))
    found = set(zip(*graph.edge_index.tolist(), strict=True))
    faults = [] if found == {pair for pair in given if pair[0] != pair[1]} else ["edges differ from the file"]
    if "labels" in arrays and arrays["labels"].tolist() != graph.labels.tolist():
        faults.append("labels differ from the file")
    if "node_ids" in arrays and [str(one) for one in arrays["node_ids"].tolist()] != _ids(graph):
        faults.append("node ids differ from the file")
    return faults


def _ids(graph: Graph) -> list[str]:
    return [str(name) for name in graph.node_ids.tolist()]


def table_faults(expected: dict[str, Any], graph: Graph) -> list[str]:
    """Return where a graph differs from the ids, edges and labels that were written to its tables."""
    ids, faults = _ids(graph), []
    if sorted(ids) != sorted(expected["ids"]):
        return ["node ids differ from those written"]
    found = {(ids[source], ids[target]) for source, target in zip(*graph.edge_index.tolist(), strict=True)}
    given = {(one, other) for pair in expected["edges"] for one, other in (pair, pair[::-1]) if one != other}
    if found != given:
        faults.append("edges differ from those written")
    labels = {
        name: graph.class_names[label]
        for name, label in zip(ids, graph.labels.tolist(), strict=True)
        if label >= 0
    }
    if labels != {name: label for name, label in expected["labels"].items() if label}:
        faults.append("labels differ from those written")
    return faults


def csv_rows(content: bytes) -> list[list[str]]:
    """Read a comma-separated file with the standard library."""
    return list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
