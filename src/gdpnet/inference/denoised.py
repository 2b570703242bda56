"""The cleaned graph, and what was decided on every edge of the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from gdpnet.data.edge_weight import times_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.pandas import edge_frame
from gdpnet.data.io.pyg import to_pyg
from gdpnet.errors import GraphError
from gdpnet.inference.threshold import cleaning_sentence, edge_weights


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
    original: Graph | None = None
    """The graph before cleaning."""
    min_kept: float = 0.0
    """Share of the edges below which `summary` says that few are kept."""

    @property
    def summary(self) -> str:
        """Return one sentence that says how many edges are kept, why, and whether these are very few."""
        return cleaning_sentence(int(self.kept.sum()), self.kept.size, self.reason, self.min_kept)

    def to_pyg(self) -> Any:
        """Return the cleaned graph as torch_geometric ``Data`` with ``edge_weight``."""
        return to_pyg(self.graph)

    def to_pandas(self) -> Any:
        """Return a pandas frame of the original edges: source, target, keep_probability, kept."""
        if self.original is None:
            raise GraphError(
                "the edges before cleaning must be known, found a Denoised without its original graph"
            )
        return edge_frame(self.original).assign(keep_probability=self.keep_probability, kept=self.kept)


def clean_graph(
    graph: Graph,
    probability: Float[Tensor, "edges"],
    threshold: float,
    reason: str,
    *,
    chosen: bool,
    min_kept: float = 0.0,
) -> Denoised:
    """Return the graph with the edges whose keep probability reaches a threshold.

    If the threshold was chosen in training and keeps every edge, all weigh one.
    """
    kept = probability >= threshold
    share = edge_weights(probability, threshold) if chosen else probability
    cleaned = graph.keep_edges(kept, times_weights(graph, share))
    return Denoised(cleaned, probability.numpy(), kept.numpy(), threshold, reason, graph, min_kept)
