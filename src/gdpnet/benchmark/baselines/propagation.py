"""Propagation rules: how a node aggregates from its neighbours, one pure function per rule."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gdpnet._core.csr import sum_by_owner
from gdpnet.data.features import SparseRows
from gdpnet.data.graph import Graph
from gdpnet.representation.sparse import Matrix, times


@dataclass(frozen=True)
class Links:
    """The edges of a graph on a device: row v of ``matrix`` holds the weights of v's neighbours.

    Both directions of a link have the same index in ``link``; ``target`` is the row of each edge.
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
        """Return the same edges with other weights."""
        return replace(self, matrix=self.matrix.with_value(weight))

    def dropped(self, share: float) -> Links:
        """Return the edges with a random share of them at weight zero; both directions go together."""
        sample = torch.rand(self.link.shape, device=self.link.device)[self.link]
        return self.with_weight(self.weight * (sample >= share))

    def total(self) -> Float[Tensor, "nodes 1"]:
        """Return the sum of the weights of each node's neighbours."""
        return sum_by_owner(self.weight, self.target, self.num_nodes)[:, None]

    @classmethod
    def of(cls, graph: Graph, device: torch.device) -> Links:
        """Lay out the edges of a graph."""
        rows = SparseRows(graph.row_ptr, graph.neighbour, weights_of(graph), graph.num_nodes)
        edge, reverse = torch.arange(graph.num_edges), graph.reverse
        link = torch.where(reverse >= 0, torch.minimum(edge, reverse), edge)
        return cls(Matrix.of(rows, device), graph.target.to(device), link.to(device))


def symmetric_mean(links: Links, message: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Propagate as GCN does: D^(-1/2) (A + I) D^(-1/2) H, with D the row sums of A + I.

    Scaling rows twice costs less than `gcn_norm`, which scales every edge, when weights change each epoch.
    """
    scale = (links.total() + 1.0).rsqrt()
    scaled = message * scale
    return (times(links.matrix, scaled) + scaled) * scale


def neighbour_mean(links: Links, message: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Propagate as GraphSAGE does: the weighted mean of the neighbours; zero for a node without any."""
    return times(links.matrix, message) / links.total().clamp(min=1e-6)


def weighted_sum(links: Links, message: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
    """Propagate with the weights as they are: A H."""
    return times(links.matrix, message)


def weights_of(graph: Graph) -> Float[Tensor, "edges"]:
    """Return the edge weights of a graph: one each if it has none, and none below zero."""
    return torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.clamp(min=0.0)


def adjacency(graph: Graph, weight: np.ndarray) -> sp.csr_matrix:
    """Return the adjacency matrix of a graph, one row per target, with some weights."""
    parts = (weight, graph.neighbour.numpy(), graph.row_ptr.numpy())
    return sp.csr_matrix(parts, shape=(graph.num_nodes, graph.num_nodes))


def normalised_adjacency(graph: Graph) -> sp.csr_matrix:
    """Return D^(-1/2) (A + I) D^(-1/2), one row per target."""
    (neighbour, target), weight = gcn_norm(graph.edge_index, weights_of(graph), graph.num_nodes)
    matrix = sp.csr_matrix((weight, (target, neighbour)), shape=(graph.num_nodes, graph.num_nodes))
    matrix.sort_indices()
    return matrix
