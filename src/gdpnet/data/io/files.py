"""Read a graph from files of any kind, and write it as tables: edges, nodes and, if they are sparse, features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from torch import Tensor

from gdpnet.data.edge_weight import with_weights
from gdpnet.data.features import ONE_HOT_NOTE, SparseRows
from gdpnet.data.graph import Graph
from gdpnet.data.io.csv_parquet import (
    SUFFIXES,
    code_labels,
    code_split,
    column_of,
    find_ids,
    read_ids,
    read_numbers,
    read_table,
    write_table,
)
from gdpnet.data.io.npz import read_npz
from gdpnet.data.io.store import is_store, open_store
from gdpnet.data.validation import SPLITS, whole_or_text_ids
from gdpnet.errors import GraphError


@dataclass(frozen=True)
class Columns:
    """Names of the table columns; ``label``, ``split`` and ``weight`` may be absent if they have their default names.

    ``features`` names the feature columns in order; by default they are all remaining columns.
    """

    source: str = "source"
    target: str = "target"
    weight: str = "weight"
    node: str = "id"
    label: str = "label"
    split: str = "split"
    features: tuple[str, ...] | None = None


USUAL_COLUMNS = Columns()
"""The default names."""


def read_graph(path: str | Path, *, columns: Columns = USUAL_COLUMNS, directed: bool = False) -> Graph:
    """Read a graph from a folder of tables, a store or an npz file.

    The folder holds the tables ``edges`` and ``nodes``, and ``features`` in long form (node, feature, value) if they
    are sparse; each as ``.csv`` or ``.parquet``. In CSV, node ids are text.
    """
    path = Path(path)
    if not path.exists():
        raise GraphError(f"there is no file or folder {path}")
    if is_store(path):
        return open_store(path)
    if path.is_dir():
        return _read_folder(path, columns, directed)
    if path.suffix == ".npz":
        return read_npz(path, directed=directed)
    raise GraphError(
        f"a graph must be a folder with an edge table and a node table, or a .npz file, found {path}"
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


def _read_folder(folder: Path, columns: Columns, directed: bool) -> Graph:
    """Read the tables of a folder as a graph."""
    node_path, edge_path = _required(folder, "nodes", "a node"), _required(folder, "edges", "an edge")
    nodes = read_table(node_path, text=(columns.node, columns.label, columns.split))
    edges = read_table(edge_path, text=(columns.source, columns.target))
    long_path = _table_path(folder, "features")
    return graph_of_tables(nodes, edges, columns, directed, node_path, edge_path, long_path)


def graph_of_tables(
    nodes: Any,
    edges: Any,
    columns: Columns,
    directed: bool,
    node_path: Path,
    edge_path: Path,
    long_path: Path | None = None,
) -> Graph:
    """Check Arrow tables of nodes and edges and build their graph; errors call the tables by their paths."""
    ids = read_ids(nodes, columns.node, node_path)
    label, split = (_optional(nodes, columns, role, node_path) for role in ("label", "split"))
    labels, names = (None, None) if label is None else code_labels(*label)
    codes = None if split is None else code_split(*split)
    features, feature_names, notes = _read_features(long_path, nodes, ids, columns, node_path)
    edge_index, weight = _read_edges(edges, edge_path, columns, ids, node_path)
    try:
        graph = Graph.build(
            edge_index,
            features,
            labels,
            split=codes,
            node_ids=whole_or_text_ids(np.array(ids)),
            class_names=names,
            directed=directed,
        ).with_notes(*notes)
    except GraphError as error:
        raise GraphError(f"{node_path} does not hold usable nodes: {error}") from error
    graph = replace(graph, feature_names=feature_names)
    return with_weights(graph, edge_index, weight, directed=directed)


def _read_edges(
    edges: Any, path: Path, columns: Columns, ids: Any, node_path: Path
) -> tuple[np.ndarray, np.ndarray | None]:
    ends = (columns.source, columns.target)
    place = [find_ids(read_ids(edges, end, path), ids, end, path, node_path) for end in ends]
    weighted = _optional(edges, columns, "weight", path) is not None
    return np.stack(place), read_numbers(edges, columns.weight, path) if weighted else None


def _read_features(
    long_path: Path | None, nodes: Any, ids: Any, columns: Columns, node_path: Path
) -> tuple[Any, tuple[str, ...] | None, tuple[str, ...]]:
    """Read dense features from the node table or sparse ones from the long table, or make one-hot ones.

    Returns the features, their names if they have any, and notes.
    """
    names = _feature_columns(nodes, columns)
    if long_path is not None:
        if names:
            raise GraphError(
                f"features must be in one place, found {long_path} and column '{names[0]}' of {node_path}"
            )
        return _read_long(long_path, ids, node_path)
    if not names:
        return SparseRows.identity(len(ids)), None, (ONE_HOT_NOTE,)
    dense = np.empty((len(ids), len(names)), dtype=np.float32)
    try:
        for place, name in enumerate(names):
            dense[:, place] = read_numbers(nodes, name, node_path, ids)
    except GraphError as error:
        hint = "; name the feature columns to leave it out" if columns.features is None else ""
        raise GraphError(f"{error}{hint}") from error
    some = ", ".join(names) if len(names) <= 5 else f"{names[0]} to {names[-1]} ({len(names):,})"
    return dense, names, (f"feature columns: {some}",) if columns.features is None else ()


def _feature_columns(nodes: Any, columns: Columns) -> tuple[str, ...]:
    if columns.features is not None:
        return columns.features
    # pandas writes its row index as a column without a name, or as __index_level_0__
    others = (columns.node, columns.label, columns.split, "")
    names = (name for name in nodes.column_names if not name.startswith("__index_level_"))
    return tuple(name for name in names if name not in others)


def _read_long(
    path: Path, ids: Any, node_path: Path
) -> tuple[sp.csr_matrix, tuple[str, ...] | None, tuple[str, ...]]:
    """Read a table of one value per row; features are numbers of up to nine digits, or names, which are sorted."""
    table = read_table(path, text=("node", "feature"))
    row = find_ids(read_ids(table, "node", path), ids, "node", path, node_path)
    value = read_numbers(table, "value", path)
    column, width, names = _feature_numbers(column_of(table, "feature", path), path)
    matrix = sp.csr_matrix((value, (row, column)), shape=(len(ids), width))
    repeated = value.size - matrix.nnz
    matrix.eliminate_zeros()
    return matrix, names, (f"{repeated:,} repeated feature values were added up",) if repeated else ()


def _feature_numbers(column: Any, path: Path) -> tuple[np.ndarray, int, tuple[str, ...] | None]:
    text = pc.cast(column, pa.string())
    if text.null_count or pc.any(pc.equal(text, "")).as_py():
        raise GraphError(
            f"column 'feature' of {path} must name a feature in every row, found a row with none"
        )
    if not pc.all(pc.match_substring_regex(text, r"^\d{1,9}$")).as_py():
        names = pa.array(sorted(pc.unique(text).to_pylist()), pa.string())
        place = np.array(pc.index_in(text, value_set=names), dtype=np.int64)
        return place, len(names), tuple(names.to_pylist())
    number = np.array(pc.cast(text, pa.int64()))
    return number, int(number.max(initial=-1)) + 1, None


def _table_path(folder: Path, stem: str) -> Path | None:
    found = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(found) > 1:
        raise GraphError(f"{folder} must hold one table '{stem}', found {found[0].name} and {found[1].name}")
    return found[0] if found else None


def _required(folder: Path, stem: str, what: str) -> Path:
    path = _table_path(folder, stem)
    if path is None:
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:5]) or "nothing"
        raise GraphError(f"{folder} must hold {what} table, {stem}.csv or {stem}.parquet, found {found}")
    return path


def _optional(table: Any, columns: Columns, role: str, path: Path) -> tuple[Any, str] | None:
    """Return a column and how errors call it, or None if it is absent and the user did not name it."""
    name, usual = getattr(columns, role), getattr(USUAL_COLUMNS, role)
    if name == usual and name not in table.column_names:
        return None
    return column_of(table, name, path), f"column '{name}' of {path}"
