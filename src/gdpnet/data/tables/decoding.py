"""Turn features back into the columns that they were made from, to encode them as another model does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from jaxtyping import Float

from gdpnet.data.tables.columns import BOOLEAN, CATEGORY, DATE, TEXT
from gdpnet.data.tables.encoding import ColumnEncoding, Encoding
from gdpnet.errors import GraphError

_OTHER = "another category"
_NEARLY = 1.0 - 1e-7


def decoded(encoding: Encoding, features: Float[np.ndarray, "nodes width"] | sp.csr_matrix) -> Any:
    """Return an Arrow table of the columns that an encoding made features of, up to rounding.

    Dates are days since 1970. The words of a text column are lost, so such an encoding is refused.
    """
    columns, first = {}, 0
    for column in encoding.used:
        if column.kind == TEXT:
            raise GraphError(
                f"the words of column '{column.name}' were weighted by the texts of this graph, not of training: use "
                "the table that the features were made from"
            )
        last = first + len(column.feature_names())
        some: Any = features[:, first:last]
        block = np.asarray(some.toarray() if sp.issparse(some) else some, dtype=np.float64)
        columns[column.name] = (
            _categories(column, block) if column.kind == CATEGORY else _numbers(column, block, encoding)
        )
        first = last
    return pa.table(columns)


def _categories(column: ColumnEncoding, block: Float[np.ndarray, "nodes width"]) -> Any:
    """Return the category of each node; null if it is missing or no category of the encoding."""
    words = pa.array([*column.words, *([_OTHER] if column.other else [])], pa.string())
    known = block[:, : len(words)]
    place = pa.array(known.argmax(axis=1) if len(words) else np.zeros(len(block), dtype=int))
    none = ~(known > 0).any(axis=1)
    return words.take(pa.array(place.to_numpy(), mask=none))


def _numbers(column: ColumnEncoding, block: Float[np.ndarray, "nodes width"], whole: Encoding) -> Any:
    """Return the numbers of a column; null where they are marked as missing."""
    value = block[:, 0]
    if column.kind != BOOLEAN and (whole.scaled or column.kind == DATE):
        share = np.clip(value / whole.bound, -_NEARLY, _NEARLY)  # nought without a bound
        number = np.clip(value, -_NEARLY * whole.bound, _NEARLY * whole.bound)
        value = number / np.sqrt(1.0 - np.square(share)) * column.scale + column.centre
    return pa.array(value, mask=block[:, 1] > 0 if column.has_missing else None)
