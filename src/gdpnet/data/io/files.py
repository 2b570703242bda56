"""Read a graph from files of any kind, and write it as tables: edges, nodes and, if they are sparse, features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from gdpnet.data.edge_features import with_edge_features, without_columns, without_edge_features
from gdpnet.data.features import ONE_HOT_NOTE, SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns, find_edge_columns, find_node_columns
from gdpnet.data.io.csv_parquet import (
    SUFFIXES,
    code_labels,
    code_split,
    column_of,
    read_targets,
    write_table,
)
from gdpnet.data.io.edge_list import (
    EdgeList,
    match_edges,
    read_edge_rows,
    with_edge_weights,
    without_node_table,
)
from gdpnet.data.io.long_features import read_long_features
from gdpnet.data.io.node_columns import choose_columns, encode_columns
from gdpnet.data.io.node_ids import check_present, id_column, without_decimals
from gdpnet.data.io.npz import read_npz
from gdpnet.data.io.store import is_store, open_store
from gdpnet.data.io.table_file import TableFile, find_table, has_parts, is_table, open_table
from gdpnet.data.labels import as_targets
from gdpnet.data.tables.node_table import MARK
from gdpnet.data.validation import SPLITS, whole_or_text_ids
from gdpnet.errors import GraphError


@dataclass(frozen=True)
class Reading:
    """How tables are read; see :func:`read_graph`."""

    columns: Columns
    directed: bool
    weights: bool = True
    drop_unknown: bool = False
    task: str | None = None


def read_graph(
    path: Path | str,
    *,
    columns: Columns = USUAL_COLUMNS,
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
        columns: the names of the columns, if they are not the usual ones.
        directed: keep the direction of edges.
        weights: read the weights of edges, if the table of edges has a column for them.
        drop_unknown: leave out edges, and feature values, of nodes that are not in the table of nodes.
        task: for ``regression`` the label column holds the numbers to predict, in place of classes.
    """
    path, reading = Path(path), Reading(columns, directed, weights, drop_unknown, task)
    if not path.exists():
        raise GraphError(f"there is no file or folder {path}")
    if is_store(path) or path.suffix == ".npz":
        graph = open_store(path) if is_store(path) else read_npz(path, directed=directed)
        graph = as_targets(graph) if task == "regression" else graph
        graph = graph if columns.edge_features else without_edge_features(graph)
        graph = without_columns(graph, columns.dropped_edge_columns)
        return graph if weights else replace(graph, edge_weight=None)
    if path.is_dir() and (find_table(path, "edges") or find_table(path, "nodes") or not has_parts(path)):
        return _read_folder(path, reading)
    if is_table(path):
        return _read_edge_table(path, reading)
    raise GraphError(
        f"a graph must be a folder with tables of nodes and edges, a table of edges, or a .npz file, found {path}"
    )


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
    tables = {"nodes": node_table(graph), "edges": _full_edge_table(graph, extra_edge_columns or {})}
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
        return pa.table(table).replace_schema_metadata({MARK: b"features"})
    return pa.table(table)


def _full_edge_table(graph: Graph, extra: Mapping[str, np.ndarray]) -> Any:
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


def _read_folder(folder: Path, how: Reading) -> Graph:
    """Read the tables of a folder as a graph."""
    node_path, edge_path = find_table(folder, "nodes"), find_table(folder, "edges")
    if edge_path is None:
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:5]) or "nothing"
        raise GraphError(
            f"{folder} must hold a table of edges, such as edges.csv or edges.parquet, and one of nodes, found "
            f"{found}"
        )
    if node_path is None:
        return _read_edge_table(edge_path, how)
    return graph_of_tables(open_table(node_path), open_table(edge_path), how, find_table(folder, "features"))


