"""The user's columns behind a graph's features, and how they became features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from gdpnet.data.tables.encoding import Encoding

MARK = b"gdpnet"
"""The key of a Parquet file's metadata that says that its columns are features already."""


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
        cls, columns: Any, rows: Bool[np.ndarray, "nodes"], kinds: Mapping[str, str] | None = None
    ) -> NodeTable:
        """Fit the encoding on some rows, the training nodes, or on all if there are none."""
        rows = rows if rows.any() else np.ones_like(rows)
        return cls(Encoding.fit(columns, rows, kinds), columns, kinds or {})

    def refit(self, rows: Bool[np.ndarray, "nodes"]) -> NodeTable:
        """Fit the encoding anew, on other rows."""
        return NodeTable.fit(self.columns, rows, self.kinds)

    def take(self, nodes: Int[np.ndarray, "kept"]) -> NodeTable:
        """Return the rows of some nodes."""
        return self if self.columns is None else replace(self, columns=self.columns.take(pa.array(nodes)))
