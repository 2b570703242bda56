"""The cleaned graph, and what was decided on every edge of the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import symmetrise
from gdpnet.data.edge_weight import times_weights
from gdpnet.data.graph import Graph
from gdpnet.data.io.networkx import to_networkx
from gdpnet.data.io.pandas import edge_frame
from gdpnet.data.io.pyg import to_pyg
from gdpnet.errors import GraphError
from gdpnet.inference.notebook import denoised_html
from gdpnet.inference.threshold import cleaning_sentence, edge_weights


@dataclass(frozen=True)
class Denoised:
    """A cleaned graph, and the probabilities of each edge of the original."""

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
    genuine_probability: np.ndarray | None = None
    """The probability that each edge of the original graph is genuine; None if the model has no evidence of it."""
    min_kept: float = 0.0
    """Share of the edges below which `summary` says that few are kept."""

    @property
    def summary(self) -> str:
        """Return one sentence that says how many edges are kept, why, and whether these are very few."""
        return cleaning_sentence(int(self.kept.sum()), self.kept.size, self.reason, self.min_kept)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return denoised_html(self)

    def to_pyg(self) -> Any:
        """Return the cleaned graph as torch_geometric ``Data`` with ``edge_weight`` and both probabilities per edge.

        These are ``keep_probability`` and, if the model knows it, ``genuine_probability``.
        """
        data, kept = to_pyg(self.graph), torch.from_numpy(self.kept)
        for name, values in self._probabilities().items():
            data[name] = torch.from_numpy(values)[kept]
        return data

    def to_networkx(self) -> Any:
        """Return the cleaned graph as a NetworkX graph; both probabilities are edge attributes.

        An undirected link has the mean of the keep probabilities of its two directions.
        """
        network, ends = to_networkx(self.graph), self.graph.edge_index
        ids, kept = self.graph.node_ids.tolist(), torch.from_numpy(self.kept)
        for name, values in self._probabilities().items():
            value = torch.from_numpy(values)[kept]
            value = value if network.is_directed() else symmetrise(value, self.graph.reverse)
            for source, target, one in zip(*ends.tolist(), value.tolist(), strict=True):
                network.edges[ids[source], ids[target]][name] = one
        return network

    def to_pandas(self) -> Any:
        """Return a pandas frame of the original edges: source, target, both probabilities, kept."""
        if self.original is None:
            raise GraphError(
                "the edges before cleaning must be known, found a Denoised without its original graph"
            )
        return edge_frame(self.original).assign(**self._probabilities(), kept=self.kept)

    def _probabilities(self) -> dict[str, np.ndarray]:
        """Return what is known of each edge of the original graph, by name."""
        genuine = (
            {} if self.genuine_probability is None else {"genuine_probability": self.genuine_probability}
        )
        return {"keep_probability": self.keep_probability} | genuine


def clean_graph(
    graph: Graph,
    probability: Float[Tensor, "edges"],
    threshold: float,
    reason: str,
    *,
    chosen: bool,
    genuine: Float[Tensor, "edges"] | None = None,
    min_kept: float = 0.0,
) -> Denoised:
    """Return the graph with the edges whose keep probability reaches a threshold.

    If the threshold was chosen in training and keeps every edge, all weigh one.
    """
    kept = probability >= threshold
    share = edge_weights(probability, threshold) if chosen else probability
    cleaned = graph.keep_edges(kept, times_weights(graph, share))
    known = None if genuine is None else genuine.numpy()
    return Denoised(cleaned, probability.numpy(), kept.numpy(), threshold, reason, graph, known, min_kept)
