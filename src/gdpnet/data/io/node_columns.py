"""Choose the columns of a node table that become features, and encode them."""

from __future__ import annotations

import fnmatch
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gdpnet._core.json_file import parse_json
from gdpnet._core.words import counted
from gdpnet.data.features import ONE_HOT_NOTE
from gdpnet.data.graph import Graph
from gdpnet.data.io.column_names import Columns
from gdpnet.data.io.csv_parquet import column_of
from gdpnet.data.tables.columns import CATEGORY, LEFT_OUT, NUMERIC, TEXT, UNUSABLE, is_number, read_as
from gdpnet.data.tables.encoding import Encoding
from gdpnet.data.tables.node_table import AS_GIVEN, MARK, NodeTable
from gdpnet.data.validation import SPLITS, UNKNOWN
from gdpnet.errors import GraphError, nearest

_MOST_NOTES = 5
"""Columns that have a note each."""


def choose_columns(nodes: Any, columns: Columns, path: Path) -> Any:
    """Return the columns of a node table that may become features; None if there are none."""
    # pandas writes its row index as a column without a name, or as __index_level_0__
    others = (columns.node, columns.label, columns.split, "")
    every = (name for name in nodes.column_names if not name.startswith("__index_level_"))
    names = [name for name in every if name not in set(others)]
    chosen = names if columns.features is None else _matching(columns.features, names, path)
    dropped = set(_matching(columns.drop, names, path))
    for name in (*columns.text, *columns.category):
        column_of(nodes, name, path)
    chosen = list(dict.fromkeys([*chosen, *columns.text, *columns.category]))
    chosen = [name for name in chosen if name not in dropped]
    counts = Counter(nodes.column_names)
    for name in chosen:
        if counts[name] > 1:
            column_of(nodes, name, path)  # refuses a name that two columns have
    return nodes.select(chosen) if chosen else None


def _matching(patterns: tuple[str, ...], names: list[str], path: Path) -> list[str]:
    """Return the names that some names and patterns stand for, each once."""
    found: list[str] = []
    known = set(names)
    for pattern in patterns:
        some = [pattern] if pattern in known else fnmatch.filter(names, pattern)
        if not some:
            hint = nearest(pattern, names) if names else ", found no feature column"
            raise GraphError(f"{path} must have a column '{pattern}'{hint}")
        found += some
    return list(dict.fromkeys(found))


def encode_columns(graph: Graph, table: Any, columns: Columns) -> Graph:
    """Return a graph with features made of a table, fitted on its training nodes, else on labelled ones."""
    if (how := (table.schema.metadata or {}).get(MARK)) is not None:
        _check_made(table)
        done = graph.with_table(NodeTable(Encoding.unchanged(table.column_names), table))
        if how == AS_GIVEN:
            return replace(done, table=None)
        encoding = Encoding.from_dict(parse_json(how, "the encoding in the table of nodes", dict, GraphError))
        if encoding.feature_names != done.feature_names:
            raise GraphError("the encoding in the table of nodes must name its columns, found others")
        return replace(done, table=NodeTable(encoding))
    kinds = dict.fromkeys(columns.text, TEXT) | dict.fromkeys(columns.category, CATEGORY)
    train = graph.split == SPLITS.index("train")
    rows: np.ndarray = (train if bool(train.any()) else graph.labels != UNKNOWN).numpy()
    fitted = NodeTable.fit(table, rows, kinds)
    notes = _notes_on(fitted.encoding)
    if fitted.encoding.used:
        return graph.with_table(fitted).with_notes(*notes)
    return replace(graph, table=fitted).with_notes(ONE_HOT_NOTE, *notes)


def _check_made(table: Any) -> None:
    """Refuse columns that are called features already and hold what no feature is: they would be read as zero."""
    for name, values in zip(table.column_names, table.columns, strict=True):
        rule = (
            f"column '{name}' of the nodes must hold finite numbers, as the file says that they are features"
        )
        if not is_number(values.type):
            raise GraphError(f"{rule}, found {values.type}")
        lost = pc.is_null(read_as(NUMERIC, values))
        if pc.any(lost).as_py():
            row = pc.index(lost, True).as_py()
            found = values[row].as_py()
            raise GraphError(f"{rule}, found {'nothing' if found is None else found} in row {row + 1}")


def _notes_on(encoding: Encoding) -> list[str]:
    """Return notes on columns that lost values, or are not used although a reader would expect that they are."""
    notes = []
    for column in encoding.columns:
        out = column.kind == LEFT_OUT
        if out and (column.remark.startswith(UNUSABLE) or not encoding.used):
            notes.append(f"column {column.name} is left out: {column.remark}")
        elif not out and column.kind != CATEGORY and column.remark:
            notes.append(f"column {column.name}: {column.remark}")
    more = len(notes) - _MOST_NOTES
    return notes if more <= 0 else [*notes[:_MOST_NOTES], f"{counted(more, 'more column')} like these"]