def graph_of_tables(
    node_file: TableFile, edge_file: TableFile, how: Reading, long_path: Path | None = None
) -> Graph:
    """Check tables of nodes and edges, and of features in long form, and build their graph."""
    node_path = node_file.path
    nodes, ids, columns, notes = _read_nodes(node_file, how.columns)
    label, split = (_optional(nodes, columns, role, node_path) for role in ("label", "split"))
    labels, names, targets = None, None, None
    if label is not None and how.task == "regression":
        targets = read_targets(nodes, columns.label, node_path)
    elif label is not None:
        labels, names = code_labels(*label)
    codes = None if split is None else code_split(*split)
    table = choose_columns(nodes, columns, node_path)
    features, feature_names, more = _read_features(long_path, table, ids, node_path, how.drop_unknown)
    rows = read_edge_rows(edge_file, columns)
    edges = match_edges(rows, ids, node_path.name, weights=how.weights, drop_unknown=how.drop_unknown)
    try:
        graph = Graph.build(
            edges.ends,
            features,
            labels,
            split=codes,
            node_ids=whole_or_text_ids(np.array(ids)),
            class_names=names,
            directed=how.directed,
            targets=targets,
        ).with_notes(*notes, *more, *edges.notes)
    except GraphError as error:
        raise GraphError(f"{node_path} does not hold usable nodes: {error}") from error
    graph = replace(graph, feature_names=feature_names)
    graph = graph if table is None else encode_columns(graph, table, columns)
    return _with_edge_columns(graph, edges, how)


def _with_edge_columns(graph: Graph, edges: EdgeList, how: Reading) -> Graph:
    """Return a graph with the weights of its edges, and what the other columns of the edge table say of them."""
    found = edges.features
    graph = with_edge_features(graph, edges.ends, found.values, found.names, directed=how.directed)
    return with_edge_weights(graph, edges, directed=how.directed)


def _read_edge_table(path: Path, how: Reading) -> Graph:
    """Read a table of edges as a graph whose nodes are those that the edges name."""
    file, beside = open_table(path), find_table(path.parent, "nodes")
    ends = find_edge_columns(how.columns, file.names, path.name)[0]
    if not {ends.source, ends.target} <= set(file.names):
        raise GraphError(
            "a graph must be a folder with tables of nodes and edges, or a table of edges with columns "
            f"'{ends.source}' and '{ends.target}', found {path} with {', '.join(file.names[:5])}"
        )
    rows = without_node_table(read_edge_rows(file, how.columns))
    ids = rows.node_ids()
    edges = match_edges(rows, ids, path.name, weights=how.weights, drop_unknown=how.drop_unknown)
    note = f"there is no table of nodes: the edges of {path.name} name {len(ids):,}, without labels"
    if beside is not None:
        note = f"only {path.name} is read, not {beside.name}; name their folder to read both"
    if not len(ids):
        raise GraphError(
            f"{path} must name the nodes of the graph, as there is no table of nodes, found no edge"
        )
    node_ids, features = whole_or_text_ids(np.array(ids)), SparseRows.identity(len(ids))
    graph = Graph.build(edges.ends, features, node_ids=node_ids, directed=how.directed)
    return _with_edge_columns(graph.with_notes(note, ONE_HOT_NOTE, *edges.notes), edges, how)


def _read_nodes(file: TableFile, columns: Columns) -> tuple[Any, Any, Columns, tuple[str, ...]]:
    """Read the table of nodes; return it, its ids, the names of its columns, and notes."""
    path = file.path
    columns, notes = find_node_columns(columns, file.names, path.name)
    table, more = file.read(text=(columns.node, columns.label, columns.split))
    ids, said = id_column(table, columns.node, path, "node")
    check_present(ids, columns.node, path)
    ids, also = without_decimals(ids, columns.node, path)
    return table, ids, columns, (*notes, *more, *said, *also)


def _read_features(
    long_path: Path | None, table: Any, ids: Any, node_path: Path, drop_unknown: bool
) -> tuple[Any, tuple[str, ...] | None, tuple[str, ...]]:
    """Read sparse features from the long table; return them, their names if they have any, and notes.

    Without that table nodes are one-hot, until the columns of the node table become features.
    """
    if long_path is not None:
        if table is not None:
            name = table.column_names[0]
            raise GraphError(
                f"features must be in one place, found {long_path} and column '{name}' of {node_path}"
            )
        return read_long_features(long_path, ids, node_path, drop_unknown)
    return SparseRows.identity(len(ids)), None, () if table is not None else (ONE_HOT_NOTE,)


def _optional(table: Any, columns: Columns, role: str, path: Path) -> tuple[Any, str] | None:
    """Return a column and how errors call it, or None if it is absent and the user did not name it."""
    name, usual = getattr(columns, role), getattr(USUAL_COLUMNS, role)
    if name == usual and name not in table.column_names:
        return None
    return column_of(table, name, path), f"column '{name}' of {path}"
