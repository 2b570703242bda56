"""Features in a request, as rows: by place, by column name, or as the columns of the table behind the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet.data.edge_features import MISSING
from gdpnet.data.features import Features as Stored
from gdpnet.data.features import SparseRows, to_sparse
from gdpnet.data.graph import Graph
from gdpnet.data.tables.edge_columns import OTHER
from gdpnet.errors import GDPNetError
from gdpnet.web.server.payload import Features
from gdpnet.web.server.problems import unusable

_MOST_SQUARED = float(np.finfo(np.float32).max)

_NO_FEATURES = ("id", "label", "split")
"""Columns of a node table that are no features; rows of the table may be given as they stand in it."""

Row: TypeAlias = np.ndarray | sp.csr_matrix
"""One row of features; sparse if it has few of many columns."""

_NAMED = 5
"""Missing columns that an error names."""


def node_rows(given: Sequence[Features], graph: Graph) -> Stored:
    """Return one row per new node, in the columns of the stored graph and sparse as its rows are."""
    if not graph.has_features:
        for place, one in enumerate(given):
            if len(one):
                raise unusable(
                    f"nodes.{place}.features", "it must be left out: stored nodes have no features"
                )
        return to_sparse(torch.zeros(len(given), 1))
    rows = [_row(one, graph, f"nodes.{place}.features") for place, one in enumerate(given)]
    if isinstance(graph.features, SparseRows):
        return _finite_sparse(rows, graph.num_features)
    found = np.concatenate([_dense(row) for row in rows]) if rows else np.zeros((0, graph.num_features))
    return _finite(found, "nodes")


def _dense(row: Row) -> np.ndarray:
    return np.asarray(row if isinstance(row, np.ndarray) else row.toarray(), dtype=np.float64)


def _finite_sparse(rows: Sequence[Row], width: int) -> SparseRows:
    """Return sparse rows in single precision; memory grows with the values that are given, not with the columns."""
    if not rows:
        return to_sparse(torch.zeros(0, width))
    whole = sp.csr_matrix(sp.vstack([sp.csr_matrix(row, dtype=np.float64) for row in rows]))
    with np.errstate(over="ignore"):
        values = whole.data.astype(np.float32)
    squares = sp.csr_matrix((np.square(values, dtype=np.float64), whole.indices, whole.indptr), whole.shape)
    _refuse_large(np.flatnonzero(~(np.asarray(squares.sum(axis=1)).ravel() <= _MOST_SQUARED)), "nodes")
    return to_sparse(SparseRows.from_scipy(whole))


def _row(given: Features, graph: Graph, where: str) -> Row:
    """Return the row of a node."""
    width, names = graph.num_features, graph.feature_names
    if isinstance(given, dict):
        if graph.table is not None and set(given) >= {one.name for one in graph.table.encoding.used}:
            return _encoded(given, graph, where)
        if len(given) == 1 and isinstance(next(iter(given.values())), list):
            given = next(iter(given.values()))  # type: ignore[assignment]  # one vector under the user's name
    if isinstance(given, list):
        if len(given) != width:
            raise unusable(where, f"there must be {width:,} numbers, one per column, found {len(given):,}")
        return np.asarray(given, dtype=np.float64)[None]
    if graph.table is not None:
        needed = [one.name for one in graph.table.encoding.used if one.name not in given]
        said = ", ".join(f"'{name}'" for name in needed[:_NAMED]) + (", ..." if len(needed) > _NAMED else "")
        raise unusable(where, f"it must have all columns of the stored graph's table, found no {said}")
    if names is None:
        raise unusable(where, f"columns have no names: give a list of {width:,} numbers")
    return _by_name(given, names, where, sparse=isinstance(graph.features, SparseRows))


@lru_cache(maxsize=2)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    """Return the places of columns by their names."""
    return {name: place for place, name in enumerate(names)}


def _by_name(given: Mapping[str, object], names: tuple[str, ...], where: str, *, sparse: bool) -> Row:
    """Return a row from values by column name; columns that sparse features leave out are zero."""
    places, values = _places(names), dict[int, float]()
    for name, value in given.items():
        if name not in places:
            raise unusable(where, f"there is no column '{name}'")
        if not isinstance(value, int | float):
            raise unusable(f"{where}.{name}", "it must be a number")
        values[places[name]] = value
    if not sparse and len(given) < len(names):
        missing = next(name for name in names if name not in given)
        raise unusable(where, f"all columns must be there, found no '{missing}'")
    found = np.array(list(values.values()), dtype=np.float64), np.array(list(values), dtype=np.int64)
    return sp.csr_matrix((*found, [0, len(values)]), (1, len(names)))


def _encoded(given: Mapping[str, object], graph: Graph, where: str) -> Row:
    """Return the row that the encoding of the stored graph makes of the columns of a node table."""
    assert graph.table is not None
    encoding = graph.table.encoding
    known = {*_NO_FEATURES, *(one.name for one in encoding.columns)}
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise unusable(where, f"there is no column '{unknown}'")
    for name, value in given.items():
        _check_cell(value, f"{where}.{name}")
    try:
        table = pa.table({one.name: pa.array([given[one.name]]) for one in encoding.used})
        return encoding.transform(table, "the features")
    except (GDPNetError, pa.ArrowException, ValueError, TypeError) as error:
        raise unusable(where, str(error)) from error


def _check_cell(value: object, where: str) -> None:
    """Refuse a value that no cell of a table holds."""
    if isinstance(value, list):
        raise unusable(where, "it must be one value, found a list")
    if isinstance(value, float) and abs(value) > _MOST_SQUARED:
        raise unusable(where, f"it must be at most {_MOST_SQUARED:.1g}, found {value:g}")
    if (
        isinstance(value, str)
        and not value.isprintable()
        and any("\ud800" <= one <= "\udfff" for one in value)
    ):
        raise unusable(where, "it must be text, found half of a character")


def edge_rows(given: Sequence[Features], graph: Graph) -> Float[Tensor, "edges columns"] | None:
    """Return one row per edge, in the edge columns of the stored graph; None if its edges have no features."""
    stored, names = graph.edge_features, graph.edge_feature_names
    if stored is None:
        for place, one in enumerate(given):
            if len(one):
                raise unusable(
                    f"edges.{place}.features", "it must be left out: stored edges have no features"
                )
        return None
    width, rows = stored.shape[1], np.zeros((len(given), stored.shape[1]))
    for place, one in enumerate(given):
        where = f"edges.{place}.features"
        if isinstance(one, dict):
            if names is None:
                raise unusable(where, f"columns have no names: give a list of {width:,} numbers")
            rows[place] = _dense(_by_name(_with_types(one, names, stored, where), names, where, sparse=True))
        elif len(one) != width:
            raise unusable(where, f"there must be {width:,} numbers, one per column, found {len(one):,}")
        else:
            rows[place] = one
    return _finite(rows, "edges")


def _with_types(
    given: Mapping[str, object], names: tuple[str, ...], stored: Tensor, where: str
) -> dict[str, object]:
    """Return values by edge feature, from the columns of the table that the stored edges came from.

    The features of types ``kind`` are called ``kind=pay``: they may be given as ``{"kind": "pay"}``. A number that is
    null is filled and marked as in the table. Numbers must all be there, and types that are not are none.
    """
    found: dict[str, object] = {}
    for name, value in given.items():
        own: dict[str, object]
        of_types = () if name in names else tuple(one for one in names if one.startswith(f"{name}="))
        if value is None and name in names and name + MISSING in names:
            own = {name: _filled(stored, names, name), name + MISSING: 1.0}
        elif of_types:
            own = {} if value is None else {_type_among(of_types, name, value, where): 1.0}
        else:
            own = {name: value}
        twice = next((one for one in own if one in found), None)
        if twice is not None:
            raise unusable(where, f"'{twice}' is given twice")
        found |= own
    needed = (name for name in names if "=" not in name and not name.endswith(MISSING))
    missing = next((name for name in needed if name not in found), None)
    if missing is not None:
        raise unusable(where, f"all columns of numbers must be there, found no '{missing}'")
    return found


def _type_among(features: tuple[str, ...], name: str, value: object, where: str) -> str:
    """Return the feature of a type; rare types share one if there are many."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    wanted = next((one for one in (f"{name}={text}", f"{name}={OTHER}") if one in features), None)
    if wanted is None:
        known = ", ".join(one.removeprefix(f"{name}=") for one in features[:_NAMED])
        more = ", ..." if len(features) > _NAMED else ""
        raise unusable(f"{where}.{name}", f"it must be a type of the stored edges ({known}{more})")
    return wanted


def _filled(stored: Tensor, names: tuple[str, ...], name: str) -> float:
    """Return what stands for a missing number of a column in the stored edges."""
    marked = (stored[:, names.index(name + MISSING)] > 0).nonzero()
    return float(stored[int(marked[0]), names.index(name)]) if len(marked) else 0.0


def _finite(rows: np.ndarray, what: str) -> Float[Tensor, "rows columns"]:
    """Return rows in single precision; their length must be a number, as they are divided by it."""
    with np.errstate(over="ignore"):
        found = torch.from_numpy(rows.astype(np.float32))
    _refuse_large((~found.square().sum(dim=1).isfinite()).nonzero().flatten().numpy(), what)
    return found


def _refuse_large(wrong: np.ndarray, what: str) -> None:
    """Refuse the first of some rows whose numbers are too large."""
    if len(wrong):
        rule = f"numbers must be finite, and their squares must add up to less than {_MOST_SQUARED:.1g}"
        raise unusable(f"{what}.{wrong[0]}.features", rule)
