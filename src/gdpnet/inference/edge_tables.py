"""The table of decided edges, as files of it are written."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


class Decided(NamedTuple):
    """What was decided on some edges."""

    probability: np.ndarray
    kept: np.ndarray
    weight: np.ndarray | None
    """The weight of kept edges in the cleaned graph, if the original graph is weighted."""
    genuine: np.ndarray | None
    """The probability that the edges are genuine, if the model has evidence of it."""


def decided_edges(table: Any, decided: Decided, *, all_edges: bool) -> Any:
    """Add the probabilities to a table of edges, and leave out or mark the edges that are removed."""
    if decided.weight is not None:
        table = table.append_column("weight", pa.array(decided.weight, mask=~decided.kept))
    table = table.append_column("keep_probability", pa.array(decided.probability))
    if decided.genuine is not None:
        table = table.append_column("genuine_probability", pa.array(decided.genuine))
    kept = pa.array(decided.kept)
    return table.append_column("kept", kept) if all_edges else table.filter(kept)
