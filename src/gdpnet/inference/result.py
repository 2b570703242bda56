"""What cleaning a graph gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdpnet.data.graph import Graph
from gdpnet.data.io.pyg import to_pyg


@dataclass(frozen=True)
class Denoised:
    """A cleaned graph, and how surely each edge of the original is kept."""

    graph: Graph
    """The kept edges, weighted by their keep probability, times the weight they had if they had one."""
    keep_probability: np.ndarray
    """One number for each edge of the original graph."""
    kept: np.ndarray
    """Whether each edge of the original graph is in the cleaned one."""
    threshold: float
    reason: str
    """Why this threshold."""

    def to_pyg(self) -> Any:
        """Return the cleaned graph as torch_geometric ``Data`` with ``edge_weight``."""
        return to_pyg(self.graph)
