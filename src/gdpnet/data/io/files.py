"""Read a graph from files of any kind, and write it as tables: edges, nodes and, if they are sparse, features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from gdpnet._core.files import Place, place_of
from gdpnet._core.files.objects import ObjectPath
from gdpnet.data.edge_features import without_columns, without_edge_features
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns, Reading
from gdpnet.data.io.csv_parquet import SUFFIXES, write_table
from gdpnet.data.io.npz import read_npz
from gdpnet.data.io.read_tables import read_edge_table, read_folder
from gdpnet.data.io.store import is_store, open_store
from gdpnet.data.io.table_file import find_table, has_parts, is_table, parts_of
from gdpnet.data.labels import as_targets
from gdpnet.data.tables.node_table import AS_GIVEN, MARK
from gdpnet.data.validation import SPLITS, whole_or_text_ids
from gdpnet.errors import GraphError, refusing


def read_graph(
    path: Place | str,
    *,
    columns: Columns | Mapping[str, Any] = USUAL_COLUMNS,
    directed: bool = False,
    weights: bool = True,
    drop_unknown: bool = False,
    task: str | None = None,
) -> Graph:
    """Read a graph from a folder of tables, a table of edges, a store or an npz file.

    The folder holds the tables ``edges`` and ``nodes``, and ``features`` in long form (node, feature, value) if they
    are sparse; each as CSV or TSV, also compressed (``.gz``), as Parquet, or as a folder of Parquet files. In CSV,
    node ids are text. Without a table of nodes, the edges name them.

    Args:
        path: the folder or file.
        columns: the names of the columns, if they are not the usual ones; ``{"node": "account"}`` works too.
        directed: keep the direction of edges.
        weights: read the weights of edges, if the table of edges has a column for them.
        drop_unknown: leave out edges, and feature values, of nodes that are not in the table of nodes.
        task: for ``regression`` the label column holds the numbers to predict, in place of classes.
    """
    if not isinstance(path, str | PathLike | ObjectPath):
        raise GraphError(f"the graph must be the path of a file or folder, found {type(path).__name__}")
    with refusing(f"the graph {path}"):
        return _read(place_of(path), Reading(Columns.of(columns), directed, weights, drop_unknown, task))


def _read(path: Place, reading: Reading) -> Graph:
    if is_store(path):
        return _without_unread(open_store(path), reading)
    if not isinstance(path, Path):
        raise GraphError(f"there is no store at {path}; other graphs are read from files of this machine")
    if not path.exists():
        raise GraphError(f"there is no file or folder {path}")
    if path.suffix == ".npz":
        return _without_unread(read_npz(path, directed=reading.directed), reading)
    if path.is_dir() and (find_table(path, "edges") or find_table(path, "nodes") or not has_parts(path)):
        return read_folder(path, reading)
    if is_table(path):
        return read_edge_table(path, reading)
    raise GraphError(
        f"a graph must be a folder with tables of nodes and edges, a table of edges, or a .npz file, found {path}"
    )


def files_of(path: Path) -> list[Path]:
    """Return the files that :func:`read_graph` reads, or none if there is no graph."""
    if not path.is_dir():
        return [path] if path.exists() else []
    if is_store(path):
        return [part for part in path.iterdir() if part.is_file()]
    tables = [table for stem in ("nodes", "edges", "features") if (table := find_table(path, stem))]
    return [part for table in tables or [path] for part in parts_of(table)]


def _without_unread(graph: Graph, reading: Reading) -> Graph:
    """Return a stored graph with the labels and the edge columns that are asked for."""
    graph = as_targets(graph) if reading.task == "regression" else graph
    graph = graph if reading.columns.edge_features else without_edge_features(graph)
    graph = without_columns(graph, reading.columns.dropped_edge_columns)
    return graph if reading.weights else replace(graph, edge_weight=None)


def write_tables(
    graph: Graph,
    folder: str | Path,
    format: str = "parquet",
    extra_edge_columns: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write the tables that :func:`read_graph` reads, as ``csv`` or ``parquet``; known noise is left out.

    Every edge is written in its direction: read a graph with one-way edges as directed. Classes without a node are
    not written, and reading sorts the classes.
    """
    folder = Path(folder)
    if f".{format}" not in SUFFIXES:
        raise GraphError(f"the format of tables must be csv or parquet, found '{format}'")
    tables = {"nodes": node_table(graph), "edges": full_edge_table(graph, extra_edge_columns or {})}
    of_table = graph.table is not None and graph.table.columns is not None
    if isinstance(graph.features, SparseRows) and not of_table:
        tables["features"] = _long_table(graph, graph.features)
    for stem in ("nodes", "edges", "features"):
        other = find_table(folder, stem) if folder.is_dir() else None
        if other is not None and not (stem in tables and other.name == f"{stem}.{format}"):
            raise GraphError(
                f"{other} is from another graph and would be read with this one; remove it first"
            )
    for stem, table in tables.items():
        write_table(table, folder / f"{stem}.{format}")


def edge_table(graph: Graph) -> Any:
    """Return an Arrow table of the edges, source and target, by the user's ids."""
    return edges_of_targets(graph, id_array(graph), 0, graph.num_nodes)


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


def node_table(graph: Graph) -> Any:
    """Return an Arrow table of the nodes: id, label, split, and dense features."""
    table = {"id": id_array(graph)}
    if graph.targets is not None:
        table["label"] = pa.array(graph.targets.numpy(), from_pandas=True)  # NaN becomes null
    elif graph.num_classes:
        names = np.array([*graph.class_names, None], dtype=object)
        table["label"] = pa.array(names[graph.labels.numpy()], pa.string())
    if bool(graph.split.any()):
        splits = np.array([None, *SPLITS[1:]], dtype=object)
        table["split"] = pa.array(splits[graph.split.numpy()], pa.string())
    if graph.table is not None and graph.table.columns is not None:
        own = graph.table.columns
        table |= {name: own.column(name) for name in own.column_names if name not in ("id", "label", "split")}
    elif isinstance(graph.features, Tensor):
        dense = graph.features.numpy()
        columns = graph.feature_names or ()
        if len(set(columns)) != graph.num_features or not {"id", "label", "split"}.isdisjoint(columns):
            columns = tuple(f"f{place}" for place in range(graph.num_features))
        table |= {name: pa.array(dense[:, place]) for place, name in enumerate(columns)}
        how = AS_GIVEN if graph.table is None else json.dumps(graph.table.encoding.to_dict()).encode()
        return pa.table(table).replace_schema_metadata({MARK: how})
    return pa.table(table)


def full_edge_table(graph: Graph, extra: Mapping[str, np.ndarray]) -> Any:
    """Return an Arrow table of the edges with their weights and features, and further columns."""
    table = edge_table(graph)
    if graph.edge_weight is not None:
        table = table.append_column("weight", pa.array(graph.edge_weight.numpy()))
    if graph.edge_features is not None:
        rows, names = graph.edge_features.numpy(), graph.edge_feature_names or ()
        if len(set(names)) != rows.shape[1] or not {"source", "target", "weight", *extra}.isdisjoint(names):
            names = tuple(f"e{place}" for place in range(rows.shape[1]))
        for name, column in zip(names, rows.T, strict=True):
            table = table.append_column(name, pa.array(column))
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
