"""Weights of edges, carried over to the order in which a graph keeps its edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet.errors import GraphError
from gdpnet.graph.graph import Graph
from gdpnet.ragged import both_ways


def with_weights(
    graph: Graph,
    edge_index: Int[np.ndarray, "2 given"],
    weight: Float[np.ndarray, "given"],
    *,
    directed: bool,
) -> Graph:
    """Return the graph with the weights of the edges that it was built from.

    Of duplicate edges the first counts; without direction, a link given one way weighs the same both ways.
    """
    if not np.isfinite(weight).all():
        bad = int((~np.isfinite(weight)).argmax())
        raise GraphError(f"edge weights must be finite, found {weight[bad]} on edge number {bad + 1}")
    if (weight <= 0).any():
        bad = int((weight <= 0).argmax())
        raise GraphError(
            f"edge weights must be above zero, found {weight[bad]:g} on edge number {bad + 1}; leave out an edge "
            "that shall not count"
        )
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    value = weight[edge_index[0] != edge_index[1]]
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        value = np.concatenate([value, value])
    _, first = np.unique(target.astype(np.int64) * graph.num_nodes + source, return_index=True)
    return replace(graph, edge_weight=torch.from_numpy(value[first].astype(np.float32)))


def times_weights(graph: Graph, share: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
    """Return a share of each edge times the weight that the edge has, one where the graph has no weights."""
    return share if graph.edge_weight is None else share * graph.edge_weight.to(share.device)


def mutual_weights(graph: Graph) -> Float[Tensor, "edges"]:
    """Return the weight of each edge, the mean of both where the two ways of a link differ; one without weights."""
    if graph.edge_weight is None:
        return torch.ones(graph.num_edges)
    return both_ways(graph.edge_weight, graph.reverse)
