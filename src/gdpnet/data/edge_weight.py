"""Edge weights, checked and brought into the order in which a graph keeps its edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gdpnet._core.csr import symmetrise
from gdpnet.data.graph import Graph
from gdpnet.errors import GraphError

MOST = 1_000_000.0
"""The largest weight: beyond it, single precision loses the node itself, which weighs one, in the mean."""


def with_weights(
    graph: Graph,
    edge_index: Int[np.ndarray, "2 given"],
    weight: Float[np.ndarray, "*any"] | None,
    *,
    directed: bool,
) -> Graph:
    """Return the graph with the weights of the edges that it was built from, unchanged if there are none.

    Weights of duplicate edges are added up. In an undirected graph, an edge given in one direction has its weight in
    both; one given in both directions keeps a weight for each.
    """
    if weight is None:
        return graph
    weight = checked_weights(weight, edge_index.shape[1])
    source, target = edge_index[:, edge_index[0] != edge_index[1]].astype(np.int64)
    nodes, value = graph.num_nodes, weight[edge_index[0] != edge_index[1]]
    key, place = np.unique(target * nodes + source, return_inverse=True)
    total = np.bincount(place, value, key.size)
    notes = ("the weights of duplicate edges were added up",) if key.size < value.size else ()
    if not directed:
        reverse = key % nodes * nodes + key // nodes
        _, first = np.unique(np.append(key, reverse), return_index=True)
        total = np.append(total, total)[first]
    if total.size and total.max() > MOST:
        found = f"{total.max():g} after those of duplicate edges were added up"
        raise GraphError(f"edge weights must be at most {MOST:,.0f}, found {found}")
    return replace(graph, edge_weight=torch.from_numpy(total.astype(np.float32))).with_notes(*notes)


def checked_weights(
    weight: Float[np.ndarray, "*any"], edges: int, before: int = 0
) -> Float[np.ndarray, "given"]:
    """Return weights in single precision; refuse unusable ones by their number, counted after ``before`` others."""
    if weight.shape != (edges,):
        raise GraphError(
            f"there must be one weight per edge ({edges}), found an array of shape {weight.shape}"
        )
    with np.errstate(over="ignore", under="ignore"):
        single = weight.astype(np.float32)
    for bad, rule in (
        (~np.isfinite(single), "be finite"),
        (single <= 0, "be above zero (leave out an edge that should not count)"),
        (single > MOST, f"be at most {MOST:,.0f} (the node itself weighs one; divide them by their mean)"),
    ):
        if bad.any():
            place = int(bad.argmax())
            raise GraphError(
                f"edge weights must {rule}, found {weight[place]:g} on edge number {before + place + 1}"
            )
    return single


def times_weights(graph: Graph, share: Float[Tensor, "edges"]) -> Float[Tensor, "edges"]:
    """Return the share of each edge times its weight; edges of an unweighted graph weigh one."""
    return share if graph.edge_weight is None else share * graph.edge_weight.to(share.device)


def mutual_weights(graph: Graph) -> Float[Tensor, "edges"]:
    """Return the weight of each edge, the mean of both directions if they differ; one if unweighted."""
    if graph.edge_weight is None:
        return torch.ones(graph.num_edges)
    return symmetrise(graph.edge_weight, graph.reverse)
