"""Turn the columns of an edge table into edge features: numbers as they are, types one-hot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from gdpnet._core.words import counted
from gdpnet.data.edge_features import MISSING
from gdpnet.data.tables.columns import CATEGORY, LEFT_OUT, Column, expand_vectors, find_kind, read_as

MOST_TYPES = 50
"""A type that is not among this many most frequent ones of its column shares a feature with others like it."""

OTHER = "other"
"""What the feature is called that these share."""

WRITTEN = ("spurious", "keep_probability", "genuine_probability", "kept")
"""Columns that gdpnet writes beside edges: known noise, and its own decisions."""

_TYPE = re.compile(r"(^|[_ .-])(type|kind|relation|rel|predicate|category)$", re.IGNORECASE)
"""Names of columns whose whole numbers are types."""

_FEW = 20
_EDGES_PER_TYPE = 20


class EdgeTable(NamedTuple):
    """The edge features of a table: one row per edge of the table."""

    values: Float[np.ndarray, "edges features"]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def read_edge_columns(table: Any, used: Iterable[str] = ()) -> EdgeTable:
    """Read the features of an edge table from all columns but those that are ``used`` otherwise.

    A missing number is the median of its column, and marked by a further feature.
    """
    columns, notes, blocks, names = [], [], [], []
    taken = set(used)
    others = [name for name in table.column_names if _is_own(name) and name not in taken]
    for name, values in _columns_of(table.select(others)):
        column = _kind_of(name, values)
        if column.kind == LEFT_OUT:
            notes.append(f"edge column {name} is left out: {column.remark}")
            continue
        if column.remark:
            notes.append(f"edge column {name}: {column.remark}")
        block, found = _types(column) if column.kind == CATEGORY else _numbers(column)
        blocks.append(block)
        names += found
        columns.append(f"{name} ({counted(len(found), 'type')})" if column.kind == CATEGORY else name)
    if not blocks:
        return EdgeTable(np.zeros((table.num_rows, 0), dtype=np.float32), (), tuple(notes))
    shown = ", ".join(columns) if len(columns) <= 5 else f"{columns[0]} to {columns[-1]} ({len(columns):,})"
    return EdgeTable(np.hstack(blocks), tuple(names), (f"edge features: {shown}", *notes))


def _is_own(name: str) -> bool:
    # pandas writes its row index as a column without a name, or as __index_level_0__
    return name != "" and not name.startswith("__index_level_")


def _columns_of(table: Any) -> list[tuple[str, Any]]:
    if not table.column_names:
        return []
    table = expand_vectors(table)
    return list(zip(table.column_names, table.columns, strict=True))


def _kind_of(name: str, values: Any) -> Column:
    """Return a column with its kind; texts are types if few of them are distinct, and left out otherwise."""
    if name in WRITTEN:
        return Column(name, LEFT_OUT, None, "gdpnet wrote it")
    column = find_kind(name, values, constant=True)
    text = column.kind == CATEGORY or (column.kind == LEFT_OUT and _is_text(values.type))
    named = bool(_TYPE.search(name)) and (text or pa.types.is_integer(values.type))
    if not (text or named):
        return column
    column = Column(name, CATEGORY, read_as(CATEGORY, values))
    distinct = pc.count_distinct(column.values).as_py()
    if distinct == 0:
        return Column(name, LEFT_OUT, None, "no value")
    if not named and distinct > max(_FEW, len(values) // _EDGES_PER_TYPE):
        return Column(name, LEFT_OUT, None, f"{distinct:,} distinct texts are too many for types")
    return column


def _is_text(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _types(column: Column) -> tuple[Float[np.ndarray, "edges types"], list[str]]:
    """Return a feature per type, the most frequent first, and one for all others if there are many."""
    counts = pc.value_counts(column.values.drop_null()).to_pylist()
    ranked = [one["values"] for one in sorted(counts, key=lambda one: (-one["counts"], one["values"]))]
    place = np.array(pc.fill_null(pc.index_in(column.values, value_set=pa.array(ranked)), -1))
    width = min(len(ranked), MOST_TYPES + 1)
    block = np.zeros((place.size, width), dtype=np.float32)
    row = np.flatnonzero(place >= 0)
    block[row, np.minimum(place[row], width - 1)] = 1.0
    many = len(ranked) > MOST_TYPES
    words = [*ranked[:MOST_TYPES], OTHER] if many else ranked
    return block, [f"{column.name}={word}" for word in words]


def _numbers(column: Column) -> tuple[Float[np.ndarray, "edges features"], list[str]]:
    """Return the numbers, and which are missing if some are."""
    number = column.values.to_numpy(zero_copy_only=False).astype(np.float64)
    missing = np.isnan(number)
    if not missing.any():
        return number.astype(np.float32)[:, None], [column.name]
    filled = np.where(missing, np.median(number[~missing]), number)
    return np.stack([filled, missing], axis=1).astype(np.float32), [column.name, column.name + MISSING]
