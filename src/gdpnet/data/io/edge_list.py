"""Read the edges of a graph from a table: both ends among the known nodes, and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from gdpnet._core.words import counted
from gdpnet.data.edge_weight import with_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import USUAL_COLUMNS, Columns, find_edge_columns
from gdpnet.data.io.csv_parquet import column_of, read_numbers
from gdpnet.data.io.node_ids import DROP_HINT, find_places, id_column, without_decimals
from gdpnet.data.io.table_file import TableFile
from gdpnet.data.tables.edge_columns import EdgeTable, read_edge_columns
from gdpnet.errors import GraphError

_WEIGHT_HINT = "--no-weights (in Python weights=False) leaves the weights out"


@dataclass(frozen=True)
class EdgeRows:
    """The rows of an edge table, as they were read."""

    table: Any
    ends: tuple[Any, Any]
    """The ids of sources and targets, null for none."""
    columns: Columns
    notes: tuple[str, ...]
    path: Path

    def node_ids(self) -> Any:
        """Return the distinct ids of all ends, in order."""
        ends = self.ends
        if ends[0].type != ends[1].type:
            ends = pc.cast(ends[0], pa.string()), pc.cast(ends[1], pa.string())
        both = pa.chunked_array([chunk for end in ends for chunk in end.chunks], ends[0].type)
        ids = pc.unique(both.drop_null())
        return ids.take(pc.sort_indices(ids))


@dataclass(frozen=True)
class EdgeList:
    """Edges by the numbers of their nodes, with a weight each if the table has weights."""

    ends: Int[np.ndarray, "2 edges"]
    weight: Float[np.ndarray, "edges"] | None
    weight_name: str
    """How a note calls the column of weights."""
    table: Any
    """The rows of the table that the edges come from."""
    notes: tuple[str, ...]
    features: EdgeTable
    """What the other columns say of the edges."""


def read_edge_rows(file: TableFile, columns: Columns) -> EdgeRows:
    """Read the table of edges, with the ids of both ends."""
    path = file.path
    columns, notes = find_edge_columns(columns, file.names, path.name)
    names = columns.source, columns.target
    table, more = file.read(text=names)
    (source, said), (target, also) = (
        id_column(table, name, path, role) for name, role in zip(names, ("source", "target"), strict=True)
    )
    return EdgeRows(table, (source, target), columns, (*notes, *more, *said, *also), path)


def without_node_table(rows: EdgeRows) -> EdgeRows:
    """Return the rows of a graph whose nodes are named by its edges alone, with ids like 1.0 as whole numbers."""
    names = rows.columns.source, rows.columns.target
    found = [without_decimals(end, name, rows.path) for end, name in zip(rows.ends, names, strict=True)]
    notes = tuple(note for _, said in found for note in said)
    return EdgeRows(rows.table, (found[0][0], found[1][0]), rows.columns, (*rows.notes, *notes), rows.path)


def match_edges(rows: EdgeRows, ids: Any, known_in: str, *, weights: bool, drop_unknown: bool) -> EdgeList:
    """Find the ends of all edges among the nodes; refuse or drop edges with an unknown or missing end."""
    notes, places = list(rows.notes), []
    for end, name in zip(rows.ends, (rows.columns.source, rows.columns.target), strict=True):
        place, mended = find_places(end, ids)
        places.append(place)
        if mended:
            verb = "is" if mended == 1 else "are"
            said = f"like 1.0 in column '{name}' of {rows.path.name} {verb} read as 1"
            notes.append(f"{counted(mended, 'id')} {said}")
    ends = np.stack(places)
    table, known = rows.table, np.all(ends >= 0, axis=0)
    if not known.all():
        lost = _Lost.of(rows, ends)
        if not drop_unknown:
            raise GraphError(lost.sentence(rows.path, known_in))
        notes.append(lost.note(rows.path))
        table, ends = table.filter(pa.array(known)), ends[:, known]
    weight = _read_weights(table, rows, known) if weights else None
    features = read_edge_columns(table, _taken(table, rows))
    name = f"column '{rows.columns.weight}' of {rows.path.name}"
    return EdgeList(ends, weight, name, table, (*notes, *features.notes), features)


def _taken(table: Any, rows: EdgeRows) -> list[str]:
    """Return the columns of the edge table that are not edge features."""
    columns = rows.columns
    for name in columns.dropped_edge_columns:
        column_of(table, name, rows.path)
    used = [columns.source, columns.target, columns.weight, *columns.dropped_edge_columns]
    return used if columns.edge_features else list(table.column_names)


def with_edge_weights(graph: Graph, edges: EdgeList, *, directed: bool) -> Graph:
    """Return the graph with the weights of its edges, and a note that says so; without them if all are one."""
    graph = with_weights(graph, edges.ends, edges.weight, directed=directed)
    weight, name = graph.edge_weight, edges.weight_name
    if weight is None or not weight.numel():
        return graph
    low, high = float(weight.min()), float(weight.max())
    if low == high == 1.0:
        return replace(graph, edge_weight=None).with_notes(
            f"all weights in {name} are 1, as if there were none"
        )
    if low == high:
        return graph.with_notes(
            f"all edge weights in {name} are {low:g}, and the node itself weighs 1; --no-weights leaves them out"
        )
    return graph.with_notes(
        f"edge weights, {low:g} to {high:g}, are from {name}; --no-weights leaves them out"
    )


def _read_weights(
    table: Any, rows: EdgeRows, known: Bool[np.ndarray, "rows"]
) -> Float[np.ndarray, "edges"] | None:
    """Read the column of weights, if there is one; rows of the table are those that are known."""
    name = rows.columns.weight
    if name == USUAL_COLUMNS.weight and name not in table.column_names:
        return None
    try:
        weight = read_numbers(table, name, rows.path)
    except GraphError as error:
        raise GraphError(f"{error}; {_WEIGHT_HINT}") from error
    bad = weight <= 0
    if bad.any():
        first = int(bad.argmax())
        raise GraphError(
            f"column '{name}' of {rows.path} must hold numbers above zero (leave out an edge that should not count), "
            f"found {counted(int(bad.sum()), 'other')}, such as {weight[first]:g} in row "
            f"{np.flatnonzero(known)[first] + 1}; {_WEIGHT_HINT}"
        )
    return weight


@dataclass(frozen=True)
class _Lost:
    """The edges of a table whose ends are not all known."""

    unknown: int
    """Edges with an id that no node has."""
    names: list[str]
    """Such ids, each once, that of the first row first."""
    absent: int
    """Edges without one of their ids."""
    row: int
    """The first row with such an edge, counted from 1."""

    @classmethod
    def of(cls, rows: EdgeRows, ends: Int[np.ndarray, "2 rows"]) -> _Lost:
        absent = np.stack([np.array(pc.is_null(end)) for end in rows.ends])
        unknown = (ends < 0) & ~absent
        edges, gaps, lost = (np.any(some, axis=0) for some in (unknown, absent, ends < 0))
        first = int(edges.argmax())
        sample = [
            str(end[first].as_py()) for end, some in zip(rows.ends, unknown, strict=True) if some[first]
        ]
        names = dict.fromkeys(sample)
        for end, some in zip(rows.ends, unknown, strict=True):
            names |= dict.fromkeys(str(one) for one in pc.unique(end.filter(pa.array(some))).to_pylist())
        return cls(int(edges.sum()), list(names), int(gaps.sum()), int(lost.argmax()) + 1)

    @property
    def _edges(self) -> str:
        return counted(self.unknown, "edge")

    @property
    def _gaps(self) -> str:
        return counted(self.absent, "edge without one of its ids", "edges without one of their ids")

    def sentence(self, path: Path, known_in: str) -> str:
        found = []
        if self.unknown:
            found.append(
                f"{self._edges} with {counted(len(self.names), 'unknown id')}, such as '{self.names[0]}'"
            )
        if self.absent:
            found.append(self._gaps)
        return (
            f"both ends of every edge in {path} must be nodes of {known_in}, found {' and '.join(found)} (first in "
            f"row {self.row}); {DROP_HINT}"
        )

    def note(self, path: Path) -> str:
        parts = [f"{self._edges} with {counted(len(self.names), 'unknown id')}"] if self.unknown else []
        parts += [self._gaps] if self.absent else []
        verb = "was" if self.unknown + self.absent == 1 else "were"
        return f"{' and '.join(parts)} {verb} dropped from {path.name} (--drop-unknown)"
