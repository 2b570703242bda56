"""Read a graph from a folder with tables of nodes and edges, or from a table of edges alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gdpnet.data.edge_features import with_edge_features
from gdpnet.data.features import ONE_HOT_NOTE, SparseRows
from gdpnet.data.given_ids import check_unique
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns, Reading, find_edge_columns, find_node_columns
from gdpnet.data.io.csv_parquet import (
    code_labels,
    code_split,
    column_of,
    missing_labels_note,
    read_targets,
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
from gdpnet.data.io.table_file import TableFile, find_table, open_table
from gdpnet.data.validation import whole_or_text_ids
from gdpnet.errors import GraphError


def read_folder(folder: Path, how: Reading) -> Graph:
    """Read the tables of a folder as a graph."""
    node_path, edge_path = find_table(folder, "nodes"), find_table(folder, "edges")
    if edge_path is None:
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:5]) or "nothing"
        raise GraphError(
            f"{folder} must hold a table of edges, such as edges.csv or edges.parquet, and one of nodes, found "
            f"{found}"
        )
    if node_path is None:
        return read_edge_table(edge_path, how)
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
        targets = read_targets(nodes, columns.label, node_path, ids)
    elif label is not None:
        labels, names = code_labels(*label)
        notes = (*notes, *missing_labels_note(*label))
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


def read_edge_table(path: Path, how: Reading) -> Graph:
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
    _check_ids(ids, path)
    return table, ids, columns, (*notes, *more, *said, *also)


def _check_ids(ids: Any, path: Path) -> None:
    """Refuse a table without nodes and ids that two have, before edges are looked up among them."""
    try:
        if not len(ids):
            raise GraphError("the graph is empty: it has no node")
        if pc.count_distinct(ids).as_py() < len(ids):
            check_unique(np.array(ids))
    except GraphError as error:
        raise GraphError(f"{path} does not hold usable nodes: {error}") from error


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
