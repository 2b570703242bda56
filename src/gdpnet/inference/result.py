"""Results returned to users: a cleaned graph, and suspected label errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from gdpnet.data.edge_weight import times_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.pyg import to_pyg
from gdpnet.inference.threshold import edge_weights


@dataclass(frozen=True)
class Denoised:
    """A cleaned graph, and the keep probability of each edge of the original."""

    graph: Graph
    """The kept edges, weighted by their keep probability times their original weight, if any."""
    keep_probability: np.ndarray
    """One value per edge of the original graph."""
    kept: np.ndarray
    """Whether each edge of the original graph is in the cleaned one."""
    threshold: float
    reason: str
    """One sentence that says why this threshold was chosen."""

    @classmethod
    def at(
        cls, graph: Graph, probability: Float[Tensor, "edges"], threshold: float, reason: str, *, chosen: bool
    ) -> Denoised:
        """Clean a graph at a threshold; if it was chosen in training and keeps every edge, all weigh one."""
        kept = probability >= threshold
        share = edge_weights(probability, threshold) if chosen else probability
        cleaned = graph.keep_edges(kept, times_weights(graph, share))
        return cls(cleaned, probability.numpy(), kept.numpy(), threshold, reason)

    def to_pyg(self) -> Any:
        """Return the cleaned graph as torch_geometric ``Data`` with ``edge_weight``."""
        return to_pyg(self.graph)


class SuspectedLabel(NamedTuple):
    """A training label that is probably wrong and was not used after the warm-up."""

    node: str
    label: str
    suggested: str
    """The class that cross-fitted models predict instead."""
