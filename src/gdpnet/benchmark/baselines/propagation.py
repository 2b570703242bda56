"""How a node hears its neighbours: one pure function a rule, over links laid out on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import sum_by_owner
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.representation.sparse import Matrix, times


@dataclass(frozen=True)
class Links:
    """The edges of a graph on a device: row v of ``matrix`` holds the weights of v's neighbours.

    Both ways of a link have the same number in ``link``; ``target`` is the row of each edge.
    """

    matrix: Matrix
    target: Int[Tensor, "edges"]
    link: Int[Tensor, "edges"]

    @property
    def weight(self) -> Float[Tensor, "edges"]:
        """Return the weight of each edge."""
        return self.matrix.value

    @property
    def neighbour(self) -> Int[Tensor, "edges"]:
        """Return the neighbour of each edge."""
        return self.matrix.rows.column

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.matrix.shape[0]

    def with_weight(self, weight: Float[Tensor, "edges"]) -> Links:
        """Return the same links with other weights."""
        return replace(self, matrix=self.matrix.with_value(weight))

    def dropped(self, share: float) -> Links:
        """Return the links without a random share of them (their weight is zero); both ways go together."""
        draw = torch.rand(self.link.shape, device=self.link.device)[self.link]
        return self.with_weight(self.weight * (draw >= share))

    def total(self) -> Float[Tensor, "nodes 1"]:
        """Return the sum of the weights of each node's neighbours."""
        return sum_by_owner(self.weight, self.target, self.num_nodes)[:, None]

    @classmethod
    def of(cls, graph: Graph, device: torch.device) -> Links:
        """Lay out the links of a graph."""
        weight = weights_of(graph)
        rows = SparseRows(graph.row_ptr, graph.neighbour, weight, graph.num_nodes)
        edge, back = torch.arange(graph.num_edges), graph.reverse
        link = torch.where(back >= 0, torch.minimum(edge, back), edge)
        return cls(Matrix.of(rows, device), graph.target.to(device), link.to(device))


def symmetric_mean(links: Links, given: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Mix as GCN does: D^(-1/2) (A + I) D^(-1/2) H, with D the row sums of A + I."""
    scale = (links.total() + 1.0).rsqrt()
    scaled = given * scale
    return (times(links.matrix, scaled) + scaled) * scale


def neighbour_mean(links: Links, given: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Mix as GraphSAGE does: the weighted mean of the neighbours without the node; zero if it has none."""
    return times(links.matrix, given) / links.total().clamp(min=1e-6)


def weighted_sum(links: Links, given: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Mix by the weights as they are: A H."""
    return times(links.matrix, given)


def weights_of(graph: Graph) -> Float[Tensor, "edges"]:
    """Return the weights of a graph's edges: one each if it has none, and none below zero."""
    return torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.clamp(min=0.0)


def normalised_adjacency(graph: Graph) -> sp.csr_matrix:
    """Return D^(-1/2) (A + I) D^(-1/2), row by target, as a matrix on the host."""
    shape = (graph.num_nodes, graph.num_nodes)
    parts = (weights_of(graph).numpy(), graph.neighbour.numpy(), graph.row_ptr.numpy())
    looped = sp.csr_matrix(parts, shape=shape) + sp.identity(graph.num_nodes, dtype=np.float32, format="csr")
    scale = sp.diags(1.0 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel()))
    return (scale @ looped @ scale).tocsr().astype(np.float32)
