"""Graphs from and to pandas frames of nodes and edges; pandas is imported only where it is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph, check_graph
from gdpnet.data.io.cells import check_cells
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns, Reading, find_edge_columns, find_node_columns
from gdpnet.data.io.files import edge_table, full_edge_table, node_table
from gdpnet.data.io.read_tables import graph_of_tables
from gdpnet.data.io.table_file import TableInMemory
from gdpnet.errors import GraphError, refusing

_NODES, _EDGES = Path("the nodes frame"), Path("the edges frame")
"""How errors call the frames."""


class Frames(NamedTuple):
    """The pandas frames of a graph."""

    nodes: Any
    """One row per node: id, label, split and a column per feature."""
    edges: Any
    """One row per directed edge: source, target, weight and a column per edge feature."""


@refusing("the frames")
def from_pandas(
    nodes: Any,
    edges: Any,
    *,
    columns: Columns | Mapping[str, Any] = USUAL_COLUMNS,
    directed: bool = False,
    weights: bool = True,
    drop_unknown: bool = False,
    task: str | None = None,
) -> Graph:
    """Convert frames of nodes and edges, which are checked as tables of a folder are.

    Args:
        nodes: one row per node. Ids are in the column ``id``, or in another that a table may have them in, such as
            ``node_id`` or ``name``, or in the index if there is no such column; ``label`` and ``split`` may be
            missing; all other columns are features.
        edges: one row per edge: ``source``, ``target`` and optionally ``weight``.
        columns: names of the columns if they are others.
        directed: keep the direction of edges; otherwise every edge is added in both directions.
        weights: read the weights of edges, if there is a column for them.
        drop_unknown: leave out edges of nodes that are not in the frame of nodes.
        task: for ``regression`` the label column holds the numbers to predict, in place of classes.
    """
    columns = Columns.of(columns)
    for frame, role in ((nodes, "nodes"), (edges, "edges")):
        _check_frame(frame, role)
    nodes, notes = _with_ids(nodes, columns)
    found, _ = find_node_columns(columns, _names(nodes), str(_NODES))
    ends, _ = find_edge_columns(columns, _names(edges), str(_EDGES))
    graph = graph_of_tables(
        _in_memory(_NODES, nodes, (found.node, found.label, found.split)),
        _in_memory(_EDGES, edges, (ends.source, ends.target, ends.weight)),
        Reading(columns, directed, weights, drop_unknown, task),
    )
    return graph.with_notes(*notes)


def _names(frame: Any) -> list[str]:
    return [str(name) for name in frame.columns]


def _with_ids(nodes: Any, columns: Columns) -> tuple[Any, tuple[str, ...]]:
    """Return the frame of nodes with its index as ids if no column can hold them, and a note that says so."""
    names = _names(nodes)
    if nodes.index.name != columns.node or columns.node in names:
        found, _ = find_node_columns(columns, names, str(_NODES))
        if found.node in names:
            return nodes, ()
    note = f"ids of nodes are the index of {_NODES}, as it has no column '{columns.node}'"
    return nodes.rename_axis(columns.node).reset_index(), (note,)


def _check_frame(frame: Any, role: str) -> None:
    """Refuse what is no pandas frame."""
    if not isinstance(frame, _pandas().DataFrame):
        raise GraphError(
            f"{role} must be a pandas DataFrame, found {type(frame).__name__}; pandas.DataFrame(...) makes one of "
            "lists, dictionaries and arrays"
        )
    names = _pandas().Index(_names(frame))
    twice = names[names.duplicated()]
    if len(twice):
        raise GraphError(f"the {role} frame must have one column '{twice[0]}', found several")
    if frame.index.nlevels > 1 and role == "nodes":
        raise GraphError(
            f"the nodes frame must have ids in one column or in a plain index, found an index of "
            f"{frame.index.nlevels} levels: reset_index() makes columns of them"
        )


def _in_memory(path: Path, frame: Any, roles: Collection[str]) -> TableInMemory:
    table = _arrow(frame, path, roles)
    return TableInMemory(path, tuple(table.column_names), None, table)


def to_pandas(graph: Graph) -> Frames:
    """Return the nodes and the edges of a graph as pandas frames; `from_pandas` reads them again.

    Sparse features become sparse columns; one-hot features, which stand for none, are left out. Every edge has a row
    in its direction, with its weight and features: read a graph with one-way edges as directed.
    """
    pandas = _pandas()
    check_graph(graph)
    nodes, features = node_table(graph).to_pandas(), graph.features
    has_columns = not {"id", "label", "split"}.issuperset(nodes.columns)
    if isinstance(features, SparseRows) and graph.has_features and not has_columns:
        names = graph.feature_names or [f"f{place}" for place in range(graph.num_features)]
        wide = pandas.DataFrame.sparse.from_spmatrix(features.to_scipy(), columns=list(names))
        nodes = pandas.concat([nodes, wide], axis=1)
    return Frames(nodes, full_edge_table(graph, {}).to_pandas())


def edge_frame(graph: Graph) -> Any:
    """Return a pandas frame of the edges, source and target, by the user's ids."""
    _pandas()
    return edge_table(graph).to_pandas()


def _arrow(frame: Any, path: Path, roles: Collection[str]) -> Any:
    """Return a frame as an Arrow table, its sparse columns as dense ones and names of columns as text.

    What a sparse feature does not store is zero, also where the frame says NaN; in columns with a role, such as
    labels, it is missing.
    """
    named = frame.rename(columns=str)
    dense = {
        name: _dense(named[name], kind, name in roles)
        for name, kind in named.dtypes.items()
        if hasattr(kind, "subtype") and hasattr(named[name], "sparse")
    }
    named = named.assign(**dense) if dense else named
    for name, kind in named.dtypes.items():
        if kind == "object":
            check_cells(named[name], f"column '{name}' of {path}")
    try:
        return pa.Table.from_pandas(named, preserve_index=False)
    except pa.ArrowException as error:
        raise GraphError(f"the columns of a frame must hold one kind of value each: {error}") from error


def _dense(column: Any, kind: Any, has_role: bool) -> Any:
    """Return a sparse column as a dense one, which has the column's own fill value where nothing is stored."""
    dense = column.sparse.to_dense()
    is_absent = kind.subtype.kind == "f" and _pandas().isna(kind.fill_value)
    return dense.fillna(0.0) if is_absent and not has_role else dense


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise GraphError(
            "frames need pandas, which is not installed: pip install 'gdpnet[pandas]'"
        ) from error
    return pandas
