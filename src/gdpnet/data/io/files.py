"""Read a graph from files of any kind, and write it as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import SUFFIXES, write_table
from gdpnet.data.io.folder import USUAL_COLUMNS, Columns, read_folder
from gdpnet.data.io.npz import read_npz
from gdpnet.data.io.store import is_store, open_store
from gdpnet.data.validation import SPLITS, whole_or_text_ids
from gdpnet.errors import GraphError

__all__ = [
    "USUAL_COLUMNS",
    "Columns",
    "edge_table",
    "edges_of_targets",
    "id_array",
    "read_graph",
    "write_tables",
]


def read_graph(path: Path, *, columns: Columns = USUAL_COLUMNS, directed: bool = False) -> Graph:
    """Read a graph from a folder of tables, a store or an npz file.

    The folder holds the tables ``edges`` and ``nodes``, and ``features`` in long form (node, feature, value) if they
    are sparse; each as ``.csv`` or ``.parquet``. In CSV, node ids are text.
    """
    if not path.exists():
        raise GraphError(f"there is no file or folder {path}")
    if is_store(path):
        return open_store(path)
    if path.is_dir():
        return read_folder(path, columns, directed)
    if path.suffix == ".npz":
        return read_npz(path, directed=directed)
    raise GraphError(
        f"a graph must be a folder with an edge table and a node table, or a .npz file, found {path}"
    )


def write_tables(
    graph: Graph,
    folder: Path,
    format: str = "parquet",
    extra_edge_columns: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write the tables that :func:`read_graph` reads, as ``csv`` or ``parquet``; known noise is left out.

    Every edge is written in its direction: read a graph with one-way edges as directed. Classes without a node are
    not written, and reading sorts the classes.
    """
    if f".{format}" not in SUFFIXES:
        raise GraphError(f"the format of tables must be csv or parquet, found '{format}'")
    tables = {"nodes": _node_table(graph), "edges": _full_edge_table(graph, extra_edge_columns or {})}
    if isinstance(graph.features, SparseRows):
        tables["features"] = _long_table(graph, graph.features)
    for stem in ("nodes", "edges", "features"):
        for suffix in SUFFIXES:
            other = folder / f"{stem}{suffix}"
            if other.exists() and not (stem in tables and suffix == f".{format}"):
                raise GraphError(
                    f"{other} is from another graph and would be read with this one; remove it first"
                )
    for stem, table in tables.items():
        write_table(table, folder / f"{stem}.{format}")


def edge_table(graph: Graph, ids: bool = True) -> Any:
    """Return an Arrow table of the edges, source and target, by the user's ids or by node numbers."""
    names = id_array(graph) if ids else pa.array(np.arange(graph.num_nodes))
    return edges_of_targets(graph, names, 0, graph.num_nodes)


def edges_of_targets(graph: Graph, names: Any, first: int, last: int) -> Any:
    """Return an Arrow table of the edges of the targets from ``first`` up to ``last``, with the nodes' names."""
    bounds = graph.row_ptr[first : last + 1]
    neighbour = graph.neighbour[int(bounds[0]) : int(bounds[-1])]
    target = np.repeat(np.arange(first, last), bounds.diff().numpy())
    return pa.table(
        {"source": names.take(pa.array(neighbour.numpy())), "target": names.take(pa.array(target))}
    )


def id_array(graph: Graph) -> Any:
    """Return the user's ids as an Arrow array of whole numbers or text."""
    return pa.array(whole_or_text_ids(graph.node_ids))


def _node_table(graph: Graph) -> Any:
    table = {"id": id_array(graph)}
    if graph.num_classes:
        names = np.array([*graph.class_names, None], dtype=object)
        table["label"] = pa.array(names[graph.labels.numpy()], pa.string())
    if bool(graph.split.any()):
        splits = np.array([None, *SPLITS[1:]], dtype=object)
        table["split"] = pa.array(splits[graph.split.numpy()], pa.string())
    if isinstance(graph.features, Tensor):
        dense = graph.features.numpy()
        columns = graph.feature_names or ()
        if len(set(columns)) != graph.num_features or not {"id", "label", "split"}.isdisjoint(columns):
            columns = tuple(f"f{place}" for place in range(graph.num_features))
        table |= {name: pa.array(dense[:, place]) for place, name in enumerate(columns)}
    return pa.table(table)


def _full_edge_table(graph: Graph, extra: Mapping[str, np.ndarray]) -> Any:
    table = edge_table(graph)
    if graph.edge_weight is not None:
        table = table.append_column("weight", pa.array(graph.edge_weight.numpy()))
    for name, values in extra.items():
        if name in ("source", "target", "weight") or len(values) != graph.num_edges:
            raise GraphError(
                f"an extra edge column must have a name of its own and one value per edge "
                f"({graph.num_edges}), found '{name}' with {len(values)}"
            )
        table = table.append_column(name, pa.array(values))
    return table


def _long_table(graph: Graph, features: SparseRows) -> Any:
    row, column, value = features.row.numpy(), features.column.numpy(), features.value.numpy()
    names = graph.feature_names
    # zeros in empty columns preserve the width and the names
    empty = np.setdiff1d(np.arange(features.width) if names else [features.width - 1], column)
    row, column = np.append(row, np.zeros_like(empty)), np.append(column, empty)
    value = np.append(value, np.zeros(empty.size, dtype=np.float32))
    named: Any = column if names is None else pa.array(names).take(pa.array(column))
    return pa.table({"node": id_array(graph).take(pa.array(row)), "feature": named, "value": value})
