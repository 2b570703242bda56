"""The user's columns behind a graph's features, and how they became features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from gdpnet.config import FeaturesSettings
from gdpnet.data.tables.columns import BOOLEAN, NUMERIC
from gdpnet.data.tables.encoding import DEFAULTS, Encoding, need_scaling

MARK = b"gdpnet"
"""The key of a Parquet file's metadata that says that its columns are features already, and their encoding."""

AS_GIVEN = b"features"
"""The value for features that came as an array, which no encoding has made."""


@dataclass(frozen=True)
class NodeTable:
    """Columns as they came, one row per node, and their encoding."""

    encoding: Encoding
    columns: Any = None
    """An Arrow table; None if only the features were stored."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The kinds of columns that the user gave; the others are found."""

    @classmethod
    def fit(
        cls,
        columns: Any,
        rows: Bool[np.ndarray, "nodes"],
        kinds: Mapping[str, str] | None = None,
        settings: FeaturesSettings = DEFAULTS,
    ) -> NodeTable:
        """Fit the encoding on some rows, the training nodes, or on all if there are none."""
        rows = rows if rows.any() else np.ones_like(rows)
        return cls(Encoding.fit(columns, rows, kinds, settings), columns, kinds or {})

    @classmethod
    def of_array(
        cls,
        values: Float[np.ndarray, "nodes columns"],
        names: Sequence[str] | None,
        rows: Bool[np.ndarray, "nodes"],
        settings: FeaturesSettings = DEFAULTS,
    ) -> NodeTable | None:
        """Return a table of an array's columns if some rows, the training nodes, ask for scaling; else None.

        Columns of zeros and ones stay as they are. Columns without names are called by their place.
        """
        seen = values[rows] if rows.any() else values
        binary = ((seen == 0) | (seen == 1)).all(axis=0)
        if not need_scaling([column.astype(np.float64) for column in seen.T[~binary]], settings):
            return None
        names = names or places(values.shape[1])
        kinds = {name: BOOLEAN if flag else NUMERIC for name, flag in zip(names, binary, strict=True)}
        return cls.fit(array_columns(values, names), rows, kinds, settings)

    def refit(self, rows: Bool[np.ndarray, "nodes"], settings: FeaturesSettings = DEFAULTS) -> NodeTable:
        """Fit the encoding anew, on other rows or with other settings."""
        return NodeTable.fit(self.columns, rows, self.kinds, settings)

    def take(self, nodes: Int[np.ndarray, "kept"]) -> NodeTable:
        """Return the rows of some nodes."""
        return self if self.columns is None else replace(self, columns=self.columns.take(pa.array(nodes)))


def places(width: int) -> list[str]:
    """Return the names of columns that have none."""
    return [str(place) for place in range(width)]


def array_columns(values: Float[np.ndarray, "nodes columns"], names: Sequence[str]) -> Any:
    """Return the columns of an array as an Arrow table."""
    return pa.table([pa.array(column) for column in values.T], names=list(names))
