"""Read sparse features from a table in long form: one value of one feature of one node per row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from gdpnet._core.limits import MOST_FEATURES
from gdpnet._core.words import counted
from gdpnet.data.io.column_names import find_column
from gdpnet.data.io.csv_parquet import column_of, read_numbers
from gdpnet.data.io.node_ids import DROP_HINT, find_places, id_column
from gdpnet.data.io.table_file import open_table
from gdpnet.errors import GraphError


def read_long_features(
    path: Path, ids: Any, node_path: Path, drop_unknown: bool
) -> tuple[sp.csr_matrix, tuple[str, ...] | None, tuple[str, ...]]:
    """Read a table of one value per row; features are numbers of up to nine digits, or names, which are sorted."""
    file = open_table(path)
    node = find_column("node", file.names, ("id", "node_id", "nodeid"))
    feature, value = (find_column(name, file.names) for name in ("feature", "value"))
    table, said = file.read(text=(node, feature))
    named, more = id_column(table, node, path)
    row, _ = find_places(named, ids)
    if unknown := int((row < 0).sum()):
        if not drop_unknown:
            first, lost = int((row < 0).argmax()), counted(unknown, "row that does not", "rows that do not")
            raise GraphError(
                f"column '{node}' of {path} must name nodes of {node_path.name}, found {lost}, "
                f"such as {_shown(named[first].as_py())} in row {first + 1}; {DROP_HINT}"
            )
        verb = "was" if unknown == 1 else "were"
        lines = f"{counted(unknown, 'row')} of {path.name} with an unknown node {verb} dropped"
        more = (*more, f"{lines} (--drop-unknown)")
        table, row = table.filter(pa.array(row >= 0)), row[row >= 0]
    number = read_numbers(table, value, path)
    column, width, names = _feature_numbers(column_of(table, feature, path), path)
    matrix = sp.csr_matrix((number, (row, column)), shape=(len(ids), width))
    repeated = number.size - matrix.nnz
    matrix.eliminate_zeros()
    added = (f"{repeated:,} repeated feature values were added up",) if repeated else ()
    return matrix, names, (*said, *more, *added)


def _shown(name: object) -> str:
    return "nothing" if name is None else f"'{name}'"


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
    if number.max(initial=-1) >= MOST_FEATURES:
        row = int(number.argmax())
        raise GraphError(
            f"column 'feature' of {path} must hold names, or numbers below {MOST_FEATURES:,}, found {number[row]} in "
            f"row {row + 1}"
        )
    return number, int(number.max(initial=-1)) + 1, None
