"""Structural features, for graphs without features: statistics of the edges around each node.

They mean the same on every graph, so a model can read unseen nodes and other graphs. Each statistic is linearly
interpolated between two bins of a fixed grid: nothing is fitted, and the mean of several rows is like a histogram.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gdpnet._core.csr import cut_rows, find_in_rows, offsets_of, owners_of, sum_by_owner
from gdpnet.data.graph import Graph
from gdpnet.data.row_products import Edges, Rows, matches

STRUCTURAL = (
    ("degree", 12, 1.0),
    ("out-degree", 12, 1.0),
    ("mean degree of neighbours", 6, 2.0),
    ("largest degree of a neighbour", 6, 2.0),
    ("closed triangles", 5, 0.25),
    ("return in two steps", 5, 0.25),
    ("return in three steps", 5, 0.25),
)
"""The statistics of a node: name, number of bins, and distance between bins; degrees enter as log2(1 + d)."""

WIDTH = sum(bins for _, bins, _ in STRUCTURAL)
"""Number of structural features."""

_EDGES = 1 << 20
"""Edges that are processed at a time, which bounds the memory."""


class StructuralRows:
    """The structural features of a graph, whose rows are made when they are asked for.

    What is held are seven numbers per node, an eighth of the rows.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of nodes and of features."""
        return self.graph.num_nodes, WIDTH

    @cached_property
    def statistics(self) -> list[Float[Tensor, "nodes"]]:
        """Return the statistics that `STRUCTURAL` names."""
        return _statistics(self.graph)

    def __getitem__(self, nodes: slice) -> Float[np.ndarray, "nodes columns"]:
        """Return the rows of some nodes, the bins of all statistics side by side."""
        grids = zip(self.statistics, STRUCTURAL, strict=True)
        rows = [_in_bins(value[nodes], bins, step) for value, (_, bins, step) in grids]
        return torch.cat(rows, dim=1).numpy()


def structural_rows(graph: Graph) -> Float[Tensor, "nodes columns"]:
    """Return the structural features of all nodes."""
    return torch.from_numpy(StructuralRows(graph)[:])


def _in_bins(value: Float[Tensor, "nodes"], bins: int, step: float) -> Float[Tensor, "nodes bins"]:
    """Interpolate each value between the two nearest bins."""
    place = (value / step).clamp(0.0, bins - 1.0)
    low = place.floor().long().clamp(max=bins - 2)
    part = (place - low)[:, None]
    rows = value.new_zeros(value.numel(), bins)
    return rows.scatter_(1, low[:, None], 1.0 - part).scatter_(1, low[:, None] + 1, part)


def _statistics(graph: Graph) -> list[Float[Tensor, "nodes"]]:
    """Return the statistics that `STRUCTURAL` names."""
    nodes, row_ptr, neighbour = graph.num_nodes, graph.row_ptr, graph.neighbour
    degree = row_ptr.diff().float()
    size = (1.0 + degree).log2()
    out_degree, mean, largest, closed, twice, thrice = (torch.zeros(nodes) for _ in range(6))
    rows, transposed = Rows(row_ptr, neighbour), _transposed(graph)
    for first, last in cut_rows(row_ptr, _EDGES):
        bounds, count = row_ptr[first : last + 1], last - first
        here = owners_of(bounds.diff())
        target, other = here + first, neighbour[int(bounds[0]) : int(bounds[-1])].long()
        part = slice(first, last)
        out_degree.index_add_(0, other, torch.ones_like(size[other]))
        mean[part] = sum_by_owner(size[other], here, count) / degree[part].clamp(min=1.0)
        largest[part] = largest[part].scatter_reduce(0, here, size[other], "amax")
        share = 1.0 / (degree[target] * degree[other]).clamp(min=1.0)
        reverse_edge = find_in_rows(row_ptr, neighbour, other, target) >= 0
        twice[part] = sum_by_owner(share * reverse_edge, here, count)
        triangles, weighed = _triangles(rows, transposed or rows, target, other, degree)
        closed[part] = sum_by_owner(triangles, here, count)
        thrice[part] = sum_by_owner(share * weighed, here, count)
    closed /= (degree * (degree - 1.0)).clamp(min=1.0)
    return [size, (1.0 + out_degree).log2(), mean, largest, closed, twice, thrice]


def _triangles(
    rows: Rows, transposed: Rows, target: Edges, other: Edges, degree: Float[Tensor, "nodes"]
) -> tuple[Float[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Count the nodes that close a triangle with each edge, once plainly and once weighted by 1 / degree."""
    count = torch.zeros(target.numel(), dtype=torch.double)
    weighed = torch.zeros_like(count)
    for edge, place, _ in matches(transposed, target, rows, other):
        closing = transposed.column[place].long()
        count.index_add_(0, edge, count.new_ones(1).expand_as(edge))
        weighed.index_add_(0, edge, (1.0 / degree[closing].clamp(min=1.0)).double())
    return count.float(), weighed.float()


def _transposed(graph: Graph) -> Rows | None:
    """Return the targets that each node is a neighbour of; None if all edges have a reverse edge."""
    if not graph.is_directed:
        return None
    order = torch.argsort(graph.neighbour, stable=True)
    row_ptr = offsets_of(torch.bincount(graph.neighbour, minlength=graph.num_nodes))
    return Rows(row_ptr, graph.target[order])
