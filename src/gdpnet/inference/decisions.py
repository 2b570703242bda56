"""What is known of the edges of some nodes: their order, the decisions on them, and what speaks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet._core.random import Key
from gdpnet.data.features import normalise, take_rows
from gdpnet.data.graph import Graph
from gdpnet.data.prepare import Prepared
from gdpnet.data.row_products import Rows, matches, row_dots, side_of
from gdpnet.data.schema import EdgeColumns
from gdpnet.inference.model import TrainedModel
from gdpnet.inference.select import Selected, edges_of, play_of, roll_outs
from gdpnet.selection.episodes import View
from gdpnet.selection.policy import agreement


class Visits(NamedTuple):
    """The edges of some nodes, one node after the other, each in the order of its greedy episode."""

    edge: Int[Tensor, "edges"]
    degree: Int[Tensor, "targets"]
    columns: dict[str, list[Any]]
    """Step and draw probability of each edge, None if the episode did not reach it."""
    ended_early: Bool[Tensor, "targets"]


def visit(
    model: TrainedModel, prepared: Prepared, nodes: Int[Tensor, "targets"], view: View | None
) -> Visits:
    """Play the greedy episodes of some nodes; edges that an episode does not reach follow, by node number.

    Without a policy there is no view, and no edge is reached.
    """
    owner, edge = edges_of(prepared, nodes)
    count, policy = edge.numel(), model.networks.policy
    number = torch.full((prepared.neighbour.numel(),), -1, device=edge.device)
    number[edge] = torch.arange(count, device=edge.device)
    order, step = torch.arange(count, device=edge.device) + count, torch.zeros_like(edge)
    draw = torch.zeros(count, device=edge.device)
    ended = torch.zeros(prepared.num_nodes, dtype=torch.bool, device=edge.device)
    if view is not None and policy is not None:
        seed, seen = Key.of(model.seed).fold_in("predict").fold_in("decide").seed32, 0
        play = play_of(model.config, greedy=True)
        for rollout in roll_outs(policy, view, prepared, nodes, model.config, play, seed):
            there = ~rollout.is_ending
            place = number[rollout.episodes.edge[rollout.candidate[there]]]
            order[place] = torch.arange(seen, seen + place.numel(), device=edge.device)
            step[place], draw[place] = rollout.step[there] + 1, rollout.order_log_prob[there].exp()
            ended[rollout.episodes.target[rollout.episode[~there]]] = True
            seen += place.numel()
    sorting = torch.argsort(owner * (2 * count + 1) + order)
    reached = (step > 0)[sorting].tolist()
    columns = {"step": step[sorting].tolist(), "draw_probability": draw[sorting].tolist()}
    columns = {
        name: [one if there else None for one, there in zip(column, reached, strict=True)]
        for name, column in columns.items()
    }
    degree = torch.bincount(owner, minlength=nodes.numel())
    return Visits(edge[sorting], degree, columns, ended[nodes])


@dataclass(frozen=True)
class Links:
    """What was decided on every edge of a graph."""

    selected: Selected
    graph: Graph
    both: Float[Tensor, "edges"]
    """The keep probability of `denoise`, averaged over both directions."""
    kept: Bool[Tensor, "edges"]
    edge_columns: EdgeColumns | None
    """The edge features that the policy observes."""
    genuine: Float[Tensor, "graph_edges"] | None = None
    """The probability that each edge of the graph is genuine, if the model has evidence of it."""

    @classmethod
    def of(
        cls,
        selected: Selected,
        graph: Graph,
        model: TrainedModel,
        genuine: Float[Tensor, "graph_edges"] | None = None,
    ) -> Links:
        """Read a model's decisions on a graph."""
        both, least = selected.prepared.symmetrise(selected.probability), model.threshold.threshold
        kept = (both >= least) & (selected.prepared.linked > 0)
        return cls(selected, graph, both, kept, model.edge_columns, genuine)

    def columns(self, edge: Int[Tensor, "some"]) -> dict[str, list[Any]]:
        """Return the neighbours of some edges, what was decided on the edges, their distance and weight."""
        prepared, probability, count = self.selected.prepared, self.selected.probability, edge.numel()
        reverse = prepared.reverse_edge[edge]
        back = zip(probability[reverse.clamp(min=0)].tolist(), (reverse >= 0).tolist(), strict=True)
        far, weight = prepared.edge is not None, prepared.graph_weight
        return {
            "neighbour": self.graph.node_ids[prepared.neighbour[edge].cpu().numpy()].astype(str).tolist(),
            "distance": (1 + prepared.pairs[edge, 0]).long().tolist() if far else [1] * count,
            "keep_probability": self.both[edge].tolist(),
            "kept": self.kept[edge].tolist(),
            "weight": [None] * count if weight is None else weight[edge].tolist(),
            "keep_by_node": probability[edge].tolist(),
            "keep_by_neighbour": [one if there else None for one, there in back],
            "edge_features": self._features_of(edge),
            "genuine_probability": self._genuine_of(edge),
        }

    def _genuine_of(self, edge: Int[Tensor, "some"]) -> list[float | None]:
        """Return the probability that some edges are genuine, None for candidates beyond neighbours."""
        if self.genuine is None:
            return [None] * edge.numel()
        number = self._edge_numbers(edge.cpu())
        values = self.genuine.cpu()[number.clamp(min=0)].tolist()
        return [one if there >= 0 else None for one, there in zip(values, number.tolist(), strict=True)]

    def _edge_numbers(self, candidate: Int[Tensor, "some"]) -> Int[Tensor, "some"]:
        """Return the edge of the graph that each candidate is, -1 if it is farther away."""
        prepared = self.selected.prepared
        if prepared.edge is None:
            return candidate
        place = torch.full((prepared.neighbour.numel(),), -1)
        place[prepared.edge.cpu()] = torch.arange(prepared.edge.numel())
        return place[candidate]

    def _features_of(self, edge: Int[Tensor, "some"]) -> list[dict[str, float] | None]:
        """Return the features of some edges by name, None for candidates beyond neighbours."""
        read, rows = self.edge_columns, self.graph.edge_features
        if read is None or rows is None:
            return [None] * edge.numel()
        names, given = read.shown_names(), self.graph.edge_feature_names
        by_name = read.names is not None and given is not None
        wanted = [given.index(name) for name in names] if by_name and given else list(range(read.width))
        number = self._edge_numbers(edge.cpu())
        values = rows[number.clamp(min=0)][:, wanted].tolist()
        return [
            dict(zip(names, row, strict=True)) if there >= 0 else None
            for row, there in zip(values, number.tolist(), strict=True)
        ]


class Evidence:
    """What two nodes have in common."""

    def __init__(self, prepared: Prepared, graph: Graph) -> None:
        self.prepared, self.graph = prepared, graph

    def __call__(
        self,
        nodes: Int[Tensor, "nodes"],
        found: Float[Tensor, "nodes classes"],
        one: Int[Tensor, "pairs"],
        other: Int[Tensor, "pairs"],
    ) -> dict[str, list[Any]]:
        """Compare pairs of nodes, given as places among ``nodes``, and the class probabilities of those."""
        side = side_of(normalise(take_rows(self.prepared.features, nodes), "l2"))
        rows, host = Rows(self.graph.row_ptr, self.graph.neighbour), nodes.cpu()
        common = np.zeros(one.numel(), dtype=int)
        for pair, _, _ in matches(rows, host[one.cpu()], rows, host[other.cpu()]):
            common += np.bincount(pair.numpy(), minlength=common.size)
        return {
            "common_neighbours": common.tolist(),
            "cosine": row_dots(side, one, side, other).tolist(),
            "agreement": agreement(found[one], found[other]).tolist(),
        }
