"""What the links around a node say of it: feature rows for graphs that come without any.

Rows are made of the node's surroundings alone, so that they mean the same on every graph: for nodes that were not
there when a model was trained, and for other graphs. Each number is spread over two neighbouring bins of a fixed
grid, so that nothing must be fitted, and the mean of several rows is close to a histogram.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import cut_rows, find_in_rows, offsets_of, owners_of, sum_by_owner
from gdpnet.data.graph import Graph
from gdpnet.data.row_products import Rows, matches

STRUCTURAL = (
    ("degree", 12, 1.0),
    ("hearers", 12, 1.0),
    ("mean degree of neighbours", 6, 2.0),
    ("largest degree of a neighbour", 6, 2.0),
    ("closed triangles", 5, 0.25),
    ("return in two steps", 5, 0.25),
    ("return in three steps", 5, 0.25),
)
"""What is told of a node: a name, the number of bins, and how far they are apart; degrees as log2(1 + d)."""

WIDTH = sum(bins for _, bins, _ in STRUCTURAL)

_EDGES = 1 << 20
"""Edges worked on at once, so that what lies between does not grow with the graph."""


def with_structure(graph: Graph) -> Graph:
    """Return the graph with rows made of its links in place of features."""
    return replace(graph, features=structural_rows(graph), feature_names=None)


def structural_rows(graph: Graph) -> Float[Tensor, "nodes columns"]:
    """Return one row a node, the groups of `STRUCTURAL` side by side."""
    told = _told(graph)
    return torch.cat(
        [_in_bins(value, bins, step) for value, (_, bins, step) in zip(told, STRUCTURAL, strict=True)], dim=1
    )


def _in_bins(value: Float[Tensor, "nodes"], bins: int, step: float) -> Float[Tensor, "nodes bins"]:
    """Share each value out between the two bins that it lies between."""
    place = (value / step).clamp(0.0, bins - 1.0)
    low = place.floor().long().clamp(max=bins - 2)
    part = (place - low)[:, None]
    rows = value.new_zeros(value.numel(), bins)
    return rows.scatter_(1, low[:, None], 1.0 - part).scatter_(1, low[:, None] + 1, part)


def _told(graph: Graph) -> list[Float[Tensor, "nodes"]]:
    """Return the numbers that `STRUCTURAL` names, a column each."""
    nodes, row_ptr, neighbour = graph.num_nodes, graph.row_ptr, graph.neighbour
    degree = row_ptr.diff().float()
    size = (1.0 + degree).log2()
    hearers = torch.zeros(nodes)
    mean, largest, closed, twice, thrice = (torch.zeros(nodes) for _ in range(5))
    rows = Rows(row_ptr, neighbour, partial(find_in_rows, row_ptr, neighbour))
    turned = _turned(graph)
    for first, last in cut_rows(row_ptr, _EDGES):
        bounds, count = row_ptr[first : last + 1], last - first
        here = owners_of(bounds.diff())
        target, other = here + first, neighbour[int(bounds[0]) : int(bounds[-1])].long()
        part = slice(first, last)
        hearers.index_add_(0, other, torch.ones_like(size[other]))
        mean[part] = sum_by_owner(size[other], here, count) / degree[part].clamp(min=1.0)
        largest[part] = largest[part].scatter_reduce(0, here, size[other], "amax")
        share = 1.0 / (degree[target] * degree[other]).clamp(min=1.0)
        back = find_in_rows(row_ptr, neighbour, other, target) >= 0
        twice[part] = sum_by_owner(share * back, here, count)
        triangles, weighed = _triangles(rows, turned or rows, target, other, degree)
        closed[part] = sum_by_owner(triangles, here, count)
        thrice[part] = sum_by_owner(share * weighed, here, count)
    closed /= (degree * (degree - 1.0)).clamp(min=1.0)
    return [size, (1.0 + hearers).log2(), mean, largest, closed, twice, thrice]


def _triangles(
    rows: Rows,
    turned: Rows,
    target: Int[Tensor, "edges"],
    other: Int[Tensor, "edges"],
    degree: Float[Tensor, "nodes"],
) -> tuple[Float[Tensor, "edges"], Float[Tensor, "edges"]]:
    """Count the nodes that close a triangle with each edge: plainly, and each by one over its degree."""
    count = torch.zeros(target.numel(), dtype=torch.double)
    weighed = torch.zeros_like(count)
    for edge, place, _ in matches(turned, target, rows, other):
        closing = turned.column[place].long()
        count.index_add_(0, edge, count.new_ones(1).expand_as(edge))
        weighed.index_add_(0, edge, (1.0 / degree[closing].clamp(min=1.0)).double())
    return count.float(), weighed.float()


def _turned(graph: Graph) -> Rows | None:
    """Return who hears each node, where that is not whom it hears: in a graph with one-way edges."""
    if all(
        bool((find_in_rows(graph.row_ptr, graph.neighbour, other, target) >= 0).all())
        for target, other in _ends(graph)
    ):
        return None
    order = torch.argsort(graph.neighbour, stable=True)
    row_ptr = offsets_of(torch.bincount(graph.neighbour, minlength=graph.num_nodes))
    column = graph.target[order]
    return Rows(row_ptr, column, partial(find_in_rows, row_ptr, column))


def _ends(graph: Graph) -> Iterator[tuple[Int[Tensor, "some"], Int[Tensor, "some"]]]:
    """Yield the targets and neighbours of all edges, some at a time."""
    for first, last in cut_rows(graph.row_ptr, _EDGES):
        bounds = graph.row_ptr[first : last + 1]
        yield (
            owners_of(bounds.diff()) + first,
            graph.neighbour[int(bounds[0]) : int(bounds[-1])].long(),
        )
